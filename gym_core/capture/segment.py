"""An append-only file of checked frames: what was appended is read back whole or reported, never half.

Frame: magic "GYC2", payload length and CRC-32 of length and payload (little-endian uint32 each), payload. Files of
before have the magic "GYC1" and the CRC-32 of the payload alone: they are read and gone on with.
"""

import contextlib
import fcntl
import os
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

_MAGIC = b"GYC2"
_OLD_MAGIC = b"GYC1"
_HEADER = struct.Struct("<4sII")
_ANY_MAGIC = re.compile(b"GYC[12]")
MAX_FRAME_BYTES = 1 << 30
"""A length beyond it is damage: no call is that large."""


class SegmentDamaged(ValueError):
    """A frame that is not the last one cannot be read: this was no interrupted write."""


class SegmentWriter:
    """The only writer of one file. Survives a full disk: a short write is undone and raised.

    A frame is safe from the death of this process once `append` returned; nothing is promised about power loss.
    """

    def __init__(self, path: Path) -> None:
        """Creates the file, or repairs the torn end of one that is there. Raises OSError, SegmentDamaged."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = os.fstat(self._fd).st_size
            self._end = _good_end(path) if size else 0
            if self._end != size:  # only then: ext4 flushes a file that was ever cut to nothing when it is closed
                os.ftruncate(self._fd, self._end)
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, payload: bytes) -> None:
        """Raises OSError with the file as it was before."""
        frame = _HEADER.pack(_MAGIC, len(payload), _checksum(_MAGIC, payload)) + payload
        try:
            written = os.write(self._fd, frame)
            if written != len(frame):
                raise OSError(28, f"wrote {written} of {len(frame)} bytes")
        except OSError:
            # When even this fails the torn end stays, which readers tell from damage only until the next append: close.
            try:
                os.ftruncate(self._fd, self._end)
            except OSError:
                self.close()
            raise
        self._end += len(frame)

    def close(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = -1


def read_frames(path: Path) -> Iterator[bytes]:
    """Payloads in order. A torn last frame is skipped; SegmentDamaged for one before it."""
    for payload, _ in _frames(path.read_bytes(), str(path)):
        yield payload


def _good_end(path: Path) -> int:
    return max((end for _, end in _frames(path.read_bytes(), str(path))), default=0)


def _checksum(magic: bytes, payload: bytes) -> int:
    return zlib.crc32(payload, 0 if magic == _OLD_MAGIC else zlib.crc32(len(payload).to_bytes(4, "little")))


def _frames(content: bytes, name: str) -> Iterator[tuple[bytes, int]]:
    """(payload, offset of its end) for each whole frame."""
    at = 0
    while at < len(content):
        frame = _frame_at(content, at)
        if frame is None:
            if not _is_torn_end(content, at):
                raise SegmentDamaged(f"{name}: the frame at byte {at} is damaged")
            return
        yield frame
        at = frame[1]


def _frame_at(content: bytes, at: int) -> tuple[bytes, int] | None:
    """Payload and end of the frame that begins there; None when it is not whole or does not match its checksum."""
    start = at + _HEADER.size
    if start > len(content):
        return None
    magic, length, checksum = _HEADER.unpack_from(content, at)
    end = start + length
    if magic not in (_MAGIC, _OLD_MAGIC) or length > MAX_FRAME_BYTES or end > len(content):
        return None
    payload = content[start:end]
    return (payload, end) if _checksum(magic, payload) == checksum else None


def _is_torn_end(content: bytes, at: int) -> bool:
    """Whether what begins there, no frame, is all that an interrupted last write left.

    Then nothing that checks can follow it. A length that is damaged points anywhere, so the next frame is looked for.
    """
    header = content[at : at + _HEADER.size]
    if not any(content[at:]):
        return True  # blocks that were allocated and never written, after a crash of the machine
    if not _MAGIC.startswith(header[:4]) and not _OLD_MAGIC.startswith(header[:4]):
        return False
    if len(header) == _HEADER.size:
        _, length, _ = _HEADER.unpack(header)
        if length > MAX_FRAME_BYTES or at + _HEADER.size + length < len(content):
            return False
    return all(_frame_at(content, later) is None for later in _magics(content, at + 1))


def _magics(content: bytes, at: int) -> Iterator[int]:
    """Where a frame may begin, from there on."""
    return (match.start() for match in _ANY_MAGIC.finditer(content, at))
