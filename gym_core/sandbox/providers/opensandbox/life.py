"""Two ends of a sandbox's time: ours, exact, while its owner lives; the server's, later, for when he does not."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

_SHORTEST_SERVER_TTL_S = 60.0
"""The server takes no shorter one."""

_SHORTEST_MARGIN_S = 60.0


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """What is needed of an event loop."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer: ...


class Life:
    """Counts from its making. Renewals at the server are early and rare: one that races the end may orphan."""

    def __init__(self, ttl_s: float, on_end: Callable[[], None], clock: Clock | None = None) -> None:
        """`clock` is the running loop, or a test's."""
        self._ttl_s = ttl_s
        self._on_end = on_end
        self._loop = clock or asyncio.get_running_loop()
        self._uses = 0
        self._server_end = self._loop.time() + self.server_ttl_s
        self._end = 0.0
        self._timer: Timer | None = None
        self.touch()
        self._wait()

    @property
    def server_ttl_s(self) -> float:
        """What the server is told, at first and at each renewal."""
        return server_ttl_s(self._ttl_s)

    @property
    def expires_at(self) -> float:
        """Unix time, seconds, if it is not used."""
        return time.time() + self._end - self._loop.time()

    @property
    def must_renew(self) -> bool:
        """Whether the server would end it before we do, or soon after."""
        return self._server_end - self._end < margin_s(self._ttl_s) / 2

    @property
    def renewal_interval_s(self) -> float:
        """How often one that is used all the time has to be looked at."""
        return min(self._ttl_s, margin_s(self._ttl_s)) / 3

    def touch(self) -> None:
        self._end = self._loop.time() + self._ttl_s

    def renewed(self) -> None:
        """The server knows of a new end."""
        self._server_end = self._loop.time() + self.server_ttl_s

    def begin_use(self) -> None:
        self._uses += 1
        self.touch()

    def end_use(self) -> None:
        self._uses -= 1
        self.touch()

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _wait(self) -> None:
        self._timer = self._loop.call_at(self._end, self._look)

    def _look(self) -> None:
        if self._uses:  # a running command has a time-out of its own
            self.touch()
        if self._loop.time() >= self._end:
            self._on_end()
        else:
            self._wait()


def margin_s(ttl_s: float) -> float:
    """How much later the server's end is than ours."""
    return max(_SHORTEST_MARGIN_S, ttl_s / 2)


def server_ttl_s(ttl_s: float) -> float:
    return max(_SHORTEST_SERVER_TTL_S, ttl_s + margin_s(ttl_s))
