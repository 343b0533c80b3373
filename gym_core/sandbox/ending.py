"""How a sandbox ends, whoever provides it: once, for the reason that came first."""

import asyncio
from collections.abc import Callable, Coroutine

from gym_core.errors import SandboxLost


class Ending:
    """Whatever the reason, the same task takes everything away, and nobody's cancellation stops it."""

    def __init__(self, sandbox_id: str, take_down: Callable[[], Coroutine[None, None, None]]) -> None:
        self._sandbox_id = sandbox_id
        self._take_down = take_down
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._reason = ""

    @property
    def has_begun(self) -> bool:
        return self._task is not None

    def begin(self, reason: str) -> asyncio.Task[None]:
        if self._task is None:
            self._reason = reason
            self._task = self._loop.create_task(self._take_down())
        return self._task

    async def finish(self, reason: str) -> None:
        """Begin it where nobody has, and wait until all is gone."""
        await asyncio.shield(self.begin(reason))

    def must_not_have_begun(self) -> None:
        """Raises SandboxLost, with the reason, once it has begun."""
        if self._task is not None:
            raise SandboxLost(f"sandbox {self._sandbox_id!r} is gone: {self._reason}")
