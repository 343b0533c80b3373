"""The real opensandbox-server for tests, in front of a Docker engine of the tests' own.

    python -m tests.live.opensandbox_server COMMAND...

runs a command with GYM_TEST_OPENSANDBOX set to the server's address, in the network namespace that the engine and the
server share, which leads nowhere else. The server comes from its Python package, in an environment of its own; the two
images that it needs are stand-ins (`opensandbox_standins`). Takes some three minutes the first time on a machine.
"""

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import docker

from gym_core.sandbox.toolkit.cache import make_cache_folder
from tests.live.debian_packages import NoPackages, download
from tests.live.docker_engine import (
    BASE,
    NoEngine,
    Programs,
    RunningEngine,
    build_services,
    load_images,
    open_engine,
    prepare,
)

ADDRESS, KEY, WHY_NONE = "GYM_TEST_OPENSANDBOX", "GYM_TEST_OPENSANDBOX_KEY", "GYM_TEST_NO_OPENSANDBOX"
DOCKER = "GYM_TEST_OPENSANDBOX_DOCKER"
"""The engine's address, for looks and kills behind the server's back."""

SANDBOX_IMAGE = "gym-test-opensandbox"
SECOND = "198.18.0.1"
"""Another address of the engine's machine, in the network namespace that is its own."""

PORT = 8090
"""On every address of that machine, for services in containers to reach it too."""

PIDS = 256
"""The server's limit, one for all its sandboxes."""

_EXECD_IMAGE, _EGRESS_IMAGE = "gym-standin-execd", "gym-standin-egress"
_SERVER_PACKAGE = "opensandbox-server>=1.1.1,<1.2"
_NFTABLES = (
    *("nftables", "libnftables1", "libnftnl11", "libmnl0", "libjansson4", "libedit2", "libbsd0", "libxtables12"),
)
_STANDINS = Path(__file__).parent / "opensandbox_standins"
_START_TIMEOUT_S = 60.0
_LOOK_S = 0.2

_SANDBOX_DOCKERFILE = f"""
FROM {BASE}
RUN groupadd --gid 1000 agent && useradd --uid 1000 --gid 1000 --home-dir /home/agent --create-home agent \\
    && install --directory --owner=1000 --group=1000 /workspace
"""
_EXECD_DOCKERFILE = f"""
FROM {BASE}
COPY execd.py /execd
COPY bootstrap.sh /bootstrap.sh
RUN chmod 755 /execd /bootstrap.sh
"""
_EGRESS_DOCKERFILE = f"""
FROM {BASE}
COPY egress.py /egress
COPY debs /debs
RUN dpkg --install /debs/*.deb && rm -r /debs && chmod 755 /egress
CMD ["/egress"]
"""


def config_text(key: str, folder: Path) -> str:
    """As an administrator writes it who follows our page on OpenSandbox."""
    return f"""
[server]
host = "0.0.0.0"
port = {PORT}
api_key = "{key}"

[log]
level = "WARNING"

[runtime]
type = "docker"
execd_image = "{_EXECD_IMAGE}"

[storage]
allowed_host_paths = ["{tempfile.gettempdir()}"]

[store]
type = "sqlite"
path = "{folder}/store.db"

[docker]
network_mode = "bridge"
publish_host = "127.0.0.1"
drop_capabilities = ["AUDIT_WRITE", "MKNOD", "NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE",
    "SYS_TIME", "SYS_TTY_CONFIG"]
no_new_privileges = true
pids_limit = {PIDS}

[egress]
image = "{_EGRESS_IMAGE}"
mode = "dns+nft"
"""


def _install_server() -> Path:
    """The program. Raises NoEngine."""
    folder = make_cache_folder() / "opensandbox-server"
    folder.mkdir(exist_ok=True)
    program = folder / "venv" / "bin" / "opensandbox-server"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            venv.create(folder / "venv", with_pip=True, clear=True)
            _run([str(folder / "venv" / "bin" / "pip"), "install", "--quiet", _SERVER_PACKAGE])
    return program


