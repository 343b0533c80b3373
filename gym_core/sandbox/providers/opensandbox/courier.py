"""Runs in an OpenSandbox sandbox for one request: starts a command, puts a file in its place, reads one, looks around.

The daemon there carries text alone, tells a signal from an exit code in no way, follows links, opens pipes, and on a
time-out leaves what took a session of its own. So each request is this program, whose text comes along with it, since
a file in the sandbox could be changed by what it is to run. Started as `python3 -I -c TEXT REQUEST...`, the request
being JSON cut into arguments, it writes frames `<kind:base64>`:

    p   its process id, first             o, e   output of the command          d   bytes of the file that is read
    x   the end, JSON: {"status", ...}; for files 0, an errno, or below; for a command as `Popen.returncode`

It imports the standard library alone. `frames.py` is the other end.
"""
# pathlib would make the start of every command slower:
# ruff: noqa: PTH103, PTH104, PTH108, PTH118, PTH120, PTH123, PTH208, SIM105

from __future__ import annotations

import base64
import ctypes
import errno
import hashlib
import json
import os
import resource
import select
import signal
import stat
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any  # parsed JSON

NOT_REGULAR, TOO_LONG, NOT_WHOLE = 250, 251, 252
"""Statuses of a transfer that are not an errno; the last: what was uploaded is not what was sent."""

CHUNK_BYTES = 24 << 10
"""Of one frame: a daemon that reads lines may take no longer ones than 64 KiB."""

COPY_BYTES = 1 << 20
LINGER_S = 0.25
"""How long output is still collected after the command ended, when something keeps its pipes open."""

KILL_ROUNDS = 400
KILL_PAUSE_S = 0.01
TASK_OOM_SCORE = "900"
STOPPED_STATUS = 143
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_RULE_NET_PORT, LANDLOCK_ACCESS_NET_CONNECT_TCP = 2, 1 << 1
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

libc = ctypes.CDLL(None, use_errno=True)


def emit(kind: str, content: bytes) -> None:
    frame = b"<" + kind.encode() + b":" + base64.b64encode(content) + b">\n"
    while frame:
        frame = frame[os.write(1, frame) :]


