"""The gate before a model's endpoints: it holds requests while weights change, and says which weights answer.

A pause refuses nothing and times nothing out. Requests wait before they are sent; those that were sent go on. Nothing
here outlives the process.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from gym_core.types.policy import PauseMode, PausePolicy, PolicyState

log = logging.getLogger(__name__)


class PolicyGate:
    """Open at first. A pause ends by itself after `max_pause_s`: a trainer that died must not hold a gym for ever."""

    def __init__(self, max_pause_s: float) -> None:
        self.version: int | None = None
        self._max_pause_s = max_pause_s
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._is_settled = asyncio.Event()
        """Nothing is in flight, or the gate is open again: what a drain waits for."""
        self._in_flight = 0
        self._waiting = 0
        self._ending: asyncio.TimerHandle | None = None

    @property
    def is_paused(self) -> bool:
        return not self._is_open.is_set()

    async def pause(self, asked: PausePolicy) -> PolicyState:
        """Hold what comes from here on. Of a paused gate: the time until its end starts anew."""
        self._is_open.clear()
        self._cancel_ending()
        self._ending = asyncio.get_running_loop().call_later(self._max_pause_s, self._end_forgotten)
        if asked.mode is PauseMode.DRAIN:
            await self._drain(asked.timeout_s)
        return self.state()

    async def _drain(self, timeout_s: float) -> None:
        self._is_settled.clear()
        if not self._in_flight:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_settled.wait()
        except TimeoutError:
            log.warning("policy did not drain", extra={"in_flight": self._in_flight, "waited_s": timeout_s})

    def resume(self) -> PolicyState:
        self._cancel_ending()
        self._is_open.set()
        self._is_settled.set()
        return self.state()

    def set_version(self, version: int) -> PolicyState:
        self.version = version
        return self.state()

    def state(self) -> PolicyState:
        ends_at = self._ending.when() if self._ending else None
        return PolicyState(
            paused=self.is_paused,
            version=self.version,
            in_flight=self._in_flight,
            waiting=self._waiting,
            resumes_in_s=None if ends_at is None else max(0.0, ends_at - asyncio.get_running_loop().time()),
        )

    async def opened(self) -> None:
        """Returns while the gate is open; whoever then sends says so before it awaits anything."""
        while self.is_paused:
            await self._is_open.wait()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a request's wait before it is sent."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Around a request, from its sending to the last byte of its answer."""
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._is_settled.set()

    def _cancel_ending(self) -> None:
        if self._ending:
            self._ending.cancel()
        self._ending = None

    def _end_forgotten(self) -> None:
        log.warning("pause ended by itself", extra={"after_s": self._max_pause_s, "waiting": self._waiting})
        self.resume()

    def close(self) -> None:
        self._cancel_ending()
