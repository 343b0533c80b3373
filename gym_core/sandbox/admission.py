"""How many sandboxes may be alive at once: more than that wait in order of arrival, and not for ever."""

import asyncio
from collections import deque

from gym_core.errors import SandboxUnavailable


class Admission:
    """`limit` None admits everybody. Places are given back by `leave`, once each."""

    def __init__(self, limit: int | None, *, max_wait_s: float) -> None:
        self._limit = limit
        self._max_wait_s = max_wait_s
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def inside(self) -> int:
        return self._inside

    async def enter(self) -> None:
        """Take a place. Raises SandboxUnavailable when none came free in time."""
        if self._limit is None or (self._inside < self._limit and not self._waiting):
            self._inside += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout(self._max_wait_s):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self.leave()  # it came at the very moment we stopped waiting
            else:
                self._waiting.remove(place)
            if isinstance(error, TimeoutError):
                raise SandboxUnavailable(
                    f"sandboxes: for {self._max_wait_s:g} s all {self._limit} of `sandbox_config.max_sandboxes` were "
                    "lent; raise it, or play fewer rollouts at once (--concurrency, max_concurrent_episodes)"
                ) from error
            raise

    def leave(self) -> None:
        """Give the place back: to whoever waits longest, if anybody does."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._inside -= 1
