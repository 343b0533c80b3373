"""A session table opens once, closes once, and leaks nothing in any order of calls."""

import asyncio

import pytest

from gym_core.errors import FailureKind, SessionError
from gym_core.servers.sessions import SessionTable
from gym_core.types.ids import EpisodeId

EPISODE = EpisodeId(rollout_id="r")


class Counted:
    """What a session holds: opened and closed are counted."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def make(self) -> str:
        await self.gate.wait()
        self.opened += 1
        return "session"

    async def close(self, session: str) -> None:
        self.closed += 1


@pytest.fixture
def held() -> Counted:
    return Counted()


@pytest.fixture
def table(held: Counted) -> SessionTable[str]:
    return SessionTable(held.close, idle_s=1000)


async def test_opening_twice_opens_once(table: SessionTable[str], held: Counted) -> None:
    await asyncio.gather(*(table.open("s", EPISODE, held.make) for _ in range(3)))
    assert (held.opened, table.find("s")) == (1, "session")


async def test_closing_twice_closes_once_and_unknown_ones_are_fine(table: SessionTable[str], held: Counted) -> None:
    await table.open("s", EPISODE, held.make)
    await asyncio.gather(table.close("s"), table.close("s"), table.close("never"))
    await table.close("s")
    assert held.closed == 1


async def test_a_close_that_overtakes_its_open_leaks_nothing(table: SessionTable[str], held: Counted) -> None:
    await table.close("s")
    with pytest.raises(SessionError) as refused:
        await table.open("s", EPISODE, held.make)
    assert refused.value.kind is FailureKind.SESSION_CONFLICT
    assert held.opened == 0


async def test_a_close_while_opening_waits_and_then_closes(table: SessionTable[str], held: Counted) -> None:
    held.gate.clear()
    opening = asyncio.create_task(table.open("s", EPISODE, held.make))
    await asyncio.sleep(0)
    closing = asyncio.create_task(table.close("s"))
    await asyncio.sleep(0)
    held.gate.set()
    await asyncio.gather(opening, closing)
    assert (held.opened, held.closed, len(table)) == (1, 1, 0)


async def test_a_caller_that_goes_away_while_opening_leaks_nothing(table: SessionTable[str], held: Counted) -> None:
    held.gate.clear()
    opening = asyncio.create_task(table.open("s", EPISODE, held.make))
    await asyncio.sleep(0)
    opening.cancel()
    held.gate.set()
    await asyncio.gather(opening, return_exceptions=True)
    await table.close("s")
    assert (held.opened, held.closed) == (1, 1)


async def test_an_id_belongs_to_one_episode(table: SessionTable[str], held: Counted) -> None:
    await table.open("s", EPISODE, held.make)
    with pytest.raises(SessionError, match="belongs to episode"):
        await table.open("s", EpisodeId(rollout_id="other"), held.make)


async def test_an_opening_that_fails_can_be_tried_again(table: SessionTable[str], held: Counted) -> None:
    async def fail() -> str:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        await table.open("s", EPISODE, fail)
    await table.open("s", EPISODE, held.make)
    assert table.find("s") == "session"


async def test_finding_tells_closed_from_unknown(table: SessionTable[str], held: Counted) -> None:
    await table.open("s", EPISODE, held.make)
    await table.close("s")
    with pytest.raises(SessionError) as closed:
        table.find("s")
    with pytest.raises(SessionError) as unknown:
        table.find("t")
    assert (closed.value.kind, unknown.value.kind) == (FailureKind.SESSION_CONFLICT, FailureKind.SESSION_LOST)


async def test_a_session_that_nobody_uses_is_reaped(held: Counted) -> None:
    table = SessionTable(held.close, idle_s=0.02)
    table.start()
    await table.open("s", EPISODE, held.make)
    async with asyncio.timeout(5):
        while len(table):  # noqa: ASYNC110 - the reaper is a clock, not an event
            await asyncio.sleep(0.01)
    assert held.closed == 1
    await table.stop()


async def test_stopping_closes_all(table: SessionTable[str], held: Counted) -> None:
    for name in "abc":
        await table.open(name, EPISODE, held.make)
    await table.stop()
    assert held.closed == 3
