"""Which rollouts a run set out to do, from its file of inputs."""

from pathlib import Path

import msgspec

from gym_core.statistics.outcome import PlannedRollout
from gym_core.viewer.facts import shown
from gym_core.viewer.follow import FollowedFile


class _Key(msgspec.Struct, frozen=True):
    task_hash: str
    repeat: int


class _Data(msgspec.Struct):
    category: object = None
    l2_category: object = None


class _Task(msgspec.Struct):
    task_data: _Data


class _Line(msgspec.Struct):
    key: _Key
    task: _Task


_DECODER = msgspec.json.Decoder(_Line)


class PlannedIndex:
    def __init__(self, path: Path) -> None:
        self._file = FollowedFile(path)
        self._generation = 0
        self._planned: dict[_Key, PlannedRollout] = {}

    def refresh(self) -> None:
        """Raises OSError."""
        for line in self._file.news():
            self._drop_replaced()
            try:
                self._add(_DECODER.decode(line.content))
            except (ValueError, RecursionError):
                self._file.note_damage()
        self._drop_replaced()

    def _drop_replaced(self) -> None:
        if self._generation != self._file.generation:
            self._generation = self._file.generation
            self._planned = {}

    def _add(self, line: _Line) -> None:
        data, key = line.task.task_data, line.key
        self._planned[key] = PlannedRollout(key.task_hash, key.repeat, shown(data.category), shown(data.l2_category))

    def rollouts(self) -> list[PlannedRollout]:
        return list(self._planned.values())

    @property
    def total(self) -> int:
        return len(self._planned)

    @property
    def version(self) -> tuple[int, int]:
        return self._generation, len(self._planned)