class Command:
    """One command and all that descends from it: this process adopts what its own parents leave."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.status: int | None = None
        self.timed_out = self.truncated = False
        self.wake_read, self.wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.left = {"o": request["cap"], "e": request["cap"]}
        self.streams: dict[int, str] = {}
        self.poll = select.poll()

    def run(self) -> dict[str, object]:
        self.watch_children()
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.start()
        deadline = time.monotonic() + self.request["timeout_s"]
        while self.status is None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                self.timed_out = True
                self.kill_all()
                break
            self.collect(remaining)
        deadline = time.monotonic() + LINGER_S
        while self.streams and (remaining := deadline - time.monotonic()) > 0:
            self.collect(remaining)
        return {"status": self.status, "timed_out": self.timed_out, "truncated": self.truncated}

    def watch_children(self) -> None:
        os.set_blocking(self.wake_read, False)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in STOPPING:
            signal.signal(number, lambda *_: self.stop())
        self.poll.register(self.wake_read, select.POLLIN)

    def start(self) -> None:
        pipes = {kind: os.pipe2(os.O_CLOEXEC) for kind in "oe"}
        self.leader = os.fork()
        if self.leader == 0:
            self.become(pipes["o"][1], pipes["e"][1])
        for kind, (read_end, write_end) in pipes.items():
            os.close(write_end)
            self.streams[read_end] = kind
            self.poll.register(read_end, select.POLLIN)

    def become(self, stdout: int, stderr: int) -> None:
        trying = "start"
        try:
            signal.set_wakeup_fd(-1)
            for number in (*STOPPING, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
            os.closerange(3, 1 << 16)
            libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write(TASK_OOM_SCORE)  # an out-of-memory kill takes the task, and the daemon lives on
            longest = self.request["file_bytes"]
            resource.setrlimit(resource.RLIMIT_FSIZE, (longest, longest))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            trying = "Landlock"
            if self.request["only_port"] is not None and not leave_one_port(self.request["only_port"]):
                raise OSError(errno.EPERM, "refused, although it was there")
            trying = self.request["cwd"]
            os.chdir(trying)
            trying = self.request["argv"][0]
            os.execvpe(trying, self.request["argv"], self.request["env"])
        except OSError as error:
            os.write(2, f"{trying}: {error.strerror}\n".encode())
        finally:
            os._exit(127)

    def collect(self, seconds: float) -> None:
        for fd, _ in self.poll.poll(seconds * 1000):
            if fd == self.wake_read:
                os.read(fd, 4096)
                self.reap()
            else:
                self.pass_on(fd)

    def pass_on(self, fd: int) -> None:
        kind, content = self.streams[fd], os.read(fd, CHUNK_BYTES)
        if not content:
            self.poll.unregister(fd)
            del self.streams[fd]
            os.close(fd)
            return
        kept = content[: self.left[kind]]
        self.left[kind] -= len(kept)
        self.truncated = self.truncated or len(kept) < len(content)
        if kept:
            emit(kind, kept)

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.leader:
                self.status = os.waitstatus_to_exitcode(status)

    def kill_all(self) -> None:
        """Repeats while it finds more, since a process can fork between the look and the kill."""
        for _ in range(KILL_ROUNDS):
            found = descendants(os.getpid())
            if not found:
                return
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.reap()
            time.sleep(KILL_PAUSE_S)

    def stop(self) -> None:
        self.kill_all()
        os._exit(STOPPED_STATUS)


def leave_one_port(port: int) -> bool:
    """From now on TCP connections go to this port alone, to none if it is 0, whatever is started from here.

    So the daemon is out of reach, which listens beside on loopback, asks for no password and is root. False where the
    kernel cannot do it: before 6.7, or without Landlock.
    """
    handled = struct.pack("=QQ", 0, LANDLOCK_ACCESS_NET_CONNECT_TCP)
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    if ruleset < 0:
        return False
    try:
        rule = struct.pack("=QQ", LANDLOCK_ACCESS_NET_CONNECT_TCP, port)
        if port and libc.syscall(LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_NET_PORT, rule, 0):
            return False
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def descendants(ancestor: int) -> set[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(name)] = int(fields[1])
    known, found = {ancestor}, {ancestor}
    while found:
        found = {pid for pid, parent in parents.items() if parent in found} - known
        known |= found
    return known - {ancestor}


def place(request: dict[str, Any]) -> dict[str, object]:
    """What was uploaded to `part`, checked, becomes `path` in one step."""
    part, path = request["part"], request["path"]
    try:
        source = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return {"status": NOT_WHOLE}
    try:
        return {"status": put(source, path, request)}
    finally:
        os.close(source)


def put(source: int, path: str, request: dict[str, Any]) -> int:
    if not stat.S_ISREG(os.fstat(source).st_mode):
        return NOT_WHOLE
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    beside = os.path.join(folder, f".{os.urandom(8).hex()}.part")
    target = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        digest, size = hashlib.sha256(), 0
        while chunk := os.read(source, COPY_BYTES):
            digest.update(chunk)
            size += len(chunk)
            view = memoryview(chunk)
            while view:
                view = view[os.write(target, view) :]
        if (size, digest.hexdigest()) != (request["size"], request["sha256"]):
            os.unlink(beside)
            return NOT_WHOLE
        os.fchmod(target, request["mode"])
        os.rename(beside, path)
    except OSError:
        os.unlink(beside)
        raise
    finally:
        os.close(target)
    return 0


def get(request: dict[str, Any]) -> dict[str, object]:
    source = os.open(request["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    about, left = os.fstat(source), request["max_bytes"]
    if not stat.S_ISREG(about.st_mode):
        return {"status": NOT_REGULAR}
    if about.st_size > left:
        return {"status": TOO_LONG}
    digest = hashlib.sha256()
    while chunk := os.read(source, CHUNK_BYTES):
        left -= len(chunk)
        if left < 0:  # it grew
            return {"status": TOO_LONG}
        digest.update(chunk)
        emit("d", chunk)
    return {"status": 0, "sha256": digest.hexdigest()}


def look(request: dict[str, Any]) -> dict[str, object]:
    """Who a command is here, and whether it can work in the folder that it is to start in."""
    workdir = request["workdir"]
    os.makedirs(workdir, exist_ok=True)
    if not os.access(workdir, os.W_OK | os.X_OK):
        return {"status": errno.EACCES}
    with open(f"/proc/{os.getppid()}/status") as file:
        daemon = next(line.split()[2] for line in file if line.startswith("Uid:"))
    with open("/proc/self/status") as file:
        facts = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return {
        "status": 0,
        "uid": os.geteuid(),
        # Nobody inside can kill process 1, nor another user's.
        "daemon_is_apart": os.getppid() == 1 or int(daemon) != os.geteuid(),
        "effective": int(facts["CapEff"], 16),
        "bounding": int(facts["CapBnd"], 16),
        "seccomp": facts["Seccomp"].strip() == "2",
        "no_new_privileges": facts["NoNewPrivs"].strip() == "1",
        "one_port": leave_one_port(0),  # last: this process has no use for any
    }


def main(arguments: list[str]) -> None:
    request = json.loads("".join(arguments))
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # tasks can neither trace it nor write to its output
    os.umask(0o022)
    emit("p", str(os.getpid()).encode())
    operations: dict[str, Callable[[dict[str, Any]], dict[str, object]]] = {
        "exec": lambda request: Command(request).run(),
        "place": place,
        "get": get,
        "look": look,
    }
    try:
        end = operations[request["op"]](request)
    except OSError as error:
        end = {"status": error.errno or errno.EIO}
    emit("x", json.dumps(end).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
