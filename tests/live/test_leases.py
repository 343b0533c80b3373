"""Nobody ever finds a forgotten sandbox: a thousand of them, a fifth of their owners killed, and one sweep."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gym_core.sandbox.owner import start_ticks
from gym_core.sandbox.providers.local.state import BoxRecords
from tests.sandboxes.crowd import Crowd
from tests.sandboxes.leftovers import mounts_of_sandboxes, open_descriptors
from tests.sandboxes.owners import REPOSITORY
from tests.sandboxes.registry import real_providers
from tests.sandboxes.subject import Stage, new_id

pytestmark = [pytest.mark.live, pytest.mark.slow]

OWNERS, DOOMED, BOXES_EACH = 60, 12, 20
PATIENCE_S = 400
"""It takes 40 s on two idle cores; a machine that others use may need much longer."""


def run_crowd(state_dir: Path) -> Crowd:
    argv = [sys.executable, "-m", "tests.sandboxes.crowd", str(state_dir), *map(str, (OWNERS, DOOMED, BOXES_EACH))]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return Crowd.model_validate_json(done.stdout)


def alive(crowd: Crowd) -> list[tuple[int, int]]:
    return [(pid, ticks) for pid, ticks in crowd.processes if start_ticks(pid) == ticks]


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
    mine = await stage.open()
    descriptors = len(open_descriptors())
    records = BoxRecords(tmp_path / "state")

    crowd = await asyncio.to_thread(run_crowd, tmp_path / "state")

    assert (crowd.killed, crowd.failed) == (DOOMED, 0)
    assert crowd.opened >= 1000
    await gone(crowd)

    # The control: before the sweep there is something to be found.
    left = records.read_all()
    orphans = {name: record for name, record in left.items() if record.is_orphan}
    groups = [Path(folder) for record in orphans.values() for folder in record.cgroups]
    assert len(orphans) >= DOOMED
    assert all(any(group.exists() for group in groups if name in str(group)) for name in orphans if groups)

    start = time.monotonic()
    report = await stage.provider.sweep()
    seconds = time.monotonic() - start

    assert sorted(report.removed) == sorted(record.sandbox_id for record in orphans.values())
    assert report.kept == 1
    assert [group for group in groups if group.exists()] == []
    assert [record.sandbox_id for record in records.read_all().values()] == [mine.id]
    assert alive(crowd) == []
    assert mounts_of_sandboxes() == []
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
        one_by_one.append(time.monotonic() - start)
        await sandbox.close()
    start = time.monotonic()
    boxes = await asyncio.gather(*(stage.open(new_id()) for _ in range(100)))
    seconds = time.monotonic() - start
    assert seconds < 100 * sorted(one_by_one)[5] * 1.5
    assert all(await asyncio.gather(*(box.is_alive() for box in boxes)))
    sys.stdout.write(f"100 at once in {seconds:.2f} s; one alone {sorted(one_by_one)[5] * 1e3:.0f} ms\n")
