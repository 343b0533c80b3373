"""Which episodes are being played, and what each is doing: for the eyes of those who wait."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from gym_core.episode import Episode
from gym_core.errors import EpisodeError
from gym_core.http.client import ServiceClient
from gym_core.types.run import ActiveRollout
from gym_core.types.session import CaptureSummary

MAX_SHOWN = 32
"""Of the slowest: every one of them goes out with each snapshot."""
LOOKED_AT = 8
"""Of them, those whose model calls are asked for."""
LOOK_EVERY_S = 3.0
LOOK_TIMEOUT_S = 2.0


class Playing:
    """The episodes of one run that are in flight."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[Episode, float] = {}
        self._calls: dict[Episode, int] = {}

    @contextmanager
    def shown(self, episode: Episode) -> Iterator[None]:
        self._since[episode] = self._clock()
        try:
            yield
        finally:
            del self._since[episode]
            self._calls.pop(episode, None)

    def slowest(self, count: int = MAX_SHOWN) -> list[ActiveRollout]:
        """The longest played first."""
        now = self._clock()
        return [_active(e, self._since[e], now, self._calls.get(e)) for e in self._first(count)]

    @asynccontextmanager
    async def looked_at(self, policy: ServiceClient) -> AsyncIterator[None]:
        """Inside, the policy's server is asked now and then how many calls the slowest have made."""
        looking = asyncio.create_task(self._look_for_ever(policy), name="look-at-the-slowest")
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.wait({looking})

    async def look(self, policy: ServiceClient) -> None:
        """Once. What cannot be seen stays as it was: nothing hangs on it."""
        for episode in self._first(LOOKED_AT):
            if episode.stage != "respond":
                continue
            with suppress(EpisodeError):
                route = f"/v1/capture_sessions/{episode.session_id}"
                seen = await policy.call("GET", route, None, CaptureSummary, timeout_s=LOOK_TIMEOUT_S)
                if episode in self._since:
                    self._calls[episode] = seen.calls

    async def _look_for_ever(self, policy: ServiceClient) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look(policy)

    def _first(self, count: int) -> list[Episode]:
        return sorted(self._since, key=self._since.__getitem__)[:count]


def _active(episode: Episode, since: float, now: float, calls: int | None) -> ActiveRollout:
    request = episode.request
    return ActiveRollout(
        rollout_id=request.rollout_id,
        task_index=request.task_index,
        task_id=request.task.id.task_id,
        repeat=request.key.repeat,
        attempt=episode.attempt,
        stage=episode.stage,
        stage_s=max(0.0, now - max(episode.stage_since, since)),
        total_s=max(0.0, now - since),
        calls=calls,
    )
