"""Who made a sandbox, in words that outlive him: so that somebody else can tell whether he still lives.

Written where a provider keeps things about a sandbox: a record, a label, metadata. It fits a Kubernetes label, the
narrowest of them.
"""

import os
import re
import socket
from pathlib import Path

from gym_core.types.wire import Wire

_FORM = re.compile(
    r"(?P<host>[A-Za-z0-9.-]+)_(?P<boot>[0-9a-z]+)_(?P<pid_namespace>\d+)_(?P<pid>\d+)_(?P<start_ticks>\d+)", re.ASCII
)
_HOST_LENGTH, _BOOT_LENGTH = 20, 8


class Owner(Wire):
    """One process, for ever: no other one, here or elsewhere, has the same words."""

    host: str
    boot: str
    """Of the kernel, anew at each start of the machine; containers of one machine share it."""
    pid_namespace: int
    """Process ids mean something within one of these alone; each container has its own."""
    pid: int
    start_ticks: int
    """In clock ticks since the machine started: process ids are used again."""

    @classmethod
    def here(cls) -> "Owner":
        """This process."""
        pid = os.getpid()
        return cls(
            host=re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname())[:_HOST_LENGTH].strip("-") or "host",
            boot=_boot(),
            pid_namespace=_pid_namespace(),
            pid=pid,
            start_ticks=start_ticks(pid) or 0,
        )

    @classmethod
    def parse(cls, text: str) -> "Owner | None":
        """None for what `str` did not write."""
        found = _FORM.fullmatch(text)
        return cls.model_validate(found.groupdict()) if found else None

    def __str__(self) -> str:
        """For instance "laptop_1f0c9a7e_4026531836_812_90417": at most 63 characters, of which none needs quoting."""
        return f"{self.host}_{self.boot}_{self.pid_namespace}_{self.pid}_{self.start_ticks}"

    @property
    def is_known_dead(self) -> bool:
        """False too when he cannot be seen from here; `lifeline` tells of those where a folder is shared with them."""
        return self.can_be_seen and start_ticks(self.pid) != self.start_ticks

    @property
    def can_be_seen(self) -> bool:
        """Whether process ids here and his are the same: not those of another machine or container, or of before a
        restart."""
        return self.boot == _boot() and self.pid_namespace == _pid_namespace()


def start_ticks(pid: int) -> int | None:
    """When a process started; with the pid it names one process of this machine. None when there is none (any more)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _boot() -> str:
    try:
        return boot_id().replace("-", "")[:_BOOT_LENGTH]
    except OSError:  # no Linux: nothing can be told dead
        return "unknown"


def _pid_namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
