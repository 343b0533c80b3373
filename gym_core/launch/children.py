"""The other end of a nursery's control socket: start it, ask it for children, hear of their ends."""

import array
import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HEAD = "head"
"""The name of the child that forks the others."""

KEPT_ENVIRONMENT = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "GYM_CACHE_DIR", "GYM_EXTRA_ROOTS", "GYM_STATE_DIR", "SSL_CERT_FILE",
    "OPENBLAS_CORETYPE",
)  # fmt: skip
"""All of the environment that servers see: secrets go through slices, and only to the server that needs them."""

SERVER_ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
    "OPENBLAS_NUM_THREADS": "1",
}
"""Large bodies reuse their memory instead of faulting it in again: a third less CPU at 20 MB. And numpy starts no
threads, as servers are forked from a process that imported it."""


@dataclass(frozen=True)
class ChildExit:
    name: str
    pid: int
    code: int
    """Negative: the signal that ended it."""


def start_nursery(
    log_path: Path, environ: Mapping[str, str] | None = None
) -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """A nursery in a session of its own, so that a terminal's Ctrl-C reaches the command alone. It starts importing at
    once; requests wait in the socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    source = os.environ if environ is None else environ
    kept = {name: source[name] for name in KEPT_ENVIRONMENT if name in source}
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with theirs, log_path.open("ab") as log:
        process = subprocess.Popen(
            # -P: a json.py in the user's working folder is not the module we mean.
            [sys.executable, "-P", "-m", "gym_core.launch.nursery", str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=kept | SERVER_ENVIRONMENT, start_new_session=True,
        )  # fmt: skip
    return ours, process


class Children:
    """Asks for children and hears of their ends, on the running event loop."""

    def __init__(self, control: socket.socket, on_exit: Callable[[ChildExit], None]) -> None:
        self._control = control
        self._on_exit = on_exit
        self._forked: dict[str, asyncio.Future[int]] = {}
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the nursery itself is gone."""
        control.setblocking(False)
        asyncio.get_running_loop().add_reader(control, self._receive)

    async def fork(self, name: str, fds: Sequence[int], *, control: bool = False) -> int:
        """Pid of a new child that owns copies of the descriptors. One at a time for a name. Raises ConnectionError."""
        forked: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._forked[name] = forked
        message = json.dumps({"op": "fork", "name": name, "control": control}).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        await asyncio.get_running_loop().run_in_executor(None, self._send, message, rights)
        return await forked

    def signal(self, pid: int, number: int) -> None:
        """To a child that may be gone already."""
        self._send(json.dumps({"op": "signal", "pid": pid, "sig": number}).encode(), [])

    def close(self) -> None:
        """Let go: the nursery ends every child of this socket."""
        if self._control.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()

    def _send(self, message: bytes, rights: Sequence[tuple[int, int, "array.array[int]"]]) -> None:
        self._control.sendmsg([message], rights)

    def _receive(self) -> None:
        try:
            data = self._control.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        message = json.loads(data)
        if message["ev"] == "forked":
            forked = self._forked.pop(message["name"], None)
            if forked and not forked.done():
                forked.set_result(message["pid"])
        else:
            self._on_exit(ChildExit(message["name"], message["pid"], message["code"]))

    def _lose(self) -> None:
        asyncio.get_running_loop().remove_reader(self._control)
        for forked in self._forked.values():
            if not forked.done():
                forked.set_exception(ConnectionError("the nursery process is gone"))
        if not self.lost.done():
            self.lost.set_result(None)
