"""What sandboxes could leave on this host, looked for where the kernel keeps it."""

import contextlib
import os
from collections.abc import Sequence
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


def namespaces_of(pid: int) -> list[str]:
    """For instance "net:[4026532281]", each kind once: those of its own that a process has, and not this process's."""
    own = set(_links("self"))
    return [link for link in _links(str(pid)) if link not in own]


def uid_of(pid: int) -> int:
    """Which user it is to this host."""
    return int(Path(f"/proc/{pid}/status").read_text().split("Uid:\t")[1].split()[0])


def holders_of(namespaces: dict[str, set[int]]) -> list[str]:
    """Who keeps one of these alive: processes in it, our own descriptors of it, mounts of it. The kernel gives a freed
    number out again, so only a process of a user who was in that namespace counts, given with each."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid, uid = int(path.name), uid_of(int(path.name))
            found += [f"process {pid} in {link}" for link in _links(path.name) if uid in namespaces.get(link, ())]
    held = [f"descriptor of {link}" for link in open_descriptors() if link in namespaces]
    rows = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [*found, *held, *(f"mount of {row[3]}" for row in rows if row[3] in namespaces)]


def files_of(uids: set[int], folders: Sequence[Path]) -> list[str]:
    """Entries below these folders that belong to one of these users."""
    found = []
    for folder in folders:
        for parent, names, files in os.walk(folder):  # which passes over what is gone meanwhile
            for path in (Path(parent, name) for name in (*names, *files)):
                with contextlib.suppress(OSError):  # the same
                    if path.lstat().st_uid in uids:
                        found.append(str(path))
    return found


def _links(pid: str) -> list[str]:
    folder = Path("/proc", pid, "ns")
    return sorted({os.readlink(folder / name) for name in os.listdir(folder)})  # noqa: PTH115, PTH208 - as above


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
