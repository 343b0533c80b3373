# The two commands that matter: `make demo` and `make test`. Each does all set-up by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TINY_VLM_STAMP := $(VENV)/.tiny-vlm-installed
DEMO_OUTPUT ?= results/demo/puzzles.jsonl
# Live tests kill real processes and flood real kernels: one that fails is tried once more, and is named at the end.
LIVE_PYTEST := $(BIN)/python -m pytest --reruns 1 -rsR

.PHONY: setup toolkit demo test test-live test-docker test-opensandbox test-viewer screenshots tiny-vlm vllm test-vllm train-tiny lint schema bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev,bubblewrap]'
	touch $(STAMP)

# What sandboxes carry: OpenCode, ripgrep, Python with image packages. Built once for a machine, then only checked.
toolkit: setup
	$(BIN)/gym sandbox build

# torch and transformers, for the policy with weights in examples/ and in the live tests.
tiny-vlm: $(TINY_VLM_STAMP)

$(TINY_VLM_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet -e '.[tiny-vlm]'
	touch $(TINY_VLM_STAMP)

# A CPU build of vLLM in an environment of its own. Where it cannot be had, says why and lets the tests skip.
vllm: setup
	$(BIN)/python -m tests.live.install_vllm .venv-vllm

# Real OpenCode in real sandboxes, played by a policy without weights that looks at the pixels.
demo: toolkit
	$(BIN)/gym eval prepare --benchmark visual_puzzles_opencode
	$(BIN)/gym eval run --benchmark visual_puzzles_opencode --model-type scripted_model \
		++reuse_existing_data_preparation=true --concurrency 2 --output $(DEMO_OUTPUT)
	@echo
	@echo "That was a policy without weights. Now a real model, behind any OpenAI-compatible endpoint:"
	@echo "  $(BIN)/gym eval run --benchmark visual_puzzles_opencode --model-type vllm_model --output results/mine.jsonl \\"
	@echo "    ++policy_base_url=http://HOST:8000/v1 ++policy_api_key=EMPTY ++policy_model_name=MODEL"

test: setup
	$(BIN)/python -m pytest -n 6 -m "not slow and not live"

# Needs the toolkit; takes minutes.
test-live: toolkit tiny-vlm
	$(LIVE_PYTEST) -n 2 --dist loadfile -m "(slow or live) and not vllm and not docker and not opensandbox and not viewer"

# The Docker provider, and `docker compose up`, on a real engine that is started for it where that can be.
test-docker: toolkit
	$(BIN)/python -m tests.live.docker_engine $(LIVE_PYTEST) -m docker

# The OpenSandbox provider, and `docker compose` with it, on the real opensandbox-server before such an engine, with
# stand-ins for its two images. Skips with the reason where neither can be started.
test-opensandbox: toolkit
	$(BIN)/python -m tests.live.opensandbox_server $(LIVE_PYTEST) -m opensandbox

# The page of `gym view` in a real headless Chromium: one on the path, or Debian's, fetched once and not installed.
test-viewer: setup
	$(LIVE_PYTEST) -n 2 --dist loadfile -m viewer tests/live/viewer

# The pictures of that page in the documents, of the demo's run.
screenshots: setup
	test -f $(DEMO_OUTPUT) || $(MAKE) demo
	$(BIN)/python -m tests.live.viewer.screenshots $(DEMO_OUTPUT) docs/images

# The tiny policy's server beside the real vLLM, wire by wire. Minutes, most of them the installation.
test-vllm: tiny-vlm vllm
	$(LIVE_PYTEST) -m vllm

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# GRPO on a tiny vision model through the whole gym: reward from chance to above 0.9, on a CPU, in minutes.
train-tiny: tiny-vlm
	$(BIN)/python -m examples.tiny_grpo

# The JSON Schema of training samples, after a change of their class.
schema: setup
	$(BIN)/python -m gym_core.export.schema docs/training-sample.schema.json

bench: toolkit
	$(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) .venv-vllm results
