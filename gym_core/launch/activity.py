"""Which episodes are being played, and what each is doing: for the eyes of those who wait."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gym_core.episode import Episode
from gym_core.types.run import ActiveRollout

MAX_SHOWN = 32
"""Of the slowest: every one of them goes out with each snapshot."""


class Playing:
    """The episodes of one run that are in flight."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[Episode, float] = {}

    @contextmanager
    def shown(self, episode: Episode) -> Iterator[None]:
        self._since[episode] = self._clock()
        try:
            yield
        finally:
            del self._since[episode]

    def slowest(self, count: int = MAX_SHOWN) -> list[ActiveRollout]:
        """The longest played first."""
        now = self._clock()
        first = sorted(self._since.items(), key=lambda item: item[1])[:count]
        return [_active(episode, since, now) for episode, since in first]


def _active(episode: Episode, since: float, now: float) -> ActiveRollout:
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
    )
