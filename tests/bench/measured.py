"""A command run once, and what it cost: time, CPU of its whole process tree, memory, who spent how much.

The tree is what descends from the command; orphans stay within sight because this process adopts them. Linux only.
"""

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
LOOK_EVERY_S = 0.25


@dataclass(frozen=True)
class Measured:
    started_at: float
    """Unix time, seconds."""
    wall_s: float
    cpu_s: float
    """User and system, of every process of the tree, by the kernel's accounting at their ends."""
    peak_pss_mib: float
    """Largest sum over the tree seen at one moment; pages that processes share count once."""
    cpu_by_log: dict[str, float]
    """CPU seconds by the file that a process's stderr goes to (a gym's servers have one each), as last seen alive."""
    exit_code: int
    left_over: int
    """Processes that outlived the command."""
    output: str


@dataclass
class _Watch(threading.Thread):
    root: int
    peak_pss_kib: int = 0
    cpu: dict[int, tuple[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        while not self.ended.wait(LOOK_EVERY_S):
            self.look()

    def look(self) -> None:
        pss = 0
        for pid in descendants(self.root):
            try:
                label = Path(f"/proc/{pid}/fd/2").readlink().stem if pid != self.root else "command"
                self.cpu[pid] = label, _cpu_s(pid)
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                pss += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
            except (OSError, StopIteration):
                continue
        self.peak_pss_kib = max(self.peak_pss_kib, pss)


def descendants(root: int) -> list[int]:
    """The process itself and all below it, as of now."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _cpu_s(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def measure(
    command: Sequence[str], *, environ: Mapping[str, str] | None = None, cwd: Path | None = None, stdin: str = ""
) -> Measured:
    """Run a command to its end. Whatever it left behind is killed and counted."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    own_before = set(descendants(os.getpid()))
    started_at, started = time.time(), time.monotonic()
    process = subprocess.Popen(
        command, env=dict(os.environ) | dict(environ or {}), cwd=cwd,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    watch = _Watch(process.pid)
    watch.start()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(stdin.encode())
    process.stdin.close()
    output = process.stdout.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    watch.ended.set()
    watch.join()
    left = [pid for pid in descendants(os.getpid()) if pid not in own_before]
    by_log: dict[str, float] = {}
    for label, cpu_s in watch.cpu.values():
        by_log[label] = by_log.get(label, 0.0) + cpu_s
    return Measured(
        started_at=started_at,
        wall_s=wall_s,
        cpu_s=usage.ru_utime + usage.ru_stime + _end(left),
        peak_pss_mib=watch.peak_pss_kib / 1024,
        cpu_by_log=by_log,
        exit_code=process.returncode,
        left_over=len(left),
        output=output,
    )


def _end(pids: list[int]) -> float:
    """Kill what was left behind; the CPU it had used, in seconds."""
    cpu_s = 0.0
    for pid in pids:
        try:
            os.kill(pid, 9)
            _, _, usage = os.wait4(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue
        cpu_s += usage.ru_utime + usage.ru_stime
    return cpu_s


def load_line() -> str:
    return f"{os.cpu_count()} processors, load average {' '.join(f'{load:.1f}' for load in os.getloadavg())}"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows under their columns; numbers to the right."""
    cells = [list(columns), *[[_cell(value) for value in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    aligned = [
        [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        for row in cells
    ]
    return "\n".join("  ".join(row).rstrip() for row in aligned)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"
    return "-" if value is None else str(value)
