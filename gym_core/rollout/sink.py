"""Crash-safe JSONL: one writer, each line with a checksum of itself, a torn last line repaired.

Promise: a row whose `append` returned is in the file after any process is killed. Not promised: a power cut.
"""

import fcntl
import logging
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec

from gym_core.errors import ConfigError, EpisodeError, FailureKind
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

_CRC_FIELD = b',"_gym_crc32":"'
_TAIL_BYTES = len(_CRC_FIELD) + 8 + len(b'"}')

_DAMAGED = "the line is damaged; move the file aside, or cut that line out of it"
_FOREIGN = "the line is no rollout of a run: it has no `_gym_crc32`; give a run's output file, or another path"


class DamagedFile(ConfigError):
    """A line that is not the last one does not have its checksum: nobody may guess what was there."""


class FileBusy(ConfigError):
    """Another process writes to the file."""


def encode_line(row: JsonObject) -> bytes:
    """A JSON object with `_gym_crc32` as its last field: the CRC-32 of every byte before that field."""
    body = msgspec.json.encode(row)
    if len(body) < 3 or not body.startswith(b"{"):
        raise ValueError("a row is a JSON object with at least one field")
    start = body[:-1]
    return start + _CRC_FIELD + b"%08x" % zlib.crc32(start) + b'"}\n'


def is_intact(line: bytes) -> bool:
    """Whether a line (without its end) carries its own checksum. O(bytes)."""
    start, field = line[:-_TAIL_BYTES], line[-_TAIL_BYTES:]
    return (
        len(line) > _TAIL_BYTES
        and field.startswith(_CRC_FIELD)
        and field.endswith(b'"}')
        and field[len(_CRC_FIELD) : -2] == b"%08x" % zlib.crc32(start)
    )


def read_rows(path: Path) -> Iterator[JsonObject]:
    """Rows of a file in order, without the checksum field. A torn last line is skipped; [] when there is no file.

    Raises DamagedFile for damage anywhere else, and for a line that nobody of us wrote.
    """
    if not path.exists():
        return
    for _, line in _intact_lines(path):
        yield _row_of(line)


def read_places(path: Path) -> Iterator[tuple[int, int]]:
    """Offset and length in bytes of each row of a file, its end included; as `read_rows` otherwise."""
    if not path.exists():
        return
    for offset, line in _intact_lines(path):
        yield offset, len(line) + 1


def read_row_at(path: Path, offset: int, length: int) -> JsonObject:
    """The row at a place that `append` or `read_places` named. Raises DamagedFile."""
    with path.open("rb") as file:
        file.seek(offset)
        line = file.read(length).rstrip(b"\n")
    if len(line) != length - 1 or not is_intact(line):
        raise DamagedFile(f"{path}: no row of {length} bytes at {offset}")
    return _row_of(line)


def _intact_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Offset of each line, and the line without its end."""
    with path.open("rb") as file:
        bad, offset, is_ours = None, 0, False
        for number, raw in enumerate(file, start=1):
            if bad is not None:
                raise DamagedFile(f"{path}:{bad}: {_DAMAGED if is_ours else _FOREIGN}")
            line = raw.rstrip(b"\n")
            if raw.endswith(b"\n") and is_intact(line):
                yield offset, line
                is_ours = True
            else:
                bad = number
                is_ours = is_ours or _CRC_FIELD in line
            offset += len(raw)
        if bad is not None and _is_foreign(raw):
            raise DamagedFile(f"{path}:{bad}: {_FOREIGN}")


def _row_of(line: bytes) -> JsonObject:
    row: JsonObject = msgspec.json.decode(line)
    del row["_gym_crc32"]
    return row


def torn_bytes(path: Path) -> int:
    """Length of the torn last line that `read_rows` skips; 0 for a whole file.

    Raises DamagedFile for a last line that is no torn one, for nobody of us wrote it, OSError.
    """
    with path.open("rb") as file:
        return _torn_bytes(path, file.fileno())


class JsonlSink:
    """The one writer of a JSONL file. Opening it repairs a torn tail and takes a lock that dies with the process.

    Raises DamagedFile for a file whose last line nobody of us wrote, and leaves it as it is; FileBusy; OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._lock()
            self._repair_tail()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, row: JsonObject) -> tuple[int, int]:
        """Write one row, whole or not at all; offset and length of it in bytes, its end included.

        Raises EpisodeError (persistence_failed), the file then as it was. Costs one write call; about 10 us for a row
        of 4 KB.
        """
        line = encode_line(row)
        end = os.lseek(self._fd, 0, os.SEEK_END)
        written = 0
        try:
            # A full disk shows as a short write before it shows as an error.
            written = os.write(self._fd, line)
            if written != len(line):
                raise OSError(f"wrote {written} of {len(line)} bytes")
        except OSError as error:
            os.ftruncate(self._fd, end)
            raise EpisodeError(f"append to {self.path}: {error}", kind=FailureKind.PERSISTENCE_FAILED) from error
        return end, len(line)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileBusy(f"{self.path}: another run is writing to it; choose another --output") from None

    def _repair_tail(self) -> None:
        if torn := _torn_bytes(self.path, self._fd):
            log.warning("torn last line cut off", extra={"file": str(self.path), "bytes": torn})
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - torn)


def _torn_bytes(path: Path, fd: int) -> int:
    """Raises DamagedFile."""
    size = os.fstat(fd).st_size
    keep = _intact_length(fd, size)
    if keep < size and _is_foreign(os.pread(fd, size - keep, keep)):
        raise DamagedFile(f"{path}: at byte {keep} {_FOREIGN}")
    return size - keep


def _is_foreign(line: bytes) -> bool:
    """Whether a line that is not intact is whole all the same: no write of ours that was cut."""
    if _CRC_FIELD in line:
        return False
    if line.endswith(b"\n"):
        return True
    try:
        msgspec.json.decode(line)
    except ValueError:
        return False
    return True


def _intact_length(fd: int, size: int) -> int:
    """Length of the file without a torn last line; reads back from the end."""
    if size == 0:
        return 0
    start, tail = size, b""
    while start > 0 and tail.count(b"\n", 0, max(len(tail) - 1, 0)) == 0:
        step = min(1 << 20, start)
        start -= step
        tail = os.pread(fd, step, start) + tail
    line_start = tail.rfind(b"\n", 0, len(tail) - 1) + 1
    line = tail[line_start:]
    if line.endswith(b"\n") and is_intact(line[:-1]):
        return size
    return start + line_start


def rewrite(path: Path, rows: list[JsonObject]) -> None:
    """Replace a file's rows at once. The caller holds no sink on it."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(b"".join(map(encode_line, rows)))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
