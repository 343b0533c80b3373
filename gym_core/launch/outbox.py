"""Things on their way to one reader: put down at once, taken in order, and room is waited for."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    """A queue in which putting never waits, so that what belongs together is never torn apart; whoever has put
    something waits for `room` before more is begun. Holds at most `bound` things and what was put at once."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._items: deque[T] = deque()
        self._filled = asyncio.Event()
        self._taken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, *items: T) -> None:
        self._items.extend(items)
        self._filled.set()

    def replace(self, item: T) -> None:
        """Throw away what is here, and put one thing."""
        self._items.clear()
        self.put(item)
        self._taken.set()

    async def room(self) -> None:
        while len(self._items) >= self._bound:
            self._taken.clear()
            await self._taken.wait()

    async def get(self) -> T:
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        self._taken.set()
        return self._items.popleft()
