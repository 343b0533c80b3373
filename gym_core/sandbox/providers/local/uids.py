"""Host user ids for sandboxes, one each, when the provider runs as root.

Kernel uid 0 must never be what a task really is, and two sandboxes must not be one user. Which ids are taken is said
by byte locks on one file for the whole host: byte N is locked while id FIRST+N is in use. Two providers can therefore
not hand out the same id, in one process or in two, and the kernel lets go of a killed provider's ids.
"""

import fcntl
import os
import random
import struct
import tempfile
from pathlib import Path

from gym_core.errors import SandboxUnavailable

_RANGES = ((1_900_000_000, 65_536), (60_706, 478))
"""(first, count), which the user-id maps of systemd leave unused; the second where a container maps only 16 bits."""

_LOCK_FIELDS = "hhqqi4x"
"""struct flock: type, whence, start, length, pid."""


def host_lock_file() -> Path:
    """One place for the host, whatever a provider's state folder is."""
    return Path("/run/gym-uids.lock" if os.access("/run", os.W_OK) else f"{tempfile.gettempdir()}/gym-uids.lock")


def free_range(uid_map: str) -> tuple[int, int]:
    """The first of our ranges that a /proc/self/uid_map covers. Raises SandboxUnavailable."""
    spans = [tuple(map(int, line.split())) for line in uid_map.splitlines()]
    for first, count in _RANGES:
        if any(inside <= first and first + count <= inside + length for inside, _, length in spans):
            return first, count
    raise SandboxUnavailable("local sandboxes: no user ids to spare in this user namespace; run as an ordinary user")


class UidPool:
    """Costs one descriptor for the provider's life, and one system call a sandbox."""

    def __init__(self, path: Path | None = None) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path or host_lock_file(), flags, 0o600)
        self._first, self._count = free_range(Path("/proc/self/uid_map").read_text())
        self._next = random.randrange(self._count)  # a freed id rests for a while before it is used again
        self._taken: set[int] = set()

    def take(self) -> int:
        for _ in range(self._count):
            uid, self._next = self._first + self._next, (self._next + 1) % self._count
            if self.try_take(uid):
                return uid
        raise SandboxUnavailable(f"local sandboxes: all {self._count} user ids are in use")

    def try_take(self, uid: int) -> bool:
        """This very id, unless somebody has it."""
        slot = uid - self._first
        if slot in self._taken or not self._lock(slot, fcntl.F_WRLCK):
            return False
        self._taken.add(slot)
        return True

    def give_back(self, uid: int) -> None:
        slot = uid - self._first
        if slot in self._taken:
            self._taken.remove(slot)
            self._lock(slot, fcntl.F_UNLCK)

    def close(self) -> None:
        """Gives every id back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lock(self, slot: int, kind: int) -> bool:
        try:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, struct.pack(_LOCK_FIELDS, kind, os.SEEK_SET, slot, 1, 0))
        except BlockingIOError:
            return False
        return True
