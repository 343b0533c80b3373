"""Process 1 of a sandbox: starts commands, moves files, hands out the listening socket.

It is put into the sandbox and run there by path, so it imports the standard library alone, and little of it, since
each sandbox pays for it at its start; `channel.py` is the other end. Started as
`init.py CONTROL PORT MAX_PROCESSES DATA_MIB IDLE_S FILTER WORKDIR`. CONTROL is the control socket, a descriptor or the
path of one that listens; PORT 0 means no network; MAX_PROCESSES and DATA_MIB 0 that a control group limits instead;
IDLE_S is how long to live unused (0: for ever); FILTER is the path of a system-call filter, "" when there is
one already. One JSON object per message; a request that is too long for one message is in a memory file, which is then
its first descriptor. Requests, with the descriptors that come along:

    {"op": "exec", "id", "argv", "cwd", "env"}   [stdout, stderr]          ends in {"event": "exit", "id", "status"}
    {"op": "put", "id", "path", "mode"}          [memory file to copy]     the same; `status` is 0, errno or below
    {"op": "get", "id", "path", "max_bytes"}     [pipe to write to]        the same
    {"op": "kill", "id"}                                                   no answer; the killed command's exit follows
    {"op": "ping", "id"}                                                   {"event": "exit", "id", "status": 0}

A negative status is the signal that ended it. When the control socket closes, process 1 exits and the kernel kills the
rest of the sandbox.
"""
# pathlib and contextlib would make the start of every sandbox slower:
# ruff: noqa: PTH103, PTH104, PTH108, PTH118, PTH120, PTH123, PTH208, SIM105

from __future__ import annotations

import array
import ctypes
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any  # parsed JSON

NOT_REGULAR, TOO_LONG = 250, 251
"""Statuses of a transfer that are not an errno."""

NO_FORK = 1000
"""No process could be started; not an exit code that a command can have."""

LISTENER_BACKLOG = 128
MESSAGE_BYTES = 128 << 10
CHUNK_BYTES = 1 << 20
TASK_OOM_SCORE = "900"
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
HANDLED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

libc = ctypes.CDLL(None, use_errno=True)


