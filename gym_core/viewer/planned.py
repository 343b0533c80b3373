"""Which rollouts a run set out to do, from its file of inputs."""

from pathlib import Path

import msgspec

from gym_core.statistics.outcome import PlannedRollout
from gym_core.viewer.facts import shown
from gym_core.viewer.follow import FollowedFile, Line


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
        self._planned: dict[_Key, PlannedRollout] = {}

    @property
    def unreadable(self) -> str:
        return self._file.unreadable

    def refresh(self) -> None:
        self._file.read_on(self._take, self._planned.clear)

    def _take(self, line: Line) -> None:
        found = _DECODER.decode(line.content)
        data, key = found.task.task_data, found.key
        self._planned[key] = PlannedRollout(key.task_hash, key.repeat, shown(data.category), shown(data.l2_category))

    def rollouts(self) -> list[PlannedRollout]:
        return list(self._planned.values())

    @property
    def total(self) -> int:
        return len(self._planned)

    @property
    def version(self) -> tuple[int, int]:
        return self._file.generation, len(self._planned)
