"""A table of sessions: opened once, found while open, closed once, and reaped when their owner is gone."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gym_core.errors import FailureKind, SessionError
from gym_core.types.ids import EpisodeId

log = logging.getLogger(__name__)

SessionT = TypeVar("SessionT")

REAP_EVERY_S = 15.0
MAX_CLOSED_REMEMBERED = 10_000


@dataclass
class _Entry(Generic[SessionT]):
    episode: EpisodeId
    opening: "asyncio.Task[SessionT]"
    used_at: float = field(default_factory=time.monotonic)
    closing: "asyncio.Task[None] | None" = None


class SessionTable(Generic[SessionT]):
    """Sessions by an id that the caller chose.

    Opening an open session returns it (a lost reply is asked for again); closing twice, or a session that never was, is
    fine and makes a later opening of that id fail, so that a close that overtakes its open leaks nothing. Times are
    monotonic. Each operation is O(1).
    """

    def __init__(self, close: Callable[[SessionT], Awaitable[None]], *, idle_s: float) -> None:
        self._close = close
        self._idle_s = idle_s
        self._entries: dict[str, _Entry[SessionT]] = {}
        self._closed: dict[str, None] = {}
        self._reaper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to reap sessions that nobody used for `idle_s`."""
        self._reaper = asyncio.create_task(self._reap_for_ever(), name="session-reaper")

    async def stop(self) -> None:
        """Close every session."""
        if self._reaper:
            self._reaper.cancel()
            with suppress(asyncio.CancelledError):
                await self._reaper
        await asyncio.gather(*(self.close(session_id) for session_id in list(self._entries)), return_exceptions=True)

    async def open(self, session_id: str, episode: EpisodeId, make: Callable[[], Awaitable[SessionT]]) -> SessionT:
        if session_id in self._closed:
            raise SessionError(f"session {session_id!r} is closed", kind=FailureKind.SESSION_CONFLICT)
        entry = self._entries.get(session_id)
        if entry is None:
            entry = _Entry(episode, asyncio.ensure_future(_awaited(make())))
            self._entries[session_id] = entry
        elif entry.episode != episode:
            raise SessionError(
                f"session {session_id!r} belongs to episode {entry.episode}, not {episode}",
                kind=FailureKind.SESSION_CONFLICT,
            )
        try:
            # Shielded: when the caller goes away the session still opens, and the caller's close or the reaper ends it.
            return await asyncio.shield(entry.opening)
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._entries.pop(session_id, None)
            raise

    def find(self, session_id: str) -> SessionT:
        """An open session; using it keeps it alive. Raises SessionError."""
        entry = self._entries.get(session_id)
        if entry is None or entry.closing or not entry.opening.done() or entry.opening.cancelled():
            state = "closed" if session_id in self._closed or (entry and entry.closing) else "unknown"
            kind = FailureKind.SESSION_CONFLICT if state == "closed" else FailureKind.SESSION_LOST
            raise SessionError(f"session {session_id!r} is {state}", kind=kind)
        entry.used_at = time.monotonic()
        return entry.opening.result()

    async def close(self, session_id: str) -> None:
        self._remember_closed(session_id)
        entry = self._entries.get(session_id)
        if entry is None:
            return
        if entry.closing is None:
            entry.closing = asyncio.create_task(self._finish(session_id, entry), name=f"close-{session_id}")
        await asyncio.shield(entry.closing)

    async def _finish(self, session_id: str, entry: _Entry[SessionT]) -> None:
        try:
            session = await entry.opening
        except Exception:  # noqa: BLE001 - it never opened: whoever opened it was told, there is nothing to close
            session = None
        try:
            if session is not None:
                await self._close(session)
        finally:
            self._entries.pop(session_id, None)

    def _remember_closed(self, session_id: str) -> None:
        self._closed[session_id] = None
        while len(self._closed) > MAX_CLOSED_REMEMBERED:
            del self._closed[next(iter(self._closed))]

    async def _reap_for_ever(self) -> None:
        while True:
            await asyncio.sleep(min(REAP_EVERY_S, self._idle_s))
            now = time.monotonic()
            for session_id, entry in list(self._entries.items()):
                if now - entry.used_at > self._idle_s:
                    log.warning("session reaped", extra={"session": session_id, "idle_s": now - entry.used_at})
                    with suppress(Exception):
                        await self.close(session_id)

    def __len__(self) -> int:
        return len(self._entries)


async def _awaited(work: Awaitable[SessionT]) -> SessionT:
    return await work
