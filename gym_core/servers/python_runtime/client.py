"""Runs in a sandbox for one request of the runtime: starts the process that runs the model's code, or brings it one
piece of code and takes back what it printed and showed, or ends it with all that it started.

Its text comes along with each request (`python3 -I -S -c TEXT REQUEST...`, the request being JSON in base64, cut into
arguments), since a file in the sandbox could be changed by what it is to run. It imports the standard library alone,
and holds what the model's code cannot reach: the clock, the bounds, and the pipe that the output comes through, so that
an execution that hangs or dies still leaves what it printed. `runtime.py` is the other end, `worker.py` the process.

`lives` are the processes that a request may have to end, by token and by the answer to their start:

    {"op": "start", "folder", "token", "start", "boot", "python", "env", "workdir", "timeout_s"}
    {"op": "run", "lives", "folder", "token", "code", "timeout_s", "max_output_bytes", "max_images", "max_images_bytes"}
    {"op": "stop", "lives"}

The answer is one JSON object on standard output, `reply.Reply`.
"""
# pathlib and contextlib would make the start of every request slower:
# ruff: noqa: PTH103, PTH123, PTH208, SIM105

from __future__ import annotations

import array
import base64
import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any  # parsed JSON

MARK = "PYTHON_RUNTIME_TOKEN"
"""In the environment of the process and of all that it starts: how they are found when their parents are gone."""

HEAD = struct.Struct("<cQ")
"""Of a frame on the socket: its kind, and the length of its content."""

MAX_WORD_BYTES = 64 << 10
MAX_NOTES = 32
MAX_LEFT_THREADS = 100
"""So many may go on when an execution is over, the process's own included; more would leave none for the next one."""

DRAIN_S = 0.25
"""How long output is still collected after the answer, while it keeps coming."""

KILL_ROUNDS = 400
KILL_PAUSE_S = 0.01
LEADER_PAUSE_S = 0.005
CHUNK_BYTES = 1 << 18
START_FD = 3
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36

libc = ctypes.CDLL(None, use_errno=True)


class Output:
    """What came through a pipe: its beginning, its end, and how much lay between."""

    def __init__(self, max_bytes: int) -> None:
        self.half = max(1, max_bytes // 2)
        self.head, self.tail = bytearray(), bytearray()
        self.dropped = 0

    def add(self, content: bytes) -> None:
        room = self.half - len(self.head)
        self.head += content[:room]
        self.tail += content[room:]
        self.trim(2 * self.half)

    def trim(self, longest: int) -> None:
        if len(self.tail) > longest:
            surplus = len(self.tail) - self.half
            del self.tail[:surplus]
            self.dropped += surplus

    def fields(self) -> dict[str, object]:
        self.trim(self.half)
        if not self.dropped:  # a character may lie across the two
            return {"head": (self.head + self.tail).decode("utf-8", "replace"), "tail": "", "dropped_bytes": 0}
        head, tail = (part.decode("utf-8", "replace") for part in (self.head, self.tail))
        return {"head": head, "tail": tail, "dropped_bytes": self.dropped}


class Answer:
    """The frames of one execution, as they come: o outcome, t traceback, i image, n note, e end. Bounded: the model's
    code can write to the same socket."""

    def __init__(self, *, max_images: int, max_images_bytes: int) -> None:
        self.received = bytearray()
        self.outcome, self.traceback = "", b""
        self.images: list[bytes] = []
        self.notes: list[str] = []
        self.max_images = max_images
        self.images_bytes_left = max_images_bytes
        self.has_ended = self.is_broken = False

    def add(self, content: bytes) -> None:
        self.received += content
        while not self.has_ended and not self.is_broken and len(self.received) >= HEAD.size:
            kind, length = HEAD.unpack_from(self.received)
            if length > (self.images_bytes_left if kind == b"i" else MAX_WORD_BYTES):
                self.is_broken = True
                return
            end = HEAD.size + length
            if len(self.received) < end:
                return
            self.take(kind, bytes(self.received[HEAD.size : end]))
            del self.received[:end]

    def take(self, kind: bytes, content: bytes) -> None:
        if kind == b"o" and content in (b"ok", b"raised"):
            self.outcome = content.decode()
        elif kind == b"t":
            self.traceback = content
        elif kind == b"i" and len(self.images) < self.max_images:
            self.images.append(content)
            self.images_bytes_left -= len(content)
        elif kind == b"n" and len(self.notes) < MAX_NOTES:
            self.notes.append(content.decode("utf-8", "replace"))
        elif kind == b"e" and self.outcome:
            self.has_ended = True
        else:
            self.is_broken = True


def run(request: dict[str, Any]) -> dict[str, object]:
    deadline = time.monotonic() + request["timeout_s"]
    output = Output(request["max_output_bytes"])
    answer = Answer(max_images=request["max_images"], max_images_bytes=request["max_images_bytes"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(request["timeout_s"])
        try:
            os.chdir(request["folder"])
            line.connect(request["token"])
        except OSError:
            end_all(request["lives"])
            return over("not_run", output, answer)
        outcome = exchange(line, base64.b64decode(request["code"]), deadline, output, answer)
    if outcome in ("timed_out", "died"):
        end_all(request["lives"])
        return over(outcome, output, answer)
    if (left := sum(family(request["lives"]).values())) > MAX_LEFT_THREADS:
        end_all(request["lives"])
        answer.notes.append(f"{left} processes and threads were still running, so all of them were ended")
        return over(outcome, output, answer)
    return {**over(outcome, output, answer), "is_over": False}


def exchange(line: socket.socket, code: bytes, deadline: float, output: Output, answer: Answer) -> str:
    """Send the code and a pipe for its output, and collect until the answer is whole; the outcome."""
    pipe, write_end = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(pipe, False)
    try:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [write_end]))]
        line.sendmsg([HEAD.pack(b"c", len(code))], rights)
        if code:  # without any it may have answered and gone by now
            line.sendall(code)
    except TimeoutError:
        return "timed_out"
    except OSError:
        return "died"
    finally:
        os.close(write_end)
    line.setblocking(False)
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(pipe, select.POLLIN)
    outcome = ""
    while not outcome:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            outcome = "timed_out"
        for fd, _ in poll.poll(max(0.0, remaining) * 1000):
            if fd == pipe:
                if not pass_on(pipe, output):
                    poll.unregister(pipe)  # it closed its output; the answer may still come
                continue
            outcome = take_answer(line, answer) or outcome
    drain(pipe, output)
    return outcome


