"""Nobody ever finds a forgotten sandbox: a thousand of them, a fifth of their owners killed, and one sweep."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gym_core.sandbox.box.box import BoxSandbox
from gym_core.sandbox.contract import Launch
from gym_core.sandbox.owner import start_ticks
from gym_core.sandbox.providers.local.state import BoxRecords
from tests.live.gyms import ANSWER, ONE_CALL, live_gym, script
from tests.sandboxes.crowd import Crowd
from tests.sandboxes.leftovers import (
    files_of,
    holders_of,
    mounts_of_sandboxes,
    namespaces_of,
    open_descriptors,
    uid_of,
)
from tests.sandboxes.owners import REPOSITORY
from tests.sandboxes.registry import real_providers
from tests.sandboxes.subject import Stage, new_id

pytestmark = [pytest.mark.live, pytest.mark.slow]

PUBLIC_FOLDERS = (Path("/tmp"), Path("/run"), Path("/dev/shm"), Path("/var/tmp"))
"""Where anybody can leave a file."""
OWNERS, DOOMED, BOXES_EACH = 60, 12, 20
PATIENCE_S = 400
"""It takes 40 s on two idle cores; a machine that others use may need much longer."""


def run_crowd(state_dir: Path, scratch: Path) -> Crowd:
    """`scratch` is the home and the temporary folder of all owners."""
    argv = [sys.executable, "-m", "tests.sandboxes.crowd", str(state_dir), *map(str, (OWNERS, DOOMED, BOXES_EACH))]
    done = subprocess.run(
        argv,
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(scratch), "HOME": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Crowd.model_validate_json(done.stdout)


def alive(crowd: Crowd) -> list[tuple[int, int]]:
    return [(made.pid, made.start_ticks) for made in crowd.made if start_ticks(made.pid) == made.start_ticks]


def namespaces_of_all(crowd: Crowd) -> dict[str, set[int]]:
    """Each with the users who were in it."""
    found: dict[str, set[int]] = {}
    for made in crowd.made:
        for link in made.namespaces:
            found.setdefault(link, set()).add(made.uid)
    return found


async def gone(crowd: Crowd) -> None:
    """Their processes end with their owners, by the kernel; that takes it a moment."""
    async with asyncio.timeout(20):
        while alive(crowd):  # noqa: ASYNC110 - the kernel's doing has no event of ours
            await asyncio.sleep(0.05)


@real_providers()
async def test_a_thousand_opened_and_a_fifth_of_the_owners_killed_leave_nothing_after_one_sweep(
    stage: Stage, tmp_path: Path
) -> None:
    if stage.provider.name != "local":
        pytest.skip("a thousand of these would take an hour; the suite's sweep test kills one owner of each provider")
    mine = stage.owned[(await stage.open()).id]
    assert isinstance(mine, BoxSandbox)
    assert mine.init_pid
    descriptors = len(open_descriptors())
    state, scratch = tmp_path / "state", tmp_path / "scratch"
    scratch.mkdir()
    records = BoxRecords(state)

    crowd = await asyncio.to_thread(run_crowd, state, scratch)

    assert (crowd.killed, crowd.failed) == (DOOMED, 0)
    assert crowd.opened >= 1000
    await gone(crowd)

    # The controls: before the sweep there is something to be found, and a living sandbox's namespaces are.
    left = records.read_all()
    orphans = {name: record for name, record in left.items() if records.is_orphan(record)}
    groups = [Path(folder) for record in orphans.values() for folder in record.cgroups]
    assert len(orphans) >= DOOMED
    assert all(any(group.exists() for group in groups if name in str(group)) for name in orphans if groups)

    assert len(list((state / "owners").iterdir())) >= DOOMED
    own = dict.fromkeys(namespaces_of(mine.init_pid), {uid_of(mine.init_pid)})
    assert {link.partition(":")[0] for link in own} >= {"net", "mnt", "pid", "user", "ipc"}
    assert {word.split()[-1] for word in holders_of(own)} >= set(own)

    start = time.monotonic()
    report = await stage.provider.sweep()
    seconds = time.monotonic() - start

    assert sorted(report.removed) == sorted(record.sandbox_id for record in orphans.values())
    assert report.kept == 1
    assert [group for group in groups if group.exists()] == []
    assert [record.sandbox_id for record in records.read_all().values()] == [mine.id]
    assert alive(crowd) == []
    assert mounts_of_sandboxes() == []
    assert len(namespaces_of_all(crowd)) > BOXES_EACH
    assert holders_of(namespaces_of_all(crowd)) == []
    assert list(scratch.iterdir()) == []
    assert sorted(path.parent.name for path in state.rglob("*") if not path.is_dir()) == ["boxes", "owners"]
    if os.geteuid() == 0:  # else all sandboxes are the user who runs this
        assert files_of({made.uid for made in crowd.made}, PUBLIC_FOLDERS) == []
    assert len(open_descriptors()) <= descriptors
    assert await mine.is_alive()
    sys.stdout.write(
        f"{crowd.opened} sandboxes of {OWNERS} owners, {crowd.killed} killed, in {crowd.seconds:.1f} s; "
        f"{len(orphans)} leftovers swept in {seconds:.2f} s\n"
    )


@real_providers()
async def test_a_hundred_at_once_take_no_longer_than_one_after_the_other(stage: Stage) -> None:
    if stage.provider.name != "local":
        pytest.skip("a hundred of these at once are more than a small machine has memory for")
    one_by_one: list[float] = []
    for _ in range(10):
        start = time.monotonic()
        sandbox = await stage.open()
        await sandbox.exec(Launch(argv=["true"]))
        one_by_one.append(time.monotonic() - start)
        await sandbox.close()
    start = time.monotonic()
    boxes = await asyncio.gather(*(stage.open(new_id()) for _ in range(100)))
    ran = await asyncio.gather(*(box.exec(Launch(argv=["true"])) for box in boxes))
    seconds = time.monotonic() - start
    assert all(result.ok for result in ran)
    assert seconds < 100 * sorted(one_by_one)[5] * 1.5
    sys.stdout.write(f"100 at once ready in {seconds:.2f} s; one alone {sorted(one_by_one)[5] * 1e3:.0f} ms\n")


LENDING = "visual_coding_opencode.resources_servers.visual_coding_opencode.sandbox_config"


async def test_a_gym_sweeps_at_its_start_and_lends_no_more_than_it_may(tmp_path: Path) -> None:
    """The second task waits for the first one's sandbox; what a dead owner left here is gone."""
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", LEAVE_A_RECORD, str(tmp_path / "boxes"))
    assert await owner.wait() == 0
    assert len(BoxRecords(tmp_path / "boxes").read_all()) == 1
    async with live_gym(tmp_path, script(ANSWER), changes={f"{LENDING}.max_sandboxes": 1}) as gym:
        assert gym.boxes() == []
        assert "leftovers of dead owners removed" in gym.logs()
        run_id = await gym.start(ONE_CALL, tasks=4, num_samples_in_parallel=4)
        most = 0
        watching = asyncio.create_task(gym.result_of(run_id))
        while not watching.done():
            most = max(most, len(gym.boxes()))
            await asyncio.sleep(0.02)
        result = await watching
    assert (result.progress.done, result.progress.masked) == (4, 0)
    assert most == 1


async def test_a_sandbox_for_which_there_is_no_memory_masks_and_the_row_says_why(tmp_path: Path) -> None:
    changes: dict[str, object] = {f"{LENDING}.resources.memory_mib": 4096, "sandbox.local.max_memory_mib": 1024}
    async with live_gym(tmp_path, script(ANSWER), changes=changes) as gym:
        row = await gym.play(ONE_CALL)
    assert (row["reward"], row["mask_sample"], row["failure_kind"]) == (None, True, "provider_unavailable")
    assert "max_memory_mib" in row["failure_reason"]


LEAVE_A_RECORD = """
import sys
from pathlib import Path
from gym_core.sandbox.providers.local.state import BoxRecords
records = BoxRecords(Path(sys.argv[1]))
records.write("dead", "box-dead", claim=records.claim(longest_s=60), cgroups=[], metadata={})
"""