def _fetch_nftables() -> Path:
    """Its packages, with all that a minimal system lacks of what they need. Raises NoEngine."""
    folder = make_cache_folder() / "opensandbox-server" / "debs"
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        try:
            download(_NFTABLES, part)
        except NoPackages as error:
            raise NoEngine(str(error)) from error
        part.rename(folder)
    return folder


def _offer_iptables(programs: Programs, folder: Path) -> None:
    """What installing the package would have set up: the daemon looks for these names, and they for their modules."""
    for name in ("iptables", "ip6tables"):
        (folder / name).symlink_to(programs.root / "usr" / "sbin" / f"{name}-nft")
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
    (modules,) = programs.root.glob("usr/lib/*/xtables")
    os.environ["XTABLES_LIBDIR"] = str(modules)


def _build_images(engine: RunningEngine, debs: Path) -> None:
    api = docker.DockerClient(base_url=engine.host, timeout=600)
    try:
        dockerfiles = {
            SANDBOX_IMAGE: _SANDBOX_DOCKERFILE,
            _EXECD_IMAGE: _EXECD_DOCKERFILE,
            _EGRESS_IMAGE: _EGRESS_DOCKERFILE,
        }
        for tag, dockerfile in dockerfiles.items():
            with tempfile.TemporaryDirectory() as context:
                shutil.copytree(_STANDINS, context, dirs_exist_ok=True)
                shutil.copytree(debs, f"{context}/debs")
                Path(context, "Dockerfile").write_text(dockerfile)
                api.images.build(path=context, tag=tag, rm=True, network_mode="host")
    finally:
        api.close()


def _inside(engine: RunningEngine, command: Sequence[str]) -> list[str]:
    """A command line in the engine's network namespace; by its file, so that /sys stays as it is."""
    return ["nsenter", f"--net=/proc/{engine.pid}/ns/net", "--", *command]


@contextmanager
def _open_server(engine: RunningEngine, program: Path, key: str) -> Iterator[None]:
    folder = Path(tempfile.mkdtemp(prefix="gym-opensandbox-"))
    config, log = folder / "server.toml", folder / "log"
    config.write_text(config_text(key, folder))
    environment = {**os.environ, "DOCKER_HOST": engine.host, "SANDBOX_CONFIG_PATH": str(config), "HOME": str(folder)}
    try:
        with log.open("wb") as output:
            server = subprocess.Popen(
                _inside(engine, [str(program)]), env=environment, stdout=output, stderr=output, start_new_session=True
            )
        try:
            _wait_for(engine, server, log)
            yield
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(engine: RunningEngine, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Looked at from inside: nobody else can see it."""
    look = f"import urllib.request as u; u.build_opener(u.ProxyHandler({{}})).open('http://127.0.0.1:{PORT}/health')"
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        seen = subprocess.run(_inside(engine, [sys.executable, "-c", look]), capture_output=True, check=False)
        if seen.returncode == 0:
            return
        time.sleep(_LOOK_S)
    raise NoEngine(f"opensandbox-server did not come up: {log.read_text(errors='replace')[-800:]}")


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise NoEngine(f"{' '.join(argv[:3])} ... ended with {done.returncode}: {done.stdout[-600:]}")


def main(command: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # else nothing would be cleaned up
    data = Path(tempfile.mkdtemp(prefix="gym-docker-data-"))
    try:
        program, debs, key = _install_server(), _fetch_nftables(), secrets.token_hex(16)
        with open_engine(data=data) as engine:
            load_images(engine)
            build_services(engine)
        with tempfile.TemporaryDirectory() as names:
            _offer_iptables(prepare(), Path(names))
            with open_engine(own_network=True, data=data) as engine:
                _run(_inside(engine, ["ip", "address", "add", f"{SECOND}/32", "dev", "lo"]))
                _build_images(engine, debs)
                with _open_server(engine, program, key):
                    environment = {**os.environ, ADDRESS: f"127.0.0.1:{PORT}", KEY: key, DOCKER: engine.host}
                    return subprocess.run(_inside(engine, command), env=environment, check=False).returncode
    except NoEngine as error:
        print(f"no OpenSandbox server for tests: {error}", file=sys.stderr)
        return subprocess.run(command, env={**os.environ, WHY_NONE: str(error)}, check=False).returncode
    finally:
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
