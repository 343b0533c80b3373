"""The table of capture sessions: keys, limits on what it remembers, and the end of sessions without an owner."""

from pathlib import Path

import pytest

from gym_core.errors import FailureKind, SessionError
from gym_core.servers.model.config import SessionLimits
from gym_core.servers.model.session import MAX_NOTE_PHRASES
from gym_core.servers.model.session_table import ModelSessions
from gym_core.types.session import CaptureSessionRequest
from tests.fakes.proxy import PatientClock


@pytest.fixture
def clock() -> PatientClock:
    return PatientClock()


@pytest.fixture
def sessions(tmp_path: Path, clock: PatientClock) -> ModelSessions:
    return ModelSessions(tmp_path, SessionLimits(), clock)


async def test_a_session_that_nobody_uses_is_closed_and_its_summary_stays(
    sessions: ModelSessions, clock: PatientClock
) -> None:
    idle = sessions.open(CaptureSessionRequest(session_id="idle"))
    await clock.sleep(50)
    used = sessions.open(CaptureSessionRequest(session_id="used"))
    busy = sessions.open(CaptureSessionRequest(session_id="busy"))
    with busy.admitted():
        await clock.sleep(60)
        sessions.summary("used")
        await sessions.reap(idle_s=100)
        assert (sessions.of_key(idle.key), sessions.of_key(used.key)) == (None, used)
        await clock.sleep(200)
        await sessions.reap(idle_s=100)
        assert len(sessions) == 1
    assert sessions.summary("idle").calls == 0
    with pytest.raises(SessionError) as error:
        sessions.open(CaptureSessionRequest(session_id="idle"))
    assert error.value.kind == FailureKind.SESSION_CONFLICT


async def test_notes_of_a_sandbox_cannot_fill_the_memory(sessions: ModelSessions) -> None:
    session = sessions.open(CaptureSessionRequest(session_id="s1"))
    for n in range(1000):
        session.note(f"dropped_field:{n}")
        session.note("dropped_field:0")
    assert len(session.summary().notes) == MAX_NOTE_PHRASES
    assert session.summary().notes["dropped_field:0"] == 1001


async def test_calls_come_free_again_after_a_minute(tmp_path: Path, clock: PatientClock) -> None:
    sessions = ModelSessions(tmp_path, SessionLimits(calls_per_minute=1), clock)
    session = sessions.open(CaptureSessionRequest(session_id="s1"))
    with session.admitted():
        pass
    await clock.sleep(61)
    with session.admitted():
        pass
    assert session.summary().notes == {}
