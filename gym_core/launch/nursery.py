"""The process that all servers of a gym are forked from, and that ends them all when the gym goes.

It imports the heavy modules once, so that a server starts in tens of milliseconds and shares their memory, and it holds
no secrets: a child's slice of the configuration comes through a descriptor that only the child reads.

Run as `python -m gym_core.launch.nursery FD`, FD a SOCK_SEQPACKET socket. A request is a JSON message with descriptors:
`{"op": "fork", "name", "control"}` with the slice, the log and any listening sockets; `{"op": "signal", "pid", "sig"}`.
It answers `{"ev": "forked", "name", "pid"}` and, later, `{"ev": "exited", "name", "pid", "code"}`. A child forked with
`control` gets such a socket of its own (the head server forks the others). When a control socket closes, because its
owner ended in whatever way, the children forked over it are ended.
"""

import array
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass, field

PRELOADED = (
    "uvloop",
    "httptools",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.lifespan.on",
    "gym_core.http.bare_route",
    "gym_core.launch.child",
    "gym_core.launch.head",
    "gym_core.servers.resources",
    "gym_core.servers.agent",
    "gym_core.servers.model.server",
)
GRACE_S = 12.0
"""Between SIGTERM and SIGKILL of the children of a gym that ended."""
GC_THRESHOLD = 20_000
"""Objects made between two looks for cycles: at Python's 700 a single call triggers one, and finds next to nothing."""
MAX_MESSAGE_BYTES = 1 << 16
MAX_DESCRIPTORS = 200
PR_SET_PDEATHSIG = 1


@dataclass
class _Owner:
    """One control socket and the children that were forked over it."""

    socket: socket.socket
    children: dict[int, str] = field(default_factory=dict)


class Nursery:
    def __init__(self, control: socket.socket) -> None:
        self._owners = {control.fileno(): _Owner(control)}
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(self._wake_read, select.POLLIN)
        self._first = control.fileno()

    def serve(self) -> None:
        """Until the first control socket closes."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self._end_all())
        while self._first in self._owners:
            for fd, _ in self._poll.poll():
                if fd == self._wake_read:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_read, 4096)
                    self._reap()
                elif fd in self._owners:
                    self._receive(self._owners[fd])
        self._end_all()

    # -- messages -----------------------------------------------------------

    def _receive(self, owner: _Owner) -> None:
        try:
            data, ancillary, _, _ = owner.socket.recvmsg(
                MAX_MESSAGE_BYTES, socket.CMSG_SPACE(4 * MAX_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionError:
            data, ancillary = b"", []
        fds = _descriptors(ancillary)
        if not data:
            self._abandon(owner)
            return
        message = json.loads(data)
        if message["op"] == "fork":
            self._fork(owner, message, fds)
        elif message["op"] == "signal" and message["pid"] in owner.children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(message["pid"], message["sig"])
        for fd in fds:
            os.close(fd)

    def _fork(self, owner: _Owner, message: dict[str, object], fds: list[int]) -> None:
        name, ours, theirs = str(message["name"]), None, None
        if message["control"]:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        nursery_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            if ours:
                ours.close()  # else this child would hold its own other end, and not hear of the nursery's death
            self._become_child(name, fds, theirs, nursery_pid)
        if ours and theirs:
            theirs.close()
            self._owners[ours.fileno()] = _Owner(ours)
            self._poll.register(ours, select.POLLIN)
        owner.children[pid] = name
        self._send(owner, {"ev": "forked", "name": name, "pid": pid})

    def _become_child(self, name: str, fds: list[int], control: socket.socket | None, nursery_pid: int) -> None:
        code = 70
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != nursery_pid:
                os._exit(code)  # the nursery went before its death could be asked about
            for owner in self._owners.values():
                owner.socket.close()
            from gym_core.launch.child import run_child

            code = run_child(name, fds, control)
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 1
        except BaseException:  # noqa: BLE001 - the last frame of a process: say what it was, then end
            import traceback

            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stderr.flush()
            os._exit(code)

    # -- endings ------------------------------------------------------------

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            for owner in list(self._owners.values()):
                name = owner.children.pop(pid, None)
                if name is not None:
                    self._send(owner, {"ev": "exited", "name": name, "pid": pid, "code": code})

    def _abandon(self, owner: _Owner) -> None:
        """The owner of a control socket is gone: end what it had forked."""
        fd = owner.socket.fileno()
        self._poll.unregister(fd)
        del self._owners[fd]
        owner.socket.close()
        _end(list(owner.children))

    def _end_all(self) -> None:
        pids = [pid for owner in self._owners.values() for pid in owner.children]
        self._owners.clear()
        _end(pids)
        os._exit(0)

    def _send(self, owner: _Owner, message: dict[str, object]) -> None:
        with contextlib.suppress(OSError):  # its owner may be gone; the closed socket says so in the next round
            owner.socket.send(json.dumps(message).encode())


def _end(pids: list[int]) -> None:
    """SIGTERM, a grace, SIGKILL."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline, waiting = time.monotonic() + GRACE_S, set(pids)
    while waiting and time.monotonic() < deadline:
        waiting -= {pid for pid in waiting if _is_reaped(pid)}
        time.sleep(0.01 if waiting else 0)
    for pid in waiting:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found = array.array("i")
            found.frombytes(data[: len(data) // found.itemsize * found.itemsize])
            fds += found
    return fds


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is imported stays shared between the children
    gc.set_threshold(GC_THRESHOLD, 20, 20)
    Nursery(control).serve()


if __name__ == "__main__":
    main()
