"""A real Docker engine for tests, where none runs: Debian's packages unpacked (not installed), a daemon with a socket
and data of its own, and a base image made from the distribution's packages, since no image registry is asked.

    python -m tests.live.docker_engine COMMAND...     # run it with GYM_TEST_DOCKER_HOST and GYM_TEST_DOCKER_IMAGE set

The daemon makes no bridge and no firewall rule, so that the machine's network stays as it is: its containers have no
network, or the machine's own while an image is built. With `own_network` it gets a network namespace instead, in which
it may do what it likes, and which leads nowhere: there the command runs, after the images were built by a daemon of the
first kind. Needs root and apt; `NoEngine` says what is missing.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors
import requests

from tests.live.debian_packages import NoPackages, library_path, unpacked

HOST, IMAGE, WHY_NONE = "GYM_TEST_DOCKER_HOST", "GYM_TEST_DOCKER_IMAGE", "GYM_TEST_NO_DOCKER"
BASE, PLAIN = "gym-test-base", "gym-test-plain"
"""A distribution with Python; and that with a user, which is enough for a sandbox."""
PYTHON, SERVICES, SANDBOX = "gym-test-python", "visual-agent-gym", "gym-test-opencode"
"""What stands for python:slim here; and the two images that are built as users build them."""

REPOSITORY = Path(__file__).parents[2]

_PACKAGES = ("docker.io", "containerd", "runc", "iptables", "docker-compose", "mmdebstrap")
_BASE_PACKAGES = "python3,ca-certificates,procps"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Of this machine: it may reach the registries through a proxy that has its own authority."""

_PLAIN_DOCKERFILE = f"""
FROM {BASE}
RUN groupadd --gid 1000 agent && useradd --uid 1000 --gid 1000 --home-dir /home/agent agent
"""
_PYTHON_DOCKERFILE = f"""
FROM {BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
_LOOK_S = 0.1


class NoEngine(Exception):
    """Why no engine can be had here, and what to do."""


@dataclass(frozen=True)
class Programs:
    """What `prepare` unpacked and made."""

    root: Path
    base_tar: Path

    @property
    def compose(self) -> list[str]:
        """The words before its arguments; run it with `compose_env`."""
        return ["/usr/bin/python3", str(self.root / "usr/bin/docker-compose")]

    @property
    def compose_env(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.root / "usr/lib/python3/dist-packages")}

    @property
    def env(self) -> dict[str, str]:
        folders = [self.root / name for name in ("usr/sbin", "usr/bin", "sbin")]
        modules = [str(path) for path in self.root.glob("usr/lib/*/xtables")]
        return {
            **os.environ,
            "PATH": ":".join([*map(str, folders), os.environ.get("PATH", "")]),
            "LD_LIBRARY_PATH": library_path(self.root),
            "XTABLES_LIBDIR": ":".join(modules),
        }


@dataclass(frozen=True)
class RunningEngine:
    host: str
    pid: int
    """Of the daemon."""
    programs: Programs


def prepare() -> Programs:
    """Download and unpack what is missing: a minute or two the first time on a machine. Raises NoEngine."""
    if os.geteuid() != 0:
        raise NoEngine("a Docker engine of the tests' own needs root")
    try:
        root = unpacked("docker-engine", _PACKAGES)
    except NoPackages as error:
        raise NoEngine(f"a Docker engine of the tests' own: {error}") from error
    folder = root.parent
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in ("iptables", "ip6tables"):  # what installing would do
            with contextlib.suppress(FileExistsError):
                (root / "usr/sbin" / name).symlink_to(f"{name}-nft")
        programs = Programs(root, folder / "base.tar")
        if not programs.base_tar.exists():
            _make_base(programs)
    return programs


def _make_base(programs: Programs) -> None:
    part = programs.base_tar.with_suffix(".part.tar")
    _run(
        [
            *("mmdebstrap", "--mode=root", "--variant=minbase", f"--include={_BASE_PACKAGES}"),
            *("--dpkgopt=force-unsafe-io", f"--customize-hook=upload {_CERTIFICATES} {_CERTIFICATES}"),
            *(_codename(), str(part)),
        ],
        programs.env,
    )
    part.rename(programs.base_tar)


def _codename() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    names = [line.partition("=")[2] for line in lines if line.startswith("VERSION_CODENAME=")]
    if not names:
        raise NoEngine("a base image is made of Debian's packages, and this is not Debian")
    return names[0]


def _run(argv: list[str], env: dict[str, str] | None = None) -> None:
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise NoEngine(f"{' '.join(argv[:3])} ... ended with {done.returncode}: {done.stdout[-600:]}")


@contextmanager
def open_engine(*, own_network: bool = False, data: Path | None = None) -> Iterator[RunningEngine]:
    """A daemon, with what is in `data` and leaves it there, or with nothing; else nothing is left of it afterwards.
    Raises NoEngine."""
    programs = prepare()
    folder = Path(tempfile.mkdtemp(prefix="gym-docker-"))
    try:
        with (folder / "log").open("wb") as log:
            daemon = subprocess.Popen(
                _daemon_argv(folder, data or folder / "data", own_network=own_network),
                env=programs.env,
                stdout=log,
                stderr=log,
            )
        try:
            host = f"unix://{folder}/docker.sock"
            _wait_for(host, daemon, folder / "log")
            yield RunningEngine(host, daemon.pid, programs)
        finally:
            _stop(daemon)
    finally:
        _unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _daemon_argv(folder: Path, data: Path, *, own_network: bool) -> list[str]:
    no_network = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false")
    return [
        *(("unshare", "--net", "--", "sh", "-c", 'ip link set lo up && exec "$@"', "sh") if own_network else ()),
        *("dockerd", "--data-root", str(data), "--exec-root", f"{folder}/exec"),
        *("--pidfile", f"{folder}/pid", "--host", f"unix://{folder}/docker.sock"),
        *("--oom-score-adjust", "0", "--default-ulimit", "nofile=4096:4096"),  # more needs CAP_SYS_RESOURCE
        *(() if own_network else no_network),
    ]


def _wait_for(host: str, daemon: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and daemon.poll() is None:
        try:
            client(host).close()
            return
        except (docker.errors.DockerException, requests.RequestException):
            time.sleep(_LOOK_S)
    raise NoEngine(f"dockerd did not come up: {log.read_text(errors='replace')[-800:]}")


def _stop(daemon: "subprocess.Popen[bytes]") -> None:
    """It ends its containers and its containerd first."""
    if daemon.poll() is None:
        daemon.send_signal(signal.SIGTERM)
    try:
        daemon.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _unmount(folder: Path) -> None:
    """What a daemon that was killed has left."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((m for m in mounts if m.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False)


