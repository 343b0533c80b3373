"""`docker compose` on an engine of the tests: the services come up, and a rollout is asked of the head server."""

import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker

from benchmarks.visual_puzzles_opencode.prepare import prepare as prepare_puzzles
from gym_core.capture.images import REFERENCE_PREFIX
from gym_core.datasets.prepared import assets_of
from gym_core.types.wire import JsonObject
from tests.live.docker_engine import REPOSITORY, Programs

ENVIRONMENT = "visual_puzzles_opencode"
READY_TIMEOUT_S = 240.0
ROLLOUT_TIMEOUT_S = 400
ASK = """
import os, sys, urllib.request
request = urllib.request.Request(
    f"http://127.0.0.1:8000{sys.argv[1]}",
    sys.stdin.buffer.read() or None,
    {"Authorization": "Bearer " + os.environ["GYM_RUN_TOKEN"], "Content-Type": "application/json"},
)
print(urllib.request.urlopen(request, timeout=float(sys.argv[2])).read().decode())
"""


@dataclass(frozen=True)
class Project:
    name: str
    programs: Programs
    env: dict[str, str]
    files: tuple[str, ...]
    """Of the repository, each laid over the one before."""

    def compose(self, *words: str, stdin: bytes = b"", timeout_s: float = 300) -> str:
        files = [word for name in self.files for word in ("--file", str(REPOSITORY / name))]
        done = subprocess.run(
            [*self.programs.compose, "--project-name", self.name, *files, *words],
            env=self.env,
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            logs = self.compose("logs", "--tail", "20") if words[0] == "up" else ""
            raise AssertionError(f"{done.stderr.decode()[-2000:]}\n{logs}")
        return done.stdout.decode()

    def play(self, folder: Path) -> JsonObject:
        """The flat row of one episode, once all services are healthy."""
        self.compose("up", "--detach", "--no-build", timeout_s=READY_TIMEOUT_S)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while (states := self.health()).get("head") != "healthy":
            assert time.monotonic() < deadline, (states, self.compose("logs", "--tail", "20"))
            time.sleep(1)
        assert {name: state for name, state in states.items() if state != "healthy"} == {"sandbox_image": "none"}
        body = json.dumps(a_puzzle(folder)).encode()
        row = self.ask_head(f"/environments/{ENVIRONMENT}/run", body, ROLLOUT_TIMEOUT_S)
        assert (row["reward"], row["failure_kind"]) == (1.0, None), (row["failure_reason"], self.compose("logs"))
        return row

    def health(self) -> dict[str, str]:
        """Service to its state."""
        api = docker.DockerClient(base_url=self.env["DOCKER_HOST"], timeout=60)
        try:
            label = f"com.docker.compose.project={self.name}"
            return {
                container.labels["com.docker.compose.service"]: container.attrs["State"]
                .get("Health", {})
                .get("Status", "none")
                for container in api.containers.list(all=True, filters={"label": label})
            }
        finally:
            api.close()

    def ask_head(self, path: str, body: bytes = b"", timeout_s: float = 30) -> JsonObject:
        """From inside the head's container: the port that it publishes is in the engine's own network."""
        words = ("exec", "-T", "head", "python3", "-c", ASK, path, str(timeout_s))
        reply: JsonObject = json.loads(self.compose(*words, stdin=body, timeout_s=timeout_s + 30))
        return reply


def scripted_config(folder: Path) -> Path:
    """The configuration that users get, with a policy that needs no endpoint and puzzles that need no judge."""
    text = (REPOSITORY / "compose/gym.yaml").read_text()
    for old, new in (
        ("benchmarks/babyvision_opencode", f"benchmarks/{ENVIRONMENT}"),
        ("model_servers/vllm_model/configs/vllm_model", "model_servers/scripted_model/configs/scripted_model"),
        ("vllm_model: {", "scripted_model: {"),
    ):
        assert old in text
        text = text.replace(old, new)
    path = folder / "gym.yaml"
    path.write_text(text)
    path.chmod(0o644)
    return path


@contextmanager
def open_project(
    folder: Path, programs: Programs, environment: Mapping[str, str], *, files: tuple[str, ...] = ("compose.yaml",)
) -> Iterator[Project]:
    """`environment` has DOCKER_HOST, and what else the files want. Nothing is left of the services afterwards."""
    env = {
        **programs.compose_env,
        "GYM_COMPOSE_CONFIG": str(scripted_config(folder)),
        "GYM_RUN_TOKEN": secrets.token_hex(16),
        "POLICY_BASE_URL": "http://127.0.0.1:9/v1",
        "POLICY_MODEL": "scripted",
        **environment,
    }
    project = Project(f"gymtest{os.getpid()}", programs, env, files)
    try:
        yield project
    finally:
        project.compose("down", "--volumes", "--timeout", "5")


def a_puzzle(folder: Path) -> JsonObject:
    path = prepare_puzzles({"seed": 0, "per_level": 1}, folder / "puzzles.jsonl")
    row: JsonObject = json.loads(path.read_text().splitlines()[0])
    images = assets_of(path)
    for item in row["responses_create_params"]["input"]:
        for part in item["content"]:
            if part["type"] == "input_image":
                part["image_url"] = images.data_url(part["image_url"].removeprefix(REFERENCE_PREFIX))
    return row
