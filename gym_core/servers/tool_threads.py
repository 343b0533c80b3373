"""Threads in which a server's tools run, so many and no others: work that is late keeps its thread, as no time limit
stops one, and takes none from the rest of the server."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

MAX_THREADS = 4 * (os.cpu_count() or 1)
"""More than cores, as what is late holds its own for long; many more would make every call late."""

ResultT = TypeVar("ResultT")


class ThreadsBusy(Exception):
    """No thread was free in time: the work did not begin."""


class ToolThreads:
    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self._max_threads = max_threads
        self._free = asyncio.Semaphore(max_threads)
        self._pool = ThreadPoolExecutor(max_threads, "tool")

    async def start(
        self,
        work: Callable[..., ResultT],
        *arguments: Any,  # Any: the work's own
        timeout_s: float,
    ) -> asyncio.Future[ResultT]:
        """The work, which a thread has taken up. Raises ThreadsBusy."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise ThreadsBusy(f"all {self._max_threads} threads of tools were busy for {timeout_s:g} s") from error
        running = asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        running.add_done_callback(lambda _: self._free.release())
        return running

    def close(self) -> None:
        """Take no more work. What is late ends by itself."""
        self._pool.shutdown(wait=False)
