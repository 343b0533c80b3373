"""An event loop in a thread of its own for an environment's hooks: code that blocks it stops no route of the server."""

import asyncio
import logging
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

JOIN_TIMEOUT_S = 5.0
"""A hook that blocks may keep the thread for ever; it dies with the process."""

ResultT = TypeVar("ResultT")


class EnvironmentLoop:
    """`start()` once, `stop()` once; `run` from any loop between."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._turn, name=f"environment-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, ResultT], *, limit_s: float) -> ResultT:  # Any: what it yields
        """What the work gives, done on the environment's loop; cancelling this cancels it there.

        Raises TimeoutError past the limit, also where the work does not let itself be cancelled.
        """
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        async with asyncio.timeout(limit_s):
            return await asyncio.wrap_future(running)

    async def finish(self, work: Coroutine[Any, Any, None], *, limit_s: float) -> bool:  # Any: as above
        """Do the work there, and wait for it so long: past that it goes on, and this is False. Raises what it does."""
        running = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        done, _ = await asyncio.wait({running}, timeout=limit_s)
        if done:
            running.result()
        return bool(done)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    async def stop(self) -> None:
        """Cancel what still runs there, and wait for the thread for a few seconds."""
        if not self._thread.is_alive():
            self._loop.close()
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, JOIN_TIMEOUT_S)
        if self._thread.is_alive():
            log.error("environment blocks its thread", extra={"environment": self._name})

    def _turn(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait_for(_settled(left), JOIN_TIMEOUT_S))
        except TimeoutError:
            log.error("hooks do not let themselves be cancelled", extra={"environment": self._name})
        finally:
            self._loop.close()


async def _settled(tasks: "set[asyncio.Task[Any]]") -> None:  # Any: whatever they give
    await asyncio.gather(*tasks, return_exceptions=True)