def take_answer(line: socket.socket, answer: Answer) -> str:
    """ "" while it goes on."""
    try:
        content = line.recv(CHUNK_BYTES)
    except BlockingIOError:
        return ""
    except OSError:
        content = b""
    answer.add(content)
    if answer.has_ended:
        return answer.outcome
    return "" if content and not answer.is_broken else "died"


def pass_on(pipe: int, output: Output) -> bool:
    """False at its end."""
    try:
        content = os.read(pipe, CHUNK_BYTES)
    except BlockingIOError:
        return True
    output.add(content)
    return bool(content)


def drain(pipe: int, output: Output) -> None:
    """What is in the pipe already, and no more than that for long: others may hold it and go on writing."""
    deadline = time.monotonic() + DRAIN_S
    while select.select([pipe], [], [], 0)[0] and pass_on(pipe, output) and time.monotonic() < deadline:
        pass
    os.close(pipe)


def over(outcome: str, output: Output, answer: Answer) -> dict[str, object]:
    if answer.traceback and outcome == "raised":
        output.add(answer.traceback)
    return {
        "outcome": outcome,
        **output.fields(),
        "images": [base64.b64encode(image).decode() for image in answer.images],
        "notes": answer.notes,
        "is_over": True,
    }


# -- the process ------------------------------------------------------------


def start(request: dict[str, Any]) -> dict[str, object]:
    """Leaves the process behind, apart from this one; waits until it listens and its prelude has run."""
    os.makedirs(request["folder"], exist_ok=True)
    ready, ready_write = os.pipe2(os.O_CLOEXEC)
    errors, errors_write = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(errors, False)
    leader = leave_behind(request, ready_write, errors_write)
    life = {"token": request["token"], "leader": leader, "born": born(leader)}
    os.close(ready_write)
    os.close(errors_write)
    answer, output = Answer(max_images=0, max_images_bytes=0), Output(MAX_WORD_BYTES)
    deadline = time.monotonic() + request["timeout_s"]
    outcome = ""
    while not outcome:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            outcome = "timed_out"
        elif select.select([ready], [], [], remaining)[0]:
            content = os.read(ready, CHUNK_BYTES)
            answer.add(content)
            outcome = answer.outcome if answer.has_ended else "" if content and not answer.is_broken else "died"
    drain(errors, output)
    if outcome != "ok":
        end_all([life])
    return {**over(outcome, output, answer), "is_over": outcome != "ok", "life": life}


def leave_behind(request: dict[str, Any], ready: int, errors: int) -> int:
    """Start the worker below a leader, which is no child of this process for long; the leader's process id."""
    told, tell = os.pipe2(os.O_CLOEXEC)
    if os.fork() == 0:
        os.setsid()
        leader = os.fork()
        if leader == 0:
            # Orphans of what the model's code starts become the leader's children, so that they can be found.
            libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            if os.fork() == 0:
                become_worker(request, ready, errors)
            lead()
        os.write(tell, str(leader).encode())
        os._exit(0)
    os.wait()
    os.close(tell)
    with open(told, "rb") as file:
        return int(file.read())