def client(host: str) -> docker.APIClient:
    return docker.APIClient(base_url=host, version="auto", timeout=600)


def load_images(engine: RunningEngine) -> None:
    """`BASE` and `PLAIN`."""
    api = client(engine.host)
    try:
        with engine.programs.base_tar.open("rb") as content:
            api.import_image_from_data(
                content,
                repository=BASE,
                changes=[f"ENV PATH={_PATH}", f"ENV NODE_EXTRA_CA_CERTS={_CERTIFICATES}"],
            )
        build(engine.host, _PLAIN_DOCKERFILE, PLAIN)
    finally:
        api.close()


def build(host: str, dockerfile: str, tag: str) -> None:
    """A Dockerfile that needs no other file."""
    api = docker.DockerClient(base_url=host, timeout=600)
    try:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "Dockerfile").write_text(dockerfile)
            api.images.build(path=folder, tag=tag, rm=True, network_mode="host")
    finally:
        api.close()


def build_for_tests(engine: RunningEngine) -> None:
    """All images that tests use. One that cannot be built is the test's to report: it builds it again, from what there
    is of it by then."""
    load_images(engine)
    words = [sys.executable, "-m", "gym_core.cli.main", *sandbox_image_words(engine.host)]
    sandbox_image = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        build_services(engine)
    finally:
        sandbox_image.wait()


def build_services(engine: RunningEngine) -> None:
    """The image of the gym's servers; says so where it cannot be built."""
    build(engine.host, _PYTHON_DOCKERFILE, PYTHON)
    api = docker.DockerClient(base_url=engine.host, timeout=1200)
    try:
        api.images.build(path=str(REPOSITORY), tag=SERVICES, rm=True, network_mode="host", buildargs={"BASE": PYTHON})
    except docker.errors.BuildError as error:
        print(f"{SERVICES} was not built: {error}", file=sys.stderr)
    finally:
        api.close()


def sandbox_image_words(host: str) -> list[str]:
    """`gym`'s arguments."""
    return [
        *("sandbox", "build", "--provider", "docker", "--tag", SANDBOX, "--host", host),
        *("--network", "host", "--build-arg", f"BASE={BASE}"),
    ]


def main(command: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # else nothing would be cleaned up
    data = Path(tempfile.mkdtemp(prefix="gym-docker-data-"))
    try:
        with open_engine(data=data) as engine:
            build_for_tests(engine)
        with open_engine(data=data, own_network=True) as engine:
            return subprocess.run(command, env={**os.environ, HOST: engine.host, IMAGE: PLAIN}, check=False).returncode
    except NoEngine as error:
        print(f"no Docker engine for tests: {error}", file=sys.stderr)
        return subprocess.run(command, env={**os.environ, WHY_NONE: str(error)}, check=False).returncode
    finally:
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
