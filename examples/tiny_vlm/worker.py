"""One thread that computes, one job after the other, while the event loop stays free for everything else."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Generic, TypeVar

T = TypeVar("T")


class _End(Generic[T]):
    """A stream's last item; with the error that ended it, if one did."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class Worker:
    """Jobs run in order of arrival. Nothing bounds how many wait: callers hold a connection each."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="policy")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)

    async def stream(self, job: Callable[[], Iterator[T | None]]) -> AsyncIterator[T]:
        """The items the job yields. Closing the stream, or cancelling it, stops the job at its next item.

        None is not passed on: a job yields it to be stopped at that place. Items wait in memory for a slow reader; a
        job's length bounds them.
        """
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[T | _End[T]] = asyncio.Queue()
        is_left = threading.Event()

        def put(item: T | _End[T]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(queue.put_nowait, item)

        def work() -> None:
            try:
                if not is_left.is_set():
                    with closing(job()) as items:  # type: ignore[type-var]  # generators all, and those have close()
                        for item in items:
                            if is_left.is_set():
                                break
                            if item is not None:
                                put(item)
                put(_End())
            except BaseException as error:  # noqa: BLE001 - crosses to the reader, who raises it
                put(_End(error))

        self._pool.submit(work)
        try:
            while not isinstance(item := await queue.get(), _End):
                yield item
            if item.error is not None:
                raise item.error
        finally:
            is_left.set()
