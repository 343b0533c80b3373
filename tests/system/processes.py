"""What /proc says about the processes that a test started, directly or through those it started."""

import contextlib
import ctypes
import os
import re
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
_CHUNK_BYTES = 8 << 20
NURSERY_MODULE = "gym_core.launch.nursery"


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    state: str
    """One letter; "Z" has ended and was not waited for."""
    argv: tuple[str, ...]

    @property
    def is_alive(self) -> bool:
        return self.state not in "ZX"

    @property
    def log_name(self) -> str:
        """Name of the log that its standard output goes to; "" when that is no log."""
        try:
            target = Path(f"/proc/{self.pid}/fd/1").readlink()
        except OSError:
            return ""
        return target.stem if target.suffix == ".log" else ""


def adopt_orphans() -> None:
    """From now on a process whose parent was killed becomes this process's child: nothing can slip out of sight."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def read_process(pid: int) -> Process | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0")
    except (OSError, ProcessLookupError):
        return None
    return Process(pid, parent=int(fields[1]), state=fields[0], argv=tuple(argv))


def descendants(root: int | None = None, *, without: frozenset[int] = frozenset()) -> list[Process]:
    """Every living process below this one (or `root`), those below the pids in `without` left out."""
    everyone = [p for entry in Path("/proc").iterdir() if entry.name.isdigit() and (p := read_process(int(entry.name)))]
    children: dict[int, list[Process]] = {}
    for process in everyone:
        children.setdefault(process.parent, []).append(process)
    found, waiting = [], [os.getpid() if root is None else root]
    while waiting:
        for process in children.get(waiting.pop(), []):
            if process.pid not in without:
                found.append(process)
                waiting.append(process.pid)
    return [process for process in found if process.is_alive]


def servers_of(cli: int) -> dict[str, int]:
    """Pids of a gym's processes: "cli", "nursery", "head" and each server by its name, as far as they run."""
    found = {"cli": cli}
    for process in descendants(cli):
        if NURSERY_MODULE in process.argv and process.log_name:
            is_nursery = process.parent == cli
            if is_nursery or process.log_name != "nursery":
                found["nursery" if is_nursery else process.log_name] = process.pid
    return found


def environment_and_argv(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()


def holds(pid: int, text: str) -> bool:
    """Whether a text is anywhere in a process's writable memory. Raises PermissionError where one may not look."""
    wanted = text.encode()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for start, end in _writable(pid):
            before = b""
            for place in range(start, end, _CHUNK_BYTES):
                with contextlib.suppress(OSError):  # a page that went meanwhile
                    memory.seek(place)
                    content = memory.read(min(_CHUNK_BYTES, end - place))
                    if wanted in before + content:
                        return True
                    before = content[-len(wanted) :]
    return False


def _writable(pid: int) -> list[tuple[int, int]]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    found = [re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line) for line in lines]
    return [(int(match[1], 16), int(match[2], 16)) for match in found if match]
