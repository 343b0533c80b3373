"""Files that are read: plain ones. A pipe that lies in a run's folder would keep its reader for ever."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_plain(path: Path) -> BinaryIO:
    """For reading. Raises OSError, also for what is no plain file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is no plain file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def must_be_plain(path: Path) -> None:
    """For those that others open. Raises OSError."""
    open_plain(path).close()


def readable_name(name: str) -> str:
    """A file's name as text that can be sent: bytes that are none become U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
