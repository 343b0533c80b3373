"""`gym view` as a process, as a user starts it."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
"""It ends within a second, where the machine is not busy with other things."""
_URL = re.compile(r"http://\S+")


@dataclass(frozen=True)
class Viewing:
    url: str
    """With the token, as the command prints it."""
    said: str
    """By the command until then."""
    _process: "subprocess.Popen[bytes]"

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def at(self, view: str) -> str:
        """A deep link, such as "#/run/x". It carries no token: the browser that saw `url` keeps it."""
        return f"{self.origin}/page/{view}"

    def end(self) -> None:
        """By Ctrl-C."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        assert self._process.wait(_STOP_TIMEOUT_S) in (0, 130)

    def memory_mib(self) -> float:
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def viewing(*words: str | Path) -> Iterator[Viewing]:
    """Ended by Ctrl-C, as a user does; it must end by itself then."""
    argv = [sys.executable, "-m", "gym_core.cli.main", "view", *map(str, words)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        url, said = _url_of(process)
        served = Viewing(url, said, process)
        yield served
        served.end()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _url_of(process: "subprocess.Popen[bytes]") -> tuple[str, str]:
    assert process.stdout is not None
    deadline, said = time.monotonic() + _START_TIMEOUT_S, b""
    while time.monotonic() < deadline:
        ready, _, _ = select.select([process.stdout], [], [], 1.0)
        if not ready:
            continue
        piece = os.read(process.stdout.fileno(), 1 << 16)
        said += piece
        found = _URL.search(said.decode("utf-8", "replace"))
        if found and said.endswith(b"\n"):
            return found[0], said.decode("utf-8", "replace")
        if not piece:
            break
    raise AssertionError(f"gym view gave no address: {said.decode('utf-8', 'replace')}")
