"""Limits memory where no control group can be had: measures, and kills the largest process as the kernel would.

Weaker than a control group, and labelled so: a burst between two looks can pass the limit, and files in the workspace
are bounded by its size alone. The number of processes and the size of each are bounded by process 1 (`init.py`).
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_INTERVAL_S = 0.1
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Watched:
    init_pid: int
    """Process 1 of the sandbox, as the host numbers it; never killed."""
    memory_bytes: int


async def watch_memory(watched: Callable[[], Iterable[Watched]]) -> None:
    """Runs until cancelled, for all sandboxes of a provider. Each look costs about 0.05 ms a process, off the loop."""
    while True:
        await asyncio.sleep(_INTERVAL_S)
        for box in list(watched()):
            await asyncio.to_thread(enforce, box)


def enforce(box: Watched) -> None:
    sizes = {pid: _private_bytes(pid) for pid in _tree(box.init_pid)}
    if sum(sizes.values()) <= box.memory_bytes:
        return
    sizes.pop(box.init_pid, None)
    if sizes:
        _kill(max(sizes, key=sizes.__getitem__))


def _tree(root: int) -> list[int]:
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                todo.extend(map(int, children.read_text().split()))
    return found


def _private_bytes(pid: int) -> int:
    """Resident less shared; 0 for a process that is gone."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
