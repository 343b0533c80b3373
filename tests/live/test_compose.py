"""`docker compose up` on a real engine: five servers in containers, and a rollout whose sandbox is one more."""

import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from benchmarks.visual_puzzles_opencode.prepare import prepare as prepare_puzzles
from gym_core.capture.images import REFERENCE_PREFIX
from gym_core.datasets.prepared import assets_of
from gym_core.types.wire import JsonObject
from tests.live.docker_engine import REPOSITORY, SANDBOX, NoEngine, Programs, prepare
from tests.sandboxes.containers import docker_settings

pytestmark = [pytest.mark.live, pytest.mark.docker, pytest.mark.slow]

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

    def compose(self, *words: str, stdin: bytes = b"", timeout_s: float = 300) -> str:
        done = subprocess.run(
            [*self.programs.compose, "--project-name", self.name, "--file", str(REPOSITORY / "compose.yaml"), *words],
            env=self.env,
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        return done.stdout.decode()

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


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    host = docker_settings(tmp_path).url
    try:
        programs = prepare()
    except NoEngine as error:
        pytest.skip(str(error))
    env = {
        **programs.compose_env,
        "DOCKER_HOST": host,
        "GYM_DOCKER_SOCKET": host.removeprefix("unix://"),
        "GYM_COMPOSE_CONFIG": str(scripted_config(tmp_path)),
        "GYM_RUN_TOKEN": secrets.token_hex(16),
        "POLICY_BASE_URL": "http://127.0.0.1:9/v1",
        "POLICY_MODEL": "scripted",
        "VISUAL_CODING_OPENCODE_SANDBOX_IMAGE": SANDBOX,
    }
    found = Project(f"gymtest{os.getpid()}", programs, env)
    try:
        yield found
    finally:
        found.compose("down", "--volumes", "--timeout", "5")


def health(host: str, project: str) -> dict[str, str]:
    """Service to its state."""
    api = docker.DockerClient(base_url=host, timeout=60)
    try:
        containers = api.containers.list(all=True, filters={"label": f"com.docker.compose.project={project}"})
        return {
            container.labels["com.docker.compose.service"]: container.attrs["State"]
            .get("Health", {})
            .get("Status", "none")
            for container in containers
        }
    finally:
        api.close()


def a_puzzle(folder: Path) -> JsonObject:
    path = prepare_puzzles({"seed": 0, "per_level": 1}, folder / "puzzles.jsonl")
    row: JsonObject = json.loads(path.read_text().splitlines()[0])
    images = assets_of(path)
    for item in row["responses_create_params"]["input"]:
        for part in item["content"]:
            if part["type"] == "input_image":
                part["image_url"] = images.data_url(part["image_url"].removeprefix(REFERENCE_PREFIX))
    return row


def test_the_services_come_up_and_play_a_rollout(project: Project, tmp_path: Path) -> None:
    project.compose("up", "--detach", "--no-build", timeout_s=READY_TIMEOUT_S)
    host, deadline = project.env["DOCKER_HOST"], time.monotonic() + READY_TIMEOUT_S
    while (states := health(host, project.name)).get("head") != "healthy":
        assert time.monotonic() < deadline, (states, project.compose("logs", "--tail", "20"))
        time.sleep(1)
    assert {name: state for name, state in states.items() if state != "healthy"} == {"sandbox_image": "none"}

    body = json.dumps(a_puzzle(tmp_path)).encode()
    row = project.ask_head(f"/environments/{ENVIRONMENT}/run", body, ROLLOUT_TIMEOUT_S)
    assert (row["reward"], row["failure_kind"]) == (1.0, None), (row["failure_reason"], project.compose("logs"))
    assert (row["_gym_sandbox"]["provider"], row["_gym_sandbox"]["network"]) == ("docker", "exact_port")
