"""A clock for the running event loop that goes as fast as the loop turns: minutes of waiting take no time.

Deadlines are then tested as they are in the product, and a busy machine is no slower by it: what answers, answers
within a few turns.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

_STEP_S = 0.5
_TURNS = 10
"""Of the loop in each step: a request over loopback and its answer take some tens."""

T = TypeVar("T")


def _nothing() -> None:
    """For a thread."""


class FastClock:
    def __init__(self) -> None:
        """Of the running loop, to its end: set back, it would wait for what it thinks is far away."""
        loop = asyncio.get_running_loop()
        self._real = loop.time
        self._ahead_s = 0.0
        loop.time = self.time  # type: ignore[method-assign]  # it is this test's alone

    def time(self) -> float:
        return self._real() + self._ahead_s

    async def run(self, call: Awaitable[T], *, within_s: float) -> T:
        """What it returns or raises, with the clock running fast meanwhile; no later than that, by the clock."""
        task, start = asyncio.ensure_future(call), self._ahead_s
        while not task.done():
            if self._ahead_s - start > within_s:
                task.cancel()
                raise AssertionError(f"nothing came of it in {within_s:g} s")
            self._ahead_s += _STEP_S
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            await asyncio.to_thread(_nothing)  # so do threads that the call waits for
        return await task
