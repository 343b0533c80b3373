"""How the living are told from the dead where process ids say nothing: across containers, and across machines that
share a folder.

Whoever owns sandboxes holds a lock on a file of his own, and the kernel lets go of it when he ends, however he ends.
The folder is what owner and janitor must share; nothing has to be renewed, and no clock is read.
"""

import fcntl
import os
import re
import secrets
from pathlib import Path

from gym_core.errors import SandboxUnavailable

_NAME = re.compile(r"\d{1,10}-[0-9a-f]{16}", re.ASCII)
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_MAKE_TRIES = 5


class Lifeline:
    """One owner's. It is held from `take` to `let_go`, or to the end of the process: programs that it runs do not
    inherit it."""

    def __init__(self, folder: Path, name: str, fd: int) -> None:
        self.name = name
        self._folder = folder
        self._fd = fd

    @classmethod
    def take(cls, folder: Path) -> "Lifeline":
        """A new file in `folder`, which must be there. Raises SandboxUnavailable where files cannot be locked."""
        for _ in range(_MAKE_TRIES):
            name = f"{os.getpid()}-{secrets.token_hex(8)}"
            fd = os.open(folder / name, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
            except OSError as error:
                os.close(fd)
                (folder / name).unlink(missing_ok=True)
                raise SandboxUnavailable(
                    f"sandboxes: no file can be locked in {str(folder)!r} ({error.strerror}): set `state_dir` to a "
                    "folder on a file system with locks"
                ) from error
            if os.fstat(fd).st_nlink:
                return cls(folder, name, fd)
            os.close(fd)  # a janitor saw it before it was locked
        raise SandboxUnavailable(f"sandboxes: files in {str(folder)!r} are removed as soon as they are made")

    def let_go(self, *, leaves_something: bool) -> None:
        """`leaves_something` keeps the file, by which a janitor knows that its owner is gone."""
        if self._fd < 0:
            return
        if not leaves_something:
            (self._folder / self.name).unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = -1


def is_held(folder: Path, name: str) -> bool | None:
    """Whether its owner lives; None when there is no such file, so that this folder cannot tell."""
    if not _NAME.fullmatch(name):
        return None
    try:
        fd = os.open(folder / name, _OPEN)
    except OSError:
        return None
    try:
        return not _locks(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def clear(folder: Path, *, needed: set[str]) -> None:
    """Remove what the dead left, except the `needed`: those by which something of theirs is still to be told."""
    for path in folder.glob("*"):
        if path.name in needed or not _NAME.fullmatch(path.name):
            continue
        try:
            fd = os.open(path, _OPEN)
        except OSError:
            continue
        if _locks(fd, fcntl.LOCK_EX):  # held until it is gone: its owner may be about to lock it
            path.unlink(missing_ok=True)
        os.close(fd)


def _locks(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
