"""The finished rollouts of one request on disk: what is in memory is where each lies."""

import threading
from dataclasses import dataclass
from pathlib import Path

from gym_core.rollout.sink import JsonlSink, read_places, read_row_at
from gym_core.types.rollout import RolloutKey
from gym_core.types.sample import SequenceSummary
from gym_core.types.trainer import RolloutLine
from gym_core.types.wire import BulkyWire


class JournalEntry(BulkyWire):
    """A finished rollout before its group was looked at: no advantage, nothing dropped, pictures by reference."""

    line: RolloutLine
    environment_reward: float | None
    """Without a tool bonus."""
    sequences: SequenceSummary | None
    lacks_group_rewards: bool = False
    """It has a reward, and what depends on its siblings is still to be added: a later entry of the rollout has it."""


@dataclass(frozen=True)
class Place:
    """Of one entry in the file, in bytes."""

    offset: int
    length: int


class RolloutJournal:
    """Opening it repairs a torn tail, and takes a lock that dies with the process. Blocking; for any thread."""

    def __init__(self, path: Path) -> None:
        """Raises DamagedFile, FileBusy, OSError."""
        self._path = path
        self._lock = threading.Lock()
        self._sink = JsonlSink(path)
        self.found: list[Place] = [Place(*place) for place in read_places(path)]
        """What an earlier stream left, in the order in which it finished."""

    def append(self, entry: JournalEntry) -> Place:
        """Raises EpisodeError (persistence_failed)."""
        row = entry.model_dump()
        with self._lock:
            return Place(*self._sink.append(row))

    def read(self, place: Place) -> JournalEntry:
        """Raises DamagedFile."""
        return JournalEntry.model_validate(read_row_at(self._path, place.offset, place.length))

    def close(self) -> None:
        self._sink.close()


def key_of(line: RolloutLine) -> RolloutKey:
    return RolloutKey(task_hash=line.advantage_group, repeat=line.repeat)
