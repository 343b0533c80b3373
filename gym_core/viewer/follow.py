"""A JSONL file that may still be written, read on from where one stopped. Whole lines only; damage is counted.

A run's own reader (`gym_core.rollout.sink`) refuses a damaged file, because a score must not rest on guesses. A reader
who only looks gets what is there, and is told what is not.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gym_core.rollout.sink import is_intact
from gym_core.viewer.plain_file import open_plain

MAX_LINE_BYTES = 256 << 20
"""Far above any rollout; a longer line is passed over without being held in memory."""


@dataclass(frozen=True)
class Line:
    offset: int
    content: bytes
    """Without its end."""


class FollowedFile:
    """Call `read_on()` now and then. Not for two threads at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation = 0
        """Grows when the file was replaced or cut: everything read before is void then."""
        self.damaged_lines: list[int] = []
        """Numbers, from 1, of lines without a valid checksum."""
        self.torn_bytes = 0
        """Of a last line that is not whole yet."""
        self.unreadable = ""
        """Why it cannot be read; "" when it can, or is not there."""
        self._inode: tuple[int, int] | None = None
        self._position = 0
        self._lines = 0

    def read_on(self, take: Callable[[Line], None], forget: Callable[[], None]) -> None:
        """Hand over each line that was added; before that, `forget` when the file was replaced.

        A line for which `take` raises ValueError, or nests too deeply, counts as damaged. A file that is not there
        reads as empty; of one that cannot be read what was read stays, and `unreadable` says why.
        """
        known, self.unreadable = self.generation, ""
        try:
            for line in self._news():
                if self.generation != known:
                    forget()
                    known = self.generation
                try:
                    take(line)
                except (ValueError, RecursionError):  # msgspec's and pydantic's errors are ValueErrors
                    self.damaged_lines.append(self._lines)
        except OSError as error:
            self.unreadable = error.strerror or type(error).__name__
        if self.generation != known:
            forget()

    def _news(self) -> Iterator[Line]:
        try:
            file = open_plain(self.path)
        except FileNotFoundError:
            if self._inode is not None:
                self._start_again(None)
            return
        with file:
            seen = os.fstat(file.fileno())
            inode = (seen.st_dev, seen.st_ino)
            if self._inode not in (None, inode) or seen.st_size < self._position:
                self._start_again(inode)
            self._inode = inode
            file.seek(self._position)
            while raw := _next_line(file):
                if not raw.is_whole:
                    self.torn_bytes = raw.length
                    return
                line = Line(self._position, raw.content)
                self._position += raw.length
                self._lines += 1
                if is_intact(line.content):
                    yield line
                else:
                    self.damaged_lines.append(self._lines)
            self.torn_bytes = 0

    def read_at(self, offset: int, length: int) -> bytes:
        """A line that was handed over, read again. Raises ValueError when it is not there any more, OSError."""
        with open_plain(self.path) as file:
            file.seek(offset)
            line = file.read(length)
        if len(line) != length or not is_intact(line):
            raise ValueError(f"{self.path}: no whole line of {length} bytes at {offset}; it was replaced meanwhile")
        return line

    def _start_again(self, inode: tuple[int, int] | None) -> None:
        self.generation += 1
        self.damaged_lines, self.torn_bytes = [], 0
        self._inode, self._position, self._lines = inode, 0, 0


@dataclass(frozen=True)
class _Raw:
    content: bytes
    """Without its end; empty for a line that is too long to be held."""
    length: int
    """On disk, the end included."""
    is_whole: bool


def _next_line(file: BinaryIO) -> _Raw | None:
    """None at the end of the file."""
    piece = file.readline(MAX_LINE_BYTES)
    if not piece:
        return None
    if piece.endswith(b"\n"):
        return _Raw(piece[:-1], len(piece), is_whole=True)
    length = len(piece)
    while piece and not piece.endswith(b"\n"):
        piece = file.readline(MAX_LINE_BYTES)
        length += len(piece)
    return _Raw(b"", length, is_whole=piece.endswith(b"\n"))
