"""An append-only file of checked frames: what was appended is read back whole or reported, never half.

Frame: magic "GYC1", payload length and CRC-32 (little-endian uint32 each), payload.
"""

import contextlib
import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

_MAGIC = b"GYC1"
_HEADER = struct.Struct("<4sII")
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
        frame = _HEADER.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload
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


def _frames(content: bytes, name: str) -> Iterator[tuple[bytes, int]]:
    """(payload, offset of its end) for each whole frame."""
    at = 0
    while at < len(content):
        header = content[at : at + _HEADER.size]
        if len(header) < _HEADER.size:
            return
        magic, length, checksum = _HEADER.unpack(header)
        start = at + _HEADER.size
        end = start + length
        if magic != _MAGIC or length > MAX_FRAME_BYTES:
            if not any(content[at:]):
                return  # blocks that were allocated and never written, after a crash of the machine
            raise SegmentDamaged(f"{name}: no frame at byte {at}")
        payload = content[start:end]
        if len(payload) < length:
            return
        if zlib.crc32(payload) != checksum:
            if end == len(content):
                return
            raise SegmentDamaged(f"{name}: the frame at byte {at} does not match its checksum")
        yield payload, end
        at = end