def lead() -> None:
    """Wait for each child, adopted ones too, until there is none."""
    nowhere = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.closerange(3, 1 << 16)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        os._exit(0)


def become_worker(request: dict[str, Any], ready: int, errors: int) -> None:
    try:
        text = os.memfd_create("start", 0)
        os.write(text, json.dumps({**request["start"], "token": request["token"]}).encode())
        os.lseek(text, 0, os.SEEK_SET)
        fds = [os.dup(fd) for fd in (os.open("/dev/null", os.O_RDWR), errors, errors, text, ready)]
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
        os.closerange(len(fds), 1 << 16)
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        os.chdir(request["workdir"])
        env = {**os.environ, **request["env"], MARK: request["token"]}
        os.execvpe(request["python"], [request["python"], "-c", request["boot"]], env)
    except OSError as error:
        os.write(2, f"{request['python']}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


# -- its end ----------------------------------------------------------------


def end_all(lives: Sequence[dict[str, Any]]) -> None:
    """Kill a process and all that it started, whatever session or parent they have by now; its leader ends with them.

    They are stopped first, and only killed when none is left that runs: one that is stopped neither forks nor leaves
    room for another one to fork. The leader comes last, since it clears away what was killed: not every process 1 does.
    """
    leaders = leaders_of(lives)
    stop_marked(lives)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        done: set[int] = set()
        for _ in range(KILL_ROUNDS):
            found = set(family(lives)) - leaders - done
            if not found:
                break
            signal_all(found, number)
            done |= found
            time.sleep(KILL_PAUSE_S if number == signal.SIGSTOP else 0)
    for _ in range(KILL_ROUNDS):
        leaders = {leader for leader in leaders if status(leader)[:1] not in ([], ["Z"])}
        if not leaders:
            return
        time.sleep(LEADER_PAUSE_S)
    signal_all(leaders, signal.SIGKILL)


def stop_marked(lives: Sequence[dict[str, Any]]) -> None:
    """Each one as soon as it is seen: among hundreds that run a look at all of them takes seconds, and each that is
    stopped makes the rest of it faster."""
    marks = marks_of(lives)
    for name in os.listdir("/proc"):
        if name.isdigit() and is_marked(int(name), marks):
            signal_all({int(name)}, signal.SIGSTOP)


def signal_all(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:  # gone, or not ours
            pass


def leaders_of(lives: Sequence[dict[str, Any]]) -> set[int]:
    return {life["leader"] for life in lives if life["leader"] and born(life["leader"]) == life["born"]}


def family(lives: Sequence[dict[str, Any]]) -> dict[int, int]:
    """The leaders, those with a mark in their environment, and all that descend from them: process to its threads."""
    parents: dict[int, int] = {}
    threads: dict[int, int] = {}
    leaders = leaders_of(lives)
    marks = marks_of(lives)
    known: set[int] = set()
    for pid, parent, count in processes():
        parents[pid], threads[pid] = parent, count
        if pid in leaders or is_marked(pid, marks):
            known.add(pid)
    found = set(known)
    while found:
        found = {pid for pid, parent in parents.items() if parent in found} - known
        known |= found
    return {pid: threads[pid] for pid in known if pid != os.getpid()}


def marks_of(lives: Sequence[dict[str, Any]]) -> list[bytes]:
    return [f"{MARK}={life['token']}".encode() for life in lives]


def is_marked(pid: int, marks: Sequence[bytes]) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            content = file.read(1 << 20)
    except OSError:
        return False
    return any(mark in content for mark in marks)


def processes() -> Iterator[tuple[int, int, int]]:
    """(pid, parent, threads) of each; one that has ended and that nobody waited for counts as well."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := status(int(name))):
            yield int(name), int(fields[1]), max(1, int(fields[17]))


def born(pid: int) -> int:
    """When a process was started, in the kernel's own count; 0 for none."""
    return int(fields[19]) if (fields := status(pid)) else 0


def status(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; none for a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def stop(request: dict[str, Any]) -> dict[str, object]:
    end_all(request["lives"])
    return over("ok", Output(0), Answer(max_images=0, max_images_bytes=0))


def main(arguments: list[str]) -> None:
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # the model's code can neither trace it nor write to its output
    request = json.loads(base64.b64decode("".join(arguments)))
    content = json.dumps({"start": start, "run": run, "stop": stop}[request["op"]](request)).encode()
    while content:
        content = content[os.write(1, content) :]


if __name__ == "__main__":
    main(sys.argv[1:])
