"""`docker compose` with compose/opensandbox.yaml: servers in containers, without the engine's socket, whose sandboxes
are made by an OpenSandbox server outside. Here that server, its sandboxes and these containers share one engine.
"""

import os
from pathlib import Path

import pytest

from tests.live.compose_project import open_project
from tests.live.docker_engine import NoEngine, client, prepare
from tests.live.gyms import needs_toolkit
from tests.live.houses import OPENCODE_IMAGE, make_opencode_image
from tests.live.opensandbox_server import ADDRESS, DOCKER, KEY, PORT, SECOND, WHY_NONE
from tests.sandboxes.opensandbox import gateway_of

pytestmark = [pytest.mark.live, pytest.mark.opensandbox, pytest.mark.slow]

BUILT_BESIDE = "visual-coding-opencode"
"""An image that these files build too; nothing here runs in it."""

FILES = ("compose.yaml", "compose/opensandbox.yaml")


@needs_toolkit
def test_the_services_play_a_rollout_in_a_sandbox_of_a_server_outside(tmp_path: Path) -> None:
    if ADDRESS not in os.environ:
        pytest.skip(os.environ.get(WHY_NONE, "no OpenSandbox server for tests: `make test-opensandbox` starts one"))
    try:
        programs = prepare()
    except NoEngine as error:
        pytest.skip(str(error))
    make_opencode_image()
    engine = client(os.environ[DOCKER])
    try:
        engine.tag(OPENCODE_IMAGE, BUILT_BESIDE)
        environment = {
            "DOCKER_HOST": os.environ[DOCKER],
            "OPENSANDBOX_DOMAIN": f"{gateway_of(engine)}:{PORT}",
            "OPENSANDBOX_PROTOCOL": "http",
            "OPENSANDBOX_API_KEY": os.environ[KEY],
            "OPENSANDBOX_USE_SERVER_PROXY": "true",  # their own ports are published on that machine's loopback
            "GYM_RELAY_ADDRESS": f"{SECOND}:8000",
            "VISUAL_CODING_OPENCODE_SANDBOX_IMAGE": OPENCODE_IMAGE,
        }
        with open_project(tmp_path, programs, environment, files=FILES) as project:
            row = project.play(tmp_path)
            resources = engine.inspect_container(f"{project.name}_resources_1")
    finally:
        engine.close()
    assert (row["_gym_sandbox"]["provider"], row["_gym_sandbox"]["network"]) == ("opensandbox", "host")
    sources = {mount.get("Source") for mount in resources["Mounts"]}
    assert not any(str(source).endswith("docker.sock") for source in sources)
    assert resources["Config"]["User"] == "1000:1000"
