"""What sandboxes could leave on this host, looked for where the kernel keeps it."""

import contextlib
import os
from pathlib import Path

_WORDS = ("/newroot", "/oldroot", "/workspace", "/home/agent", "/.gym_init.py")
"""In the mounts that bubblewrap makes on its way, and in those that are inside."""


def open_descriptors() -> list[str]:
    """What this process holds open: a namespace's too, which would keep that namespace alive."""
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names, some of which are gone by now
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))  # noqa: PTH115 - as above
    return found


def mounts_of_sandboxes() -> list[str]:
    """That this host sees. A namespace lives as long as a process in it, a descriptor of it or a mount of it."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if any(w in line for w in _WORDS)]


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def processes_with(word: str) -> list[str]:
    """Ids of this host's processes whose command line holds the word, those in sandboxes of this host among them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes():
                found.append(path.parent.name)
    return found
