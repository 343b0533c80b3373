"""Places for sandboxes: in order of arrival, given back by every path."""

import asyncio

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.admission import Admission


async def test_without_a_limit_everybody_enters() -> None:
    admission = Admission(None, max_wait_s=0)
    for _ in range(1000):
        await admission.enter()
    assert admission.inside == 1000


async def test_who_finds_no_place_in_time_is_told_the_setting() -> None:
    admission = Admission(1, max_wait_s=0.01)
    await admission.enter()
    with pytest.raises(SandboxUnavailable, match="all 1 of `sandbox_config.max_sandboxes`"):
        await admission.enter()
    admission.leave()
    await admission.enter()
    assert admission.inside == 1


async def test_places_go_to_those_who_wait_longest() -> None:
    admission, entered = Admission(2, max_wait_s=60), list[int]()

    async def enter(number: int) -> None:
        await admission.enter()
        entered.append(number)

    waiting = [asyncio.create_task(enter(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert entered == [0, 1]
    for expected in ([0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]):
        admission.leave()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (entered, admission.inside) == (expected, 2)
    await asyncio.gather(*waiting)


@pytest.mark.parametrize("leave_first", [True, False])
async def test_one_who_is_cancelled_keeps_no_place(leave_first: bool) -> None:
    admission = Admission(1, max_wait_s=60)
    await admission.enter()
    waiting = asyncio.create_task(admission.enter())
    await asyncio.sleep(0)
    if leave_first:
        admission.leave()  # its place comes at the very moment it is cancelled
        waiting.cancel()
    else:
        waiting.cancel()
        await asyncio.sleep(0)
        admission.leave()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert admission.inside == 0
    await asyncio.wait_for(admission.enter(), 1)
