"""How many rollouts a run set out to do, from its file of inputs."""

from pathlib import Path

import msgspec

from gym_core.viewer.follow import FollowedFile


class _Key(msgspec.Struct, frozen=True):
    task_hash: str
    repeat: int


class _Line(msgspec.Struct):
    key: _Key


_DECODER = msgspec.json.Decoder(_Line)


class PlannedIndex:
    def __init__(self, path: Path) -> None:
        self._file = FollowedFile(path)
        self._generation = 0
        self._keys: set[_Key] = set()

    def refresh(self) -> None:
        """Raises OSError."""
        for line in self._file.news():
            self._drop_replaced()
            try:
                self._keys.add(_DECODER.decode(line.content).key)
            except (ValueError, RecursionError):
                self._file.note_damage()
        self._drop_replaced()

    def _drop_replaced(self) -> None:
        if self._generation != self._file.generation:
            self._generation = self._file.generation
            self._keys = set()

    @property
    def total(self) -> int:
        return len(self._keys)

    @property
    def version(self) -> tuple[int, int]:
        return self._generation, len(self._keys)
