"""All capture sessions of one model server, by id and by key.

The table lives in memory. When this process dies, keys are unknown to the next one: calls are refused with 401 and the
session is lost, which is a failure of ours and never the model's.
"""

import itertools
import logging
from pathlib import Path

from gym_core.errors import FailureKind, SessionError
from gym_core.servers.model.clock import Clock
from gym_core.servers.model.config import SessionLimits
from gym_core.servers.model.long_strings import Allowance
from gym_core.servers.model.session import ModelSession
from gym_core.types.session import CaptureSessionRequest, CaptureSummary

log = logging.getLogger(__name__)

MAX_CLOSED_REMEMBERED = 20_000


class ModelSessions:
    """Opening an open one returns it; closing is final and can be repeated."""

    def __init__(self, state_dir: Path, limits: SessionLimits, clock: Clock) -> None:
        self._state_dir = state_dir
        self._limits = limits
        self._clock = clock
        self._allowance = Allowance()
        self._turns = itertools.count()
        self._open: dict[str, ModelSession] = {}
        self._by_key: dict[str, ModelSession] = {}
        self._closed: dict[str, CaptureSummary] = {}

    def open(self, request: CaptureSessionRequest) -> ModelSession:
        """Raises SessionError for one that was closed, ValueError for a relative folder."""
        session_id = request.session_id
        if session_id in self._closed:
            raise SessionError(f"capture session {session_id!r} is closed", kind=FailureKind.SESSION_CONFLICT)
        if session_id not in self._open:
            for folder in (request.captures_dir, request.assets_dir):
                if folder is not None and not Path(folder).is_absolute():
                    raise ValueError(f"not an absolute folder: {folder!r}")
            session = ModelSession(request, self._state_dir, self._limits, self._clock, self._allowance)
            # In turn, not by a hash: a hash gives the fullest of eight endpoints half as many again as it should have.
            session.affinity = next(self._turns)
            self._open[session_id] = session
            self._by_key[session.key] = session
        self._open[session_id].used_at = self._clock.monotonic()
        return self._open[session_id]

    def of_key(self, key: str) -> ModelSession | None:
        return self._by_key.get(key)

    def find(self, session_id: str) -> ModelSession:
        """An open session. Raises SessionError."""
        session = self._open.get(session_id)
        if session is None:
            raise SessionError(f"capture session {session_id!r} is unknown to this server; it may have been restarted")
        return session

    def summary(self, session_id: str) -> CaptureSummary:
        """Of an open or a closed one. Raises SessionError."""
        closed = self._closed.get(session_id)
        if closed:
            return closed
        session = self.find(session_id)
        session.used_at = self._clock.monotonic()
        return session.summary()

    async def close(self, session_id: str) -> CaptureSummary:
        """The final summary; the key is dead from here on. Raises SessionError for one that never was."""
        if session_id in self._closed:
            return self._closed[session_id]
        session = self.find(session_id)
        self._by_key.pop(session.key, None)
        await session.close()
        self._open.pop(session_id, None)
        self._closed[session_id] = session.summary()
        while len(self._closed) > MAX_CLOSED_REMEMBERED:
            del self._closed[next(iter(self._closed))]
        return self._closed[session_id]

    async def close_all(self) -> None:
        for session_id in list(self._open):
            await self.close(session_id)

    async def reap(self, idle_s: float) -> None:
        """Close sessions that nobody called, read or opened for this long: their owner is gone."""
        now = self._clock.monotonic()
        for session in [found for found in self._open.values() if found.idle_s(now) > idle_s]:
            log.warning("capture session reaped", extra={"session": session.id})
            await self.close(session.id)

    def __len__(self) -> int:
        return len(self._open)
