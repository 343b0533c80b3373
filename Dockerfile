# Every server of the gym, one image: the command says which one a container is (compose.yaml). It holds no OpenCode and
# no toolkit: those are in the sandbox image (sandbox_image/Dockerfile).
#
#     docker build -t visual-agent-gym .

# Pin it to what you trust: --build-arg BASE=python:3.12-slim@sha256:... (no digest stands here that was not seen).
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
# Another registry than the public one, where it is needed.
ARG PIP_INDEX_URL
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY gym_core/ gym_core/
COPY resources_servers/ resources_servers/
COPY agent_servers/ agent_servers/
COPY model_servers/ model_servers/
COPY benchmarks/ benchmarks/
COPY sandbox_image/ sandbox_image/
RUN python3 -m venv /opt/gym && /opt/gym/bin/pip install --no-cache-dir '.[image-tools]'

FROM ${BASE}
RUN groupadd --gid 1000 gym \
    && useradd --uid 1000 --gid 1000 --home-dir /home/gym --create-home gym \
    && install --directory --owner=1000 --group=1000 /results
COPY --from=build /opt/gym /opt/gym
ENV PATH=/opt/gym/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    GYM_STATE_DIR=/tmp/gym
USER 1000:1000
WORKDIR /results
ENTRYPOINT ["gym"]
CMD ["--help"]
