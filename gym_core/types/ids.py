"""Identities: of an episode, and the characters an id may hold when it travels in a URL or names a file."""

import re
from typing import Annotated, Self

from pydantic import StringConstraints

from gym_core.types.wire import Wire

SAFE_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
SafeId = Annotated[str, StringConstraints(pattern=SAFE_ID)]
"""An id that is safe as one path segment, in URLs and on disk."""

_EPISODE = re.compile(r"^(?P<rollout>.+)-a(?P<attempt>\d+)$")


class EpisodeId(Wire):
    """One attempt at a rollout; a retry is a new episode of the same rollout."""

    rollout_id: SafeId
    attempt: int = 0
    """Counted from 0 over all runs that resumed into one file."""

    def __str__(self) -> str:
        return f"{self.rollout_id}-a{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Inverse of str(). Raises ValueError."""
        match = _EPISODE.match(text)
        if not match:
            raise ValueError(f"not an episode id: {text!r}")
        return cls(rollout_id=match["rollout"], attempt=int(match["attempt"]))


class TaskId(Wire):
    taskset: str
    task_id: str
