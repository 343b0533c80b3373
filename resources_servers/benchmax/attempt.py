"""One rollout inside the environment: its context is entered, its hooks are called and it is left, by a single task.

One task, because contexts may hold what is bound to one (context variables, cancel scopes), as in the package whose
classes these are. All of this runs on the environment's loop.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmax.envs import BaseEnv, Example, JsonRow

log = logging.getLogger(__name__)

Hook = Callable[[], object]
"""Calls a hook and gives what it gave, which is to be an awaitable."""


class Attempt:
    """`enter()` first; then `call()` as often as wanted, one at a time; `leave()` last, also when entering failed."""

    def __init__(self, environment: "BaseEnv", rollout_id: str, example: "Example[JsonRow]") -> None:
        self.rollout_id = rollout_id
        self.example = example
        self.ended_as: str | None = None
        """The termination reason that a tool gave by raising a failure that is scored."""
        self._environment = environment
        self._jobs: asyncio.Queue[_Job | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def enter(self) -> None:
        """Raises what the context raises. Cancelled, it gives the entering up."""
        entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(entered), name=f"attempt-{self.rollout_id}")
        try:
            await asyncio.wait({entered, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if not entered.done():
            await self._task  # raises
            raise RuntimeError("rollout_context ended without a body")

    async def call(self, hook: Hook) -> object:
        """What the hook gives. Raises what it raises, and RuntimeError when the context is left already."""
        if self._task is None or self._task.done():
            raise RuntimeError("the rollout's context is not entered, or left already")
        job = _Job(hook)
        self._jobs.put_nowait(job)
        try:
            return await job.done
        except asyncio.CancelledError:
            job.abort()
            raise

    async def leave(self, *, limit_s: float) -> None:
        """Leave the context, if it was entered; past the limit its task is cancelled. What leaving raises is logged:
        the grade stands by then."""
        if self._task is None:
            return
        self._jobs.put_nowait(None)
        _, late = await asyncio.wait({self._task}, timeout=limit_s)
        if late:
            log.warning("rollout_context does not end", extra={"rollout": self.rollout_id})
            self._task.cancel()
        elif not self._task.cancelled() and (error := self._task.exception()) is not None:
            log.warning("rollout_context raised", extra={"rollout": self.rollout_id, "error": repr(error)[:300]})

    async def _live(self, entered: "asyncio.Future[None]") -> None:
        async with self._environment.rollout_context(self.rollout_id, self.example):
            entered.set_result(None)
            while (job := await self._jobs.get()) is not None:
                await job.run()


class _Job:
    def __init__(self, hook: Hook) -> None:
        self.done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._hook = hook
        self._scope = asyncio.timeout(None)
        self._is_running = False

    def abort(self) -> None:
        """Cancel the hook, and not the task that runs it."""
        if self._is_running:
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        if self.done.cancelled():
            return
        task = asyncio.current_task()
        try:
            async with self._scope:
                self._is_running = True
                result = await awaited(self._hook)
        except BaseException as error:
            # A task that is told to end ends; a hook that raises CancelledError or SystemExit of its own does not
            # end the environment.
            if task is not None and task.cancelling():
                raise
            if not self.done.done():
                is_plain = isinstance(error, Exception)
                self.done.set_exception(error if is_plain else RuntimeError(f"the hook raised {error!r}"))
        else:
            if not self.done.done():
                self.done.set_result(result)
        finally:
            self._is_running = False


async def awaited(hook: Hook) -> object:
    """What a hook gives. Raises TypeError for one that is not async, which would block all others."""
    found = hook()
    if not inspect.isawaitable(found):
        raise TypeError(f"the hook gave a {type(found).__name__} and nothing to await: write it with `async def`")
    return await found
