"""Who reaches whom among the services of `docker compose`, tried from inside each of them on a real engine; and the
files before the program that reads them.
"""

import contextlib
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
import yaml

from tests.live.compose_project import READY_TIMEOUT_S, Project, open_project
from tests.live.docker_engine import PYTHON, REPOSITORY, SANDBOX, NoEngine, prepare
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


OUTSIDE, GATE = "198.18.0.2", "198.18.0.1"
SERVE = """
import socket
print("here", flush=True)
listener = socket.create_server(("0.0.0.0", 80))
while True:
    listener.accept()[0].close()
"""
CALL = f"""
import socket
try:
    socket.create_connection(("{OUTSIDE}", 80), 4).close()
    print("reached")
except OSError:
    print("refused")
"""


@contextlib.contextmanager
def machine_outside(engine_network: str) -> Iterator[None]:
    """One on the other side of the engine's machine: like any on the internet, it knows no way back to containers."""

    def within(network: str, script: str) -> None:
        subprocess.run(["nsenter", f"--net={network}", "sh", "-ec", script], check=True, timeout=20)

    with subprocess.Popen(["unshare", "--net", sys.executable, "-c", SERVE], stdout=subprocess.PIPE) as outside:
        try:
            assert outside.stdout
            assert outside.stdout.readline() == b"here\n"
            peer = f"ip link add gymout type veth peer name gymin netns {outside.pid}"
            within(engine_network, f"{peer}; ip addr add {GATE}/30 dev gymout; ip link set gymout up")
            within(f"/proc/{outside.pid}/ns/net", f"ip addr add {OUTSIDE}/30 dev gymin; ip link set gymin up")
            yield
        finally:
            outside.kill()  # the pair of devices goes with its network


@pytest.mark.parametrize(("network", "outcome"), [("callers", "refused"), ("policy_endpoint", "reached")])
def test_the_head_s_network_leads_in_and_not_out(project: Project, network: str, outcome: str) -> None:
    options = (yaml.safe_load((REPOSITORY / "compose.yaml").read_text())["networks"][network] or {}).get("driver_opts")
    api = docker.DockerClient(base_url=project.env["DOCKER_HOST"], timeout=60)
    made = api.networks.create(f"{project.name}-{network}", driver="bridge", options=options)
    try:
        with machine_outside(network_of_engine(project)):
            said = api.containers.run(PYTHON, ["python3", "-c", CALL], network=made.name, remove=True)
    finally:
        made.remove()
        api.close()
    assert said.decode().strip() == outcome