class Init:
    def __init__(self, control: socket.socket, data_mib: int, idle_s: int, workdir: str) -> None:
        self.control = control
        self.data_mib = data_mib
        self.idle_s = idle_s
        self.last_use = time.monotonic()
        self.workdir = workdir
        self.children: dict[int, int] = {}
        """Process to request id."""
        self.trying = "exec"
        """What the message of a failed start is about."""
        self.wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in HANDLED:
            signal.signal(number, lambda *_: None)

    def send(self, message: dict[str, object], fds: Sequence[int] = ()) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.control.sendmsg([json.dumps(message).encode()], rights)

    def exited(self, request_id: int, status: int) -> None:
        self.send({"event": "exit", "id": request_id, "status": status})

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.wake_read, select.POLLIN)
        while True:
            for fd, _ in poll.poll(self.idle_s * 1000 or None):
                if fd == self.wake_read:
                    os.read(fd, 4096)
                    self.reap()
                else:
                    self.last_use = time.monotonic()
                    self.handle(*receive(self.control))
            if self.idle_s and not self.children and time.monotonic() >= self.last_use + self.idle_s:
                os._exit(0)  # the kernel ends what still runs here

    def handle(self, request: dict[str, Any], fds: list[int]) -> None:
        try:
            operation, request_id = request["op"], request["id"]
            if operation == "kill":
                self.kill(request_id)
            elif operation == "ping":
                self.exited(request_id, 0)
            else:
                self.start(request, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def start(self, request: dict[str, Any], fds: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError:  # the limit on processes or memory
            self.exited(request["id"], NO_FORK)
            return
        if pid == 0:
            self.become_child(request, fds)
        self.children[pid] = request["id"]

    def become_child(self, request: dict[str, Any], fds: list[int]) -> None:
        status = 127
        try:
            signal.set_wakeup_fd(-1)
            for number in (*HANDLED, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            if request["op"] == "exec":
                self.run(request, fds)
            else:
                keep_only(fds)
                status = put(request, 0) if request["op"] == "put" else get(request, 0)
        except OSError as error:
            status = error.errno or 74
            if request["op"] == "exec":
                os.write(2, f"{self.trying}: {error.strerror}\n".encode())
                status = 127
        finally:
            os._exit(status)

    def run(self, request: dict[str, Any], fds: list[int]) -> None:
        keep_only([os.open("/dev/null", os.O_RDONLY), *fds])
        # Only now, when the control socket is closed here: the owner of a dumpable process may reach into it.
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(TASK_OOM_SCORE)  # an out-of-memory kill takes the task, and the sandbox lives on
        if self.data_mib:
            # Not RLIMIT_AS: JavaScript engines reserve far more than they use.
            resource.setrlimit(resource.RLIMIT_DATA, (self.data_mib << 20, self.data_mib << 20))
        self.trying = request["cwd"] or self.workdir
        os.chdir(self.trying)
        self.trying = request["argv"][0]
        os.execvpe(request["argv"][0], request["argv"], request["env"])

    def kill(self, request_id: int) -> None:
        for pid, owner in list(self.children.items()):
            if owner == request_id:
                kill_family(pid)

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            request_id = self.children.pop(pid, None)
            if request_id is not None:
                self.last_use = time.monotonic()
                self.exited(request_id, os.waitstatus_to_exitcode(status))


def receive(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One request and its descriptors. Leaves the process when the host has gone."""
    data, ancillary, _, _ = control.recvmsg(MESSAGE_BYTES, socket.CMSG_SPACE(4 * 8), socket.MSG_CMSG_CLOEXEC)
    if not data:
        os._exit(0)
    fds: list[int] = []
    for level, kind, raw in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.extend(array.array("i", raw[: len(raw) // 4 * 4]))
    request = json.loads(data)
    if request["op"] == "long":
        with open(fds.pop(0), "rb") as file:
            file.seek(0)
            request = json.loads(file.read())
    return request, fds


def keep_only(fds: list[int]) -> None:
    """Make `fds` the descriptors 0, 1, ... and close all others."""
    moved = [os.dup(fd) for fd in fds]
    for target, fd in enumerate(moved):
        os.dup2(fd, target)
    os.closerange(max(3, len(fds)), 1 << 16)


def copy(source: int, target: int, max_bytes: int | None = None) -> None:
    """Raises OverflowError past `max_bytes`."""
    done = 0
    while chunk := os.read(source, CHUNK_BYTES):
        done += len(chunk)
        if max_bytes is not None and done > max_bytes:
            raise OverflowError
        view = memoryview(chunk)
        while view:
            view = view[os.write(target, view) :]


def put(request: dict[str, Any], source: int) -> int:
    path = request["path"]
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    part = os.path.join(folder, f".{os.urandom(8).hex()}.part")
    os.lseek(source, 0, os.SEEK_SET)
    target = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        copy(source, target)
        os.fchmod(target, request["mode"])
        os.rename(part, path)
    except OSError:
        os.unlink(part)
        raise
    return 0


def get(request: dict[str, Any], target: int) -> int:
    source = os.open(request["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    about = os.fstat(source)
    if not stat.S_ISREG(about.st_mode):
        return NOT_REGULAR
    if about.st_size > request["max_bytes"]:
        return TOO_LONG
    try:
        copy(source, target, request["max_bytes"])  # bounded again: it may grow
    except OverflowError:
        return TOO_LONG
    return 0


def kill_family(leader: int) -> None:
    """Kill a command's group, its session, and all that descend from it, those that made a session of their own too.

    Repeats while it finds more, since a process can fork between the look and the kill.
    """
    known = {leader}
    for _ in range(8):
        found = {pid for pid, *ties in process_table() if known.intersection(ties)} - known
        for pid in found | {leader}:
            kill_one(pid)
        if not found:
            return
        known |= found


def kill_one(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def process_table() -> Iterator[tuple[int, int, int, int]]:
    """(pid, parent, group, session) of each process but ourselves."""
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            yield int(name), int(fields[1]), int(fields[2]), int(fields[3])


def open_listener(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(LISTENER_BACKLOG)
    return listener


def open_control(word: str) -> socket.socket:
    """The only descriptor that stays open, beside the first three."""
    if word.isdigit():
        control_fd = int(word)
        os.closerange(3, control_fd)
        os.closerange(control_fd + 1, 1 << 16)
        os.set_inheritable(control_fd, False)
        return socket.socket(fileno=control_fd)
    os.closerange(3, 1 << 16)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.connect(word)
    return control


def confine(path: str) -> None:
    """Put a system-call filter, on top of what there is, on this process and all it starts."""
    with open(path, "rb") as file:
        program = file.read()
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HP", len(program) // 8, ctypes.addressof(instructions))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0):
        raise OSError(ctypes.get_errno(), "no system-call filter: " + os.strerror(ctypes.get_errno()))


def main(arguments: list[str]) -> None:
    control, filter_path, workdir = arguments[0], arguments[5], arguments[6]
    port, max_processes, data_mib, idle_s = map(int, arguments[1:5])
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # tasks can neither trace it nor read its memory and environment
    os.umask(0o022)
    init = Init(open_control(control), data_mib, idle_s, workdir)
    if filter_path:
        confine(filter_path)
    if max_processes:
        # Set here, in the new user namespace: the kernel then counts this sandbox's processes alone.
        resource.setrlimit(resource.RLIMIT_NPROC, (max_processes, max_processes))
    if port:
        # A socket belongs to the network namespace it was made in, so the host can accept on this one.
        with open_listener(port) as listener:
            init.send({"event": "listener"}, [listener.fileno()])
    init.send({"event": "ready"})
    init.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
