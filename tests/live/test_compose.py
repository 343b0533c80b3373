"""`docker compose up` on a real engine: five servers in containers, and a rollout whose sandbox is one more."""

from pathlib import Path

import pytest

from tests.live.compose_project import open_project
from tests.live.docker_engine import SANDBOX, NoEngine, prepare
from tests.sandboxes.containers import docker_settings

pytestmark = [pytest.mark.live, pytest.mark.docker, pytest.mark.slow]


def test_the_services_come_up_and_play_a_rollout(tmp_path: Path) -> None:
    host = docker_settings(tmp_path).url
    try:
        programs = prepare()
    except NoEngine as error:
        pytest.skip(str(error))
    environment = {
        "DOCKER_HOST": host,
        "GYM_DOCKER_SOCKET": host.removeprefix("unix://"),
        "VISUAL_CODING_OPENCODE_SANDBOX_IMAGE": SANDBOX,
    }
    with open_project(tmp_path, programs, environment) as project:
        row = project.play(tmp_path)
    assert (row["_gym_sandbox"]["provider"], row["_gym_sandbox"]["network"]) == ("docker", "exact_port")
