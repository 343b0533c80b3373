"""One child of ours and its end, on any event loop and without a thread each."""

import asyncio
import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Command:
    argv: list[str]
    pass_fds: tuple[int, ...]
    stderr: int
    env: dict[str, str] = field(default_factory=dict)


class Process:
    """Started in the calling thread, which must be one that outlives it: bubblewrap's parent-death signal follows the
    *thread*. Starting blocks the loop for about 1 ms (vfork).
    """

    def __init__(self, command: Command) -> None:
        self.exited = asyncio.Event()
        self._popen = subprocess.Popen(
            command.argv,
            pass_fds=command.pass_fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=command.stderr,
            env=command.env,
        )
        self._loop = asyncio.get_running_loop()
        try:
            self._pidfd = os.pidfd_open(self._popen.pid)
        except OSError:
            self._popen.kill()
            self._popen.wait()
            raise
        self._loop.add_reader(self._pidfd, self._ended)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def only_child(self) -> int | None:
        """Its child's pid, None without one. For bubblewrap that is process 1 of the sandbox."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def kill(self) -> None:
        if not self.exited.is_set():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._popen.wait()
        self.exited.set()
