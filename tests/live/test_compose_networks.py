"""Who reaches whom among the services of `docker compose`, tried from inside each of them on a real engine; and the
files before the program that reads them.
"""

import json
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.live.compose_project import READY_TIMEOUT_S, Project, open_project
from tests.live.docker_engine import SANDBOX, NoEngine, prepare
from tests.sandboxes.containers import docker_settings

pytestmark = [pytest.mark.live, pytest.mark.docker, pytest.mark.slow]

SERVERS = ("head", "policy", "judge", "agent", "resources")
PORT = 8000
LOOK = """
import json, os, socket, sys
reached = []
for name, addresses in json.loads(sys.argv[1]).items():
    for address in addresses:
        try:
            socket.create_connection((address, int(sys.argv[2])), 1).close()
        except OSError:
            continue
        reached.append(name)
        break
print(json.dumps([sorted(reached), os.path.exists("/var/run/docker.sock")]))
"""
FETCH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).status)"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
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
    with open_project(tmp_path, programs, environment) as opened:
        yield opened


def addresses_of(project: Project) -> dict[str, list[str]]:
    """Service to its name and its address in each of its networks."""
    api = docker.DockerClient(base_url=project.env["DOCKER_HOST"], timeout=60)
    try:
        label = f"com.docker.compose.project={project.name}"
        containers = api.containers.list(filters={"label": label})
        return {
            service: [
                service,
                *(network["IPAddress"] for network in container.attrs["NetworkSettings"]["Networks"].values()),
            ]
            for container in containers
            if (service := container.labels["com.docker.compose.service"]) in SERVERS
        }
    finally:
        api.close()


def network_of_engine(project: Project) -> str:
    """That of the process that listens at its socket: where published ports are."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(project.env["GYM_DOCKER_SOCKET"])
        about = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return f"/proc/{struct.unpack('3i', about)[0]}/ns/net"


def test_each_service_reaches_whom_the_document_says_and_one_has_the_engine_s_socket(project: Project) -> None:
    project.compose("up", "--detach", "--no-build", timeout_s=READY_TIMEOUT_S)
    deadline = time.monotonic() + READY_TIMEOUT_S
    while project.health().get("head") != "healthy":
        assert time.monotonic() < deadline, project.compose("logs", "--tail", "20")
        time.sleep(1)
    addresses = addresses_of(project)
    assert set(addresses) == set(SERVERS)
    seen = {}
    for name in SERVERS:
        others = {other: found for other, found in addresses.items() if other != name}
        seen[name] = json.loads(
            project.compose("exec", "-T", name, "python3", "-c", LOOK, json.dumps(others), str(PORT))
        )
    assert seen == {
        "head": [["agent", "judge", "policy", "resources"], False],
        "resources": [["agent", "head", "judge", "policy"], True],
        **{name: [["head", "resources"], False] for name in ("policy", "judge", "agent")},
    }
    published = f"http://127.0.0.1:{project.env.get('GYM_PORT', '11000')}/livez"
    argv = ["nsenter", f"--net={network_of_engine(project)}", "python3", "-c", FETCH, published]
    fetched = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert fetched.stdout == "200\n", fetched.stderr


@pytest.mark.parametrize("over", [(), ("compose/opensandbox.yaml",)], ids=["alone", "with opensandbox"])
def test_the_program_takes_the_files_and_asks_for_what_is_missing(project: Project, over: tuple[str, ...]) -> None:
    files = [word for name in ("compose.yaml", *over) for word in ("--file", name)]
    given = {**project.env, "OPENSANDBOX_DOMAIN": "sandboxes.example.com", "GYM_RELAY_ADDRESS": "10.0.0.9:8000"}
    argv = [*project.programs.compose, *files, "config", "--quiet"]
    taken = subprocess.run(argv, env=given, capture_output=True, text=True, timeout=60, check=False)
    assert taken.returncode == 0, taken.stderr
    lacking = {name: value for name, value in given.items() if name != "GYM_RUN_TOKEN"}
    refused = subprocess.run(argv, env=lacking, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode != 0
    assert "set it to a long random word" in refused.stderr
