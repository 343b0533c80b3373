"""The process in a sandbox that runs the model's code: one piece after the other, in one namespace.

The model's code shares it and may change anything in it, so what serves the next piece is kept in names of this module
and in C functions, which that code has no usual way to; when it breaks them all the same the process is ended and a new
one started. `client.py` brings the code, holds the clock and collects the output; nothing here needs to be believed.
It imports the standard library alone.
"""

from __future__ import annotations

import array
import ast
import builtins
import errno
import io
import linecache
import os
import signal
import socket
import struct
import sys
import traceback
import types
from contextlib import suppress
from os import O_WRONLY, close, dup2, getpid
from os import open as open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol  # Any: the model's values

    class Screen(Protocol):
        images: list[bytes]
        notes: list[str]

        def begin(self) -> None: ...
        def display(self, *things: object) -> None: ...
        def show_last(self, value: object) -> None: ...
        def end(self) -> None: ...


HEAD = struct.Struct("<cQ")
"""Of a frame, as `client.py` reads it."""

MAX_TRACEBACK_CHARS = 4000
MAX_NOTE_CHARS = 300
CHUNK_BYTES = 1 << 18
CONTROL_BYTES = socket.CMSG_SPACE(4)
Line = socket.SocketType
"""The class in C, whose methods no code can replace."""

MAX_FAILURES = 100
"""To take the next code, because of what earlier code did."""

leave = os._exit
set_timer = signal.setitimer
CLOSED = (errno.EBADF, errno.ENOTSOCK, errno.EINVAL)


class Worker:
    def __init__(self, start: dict[str, Any], screen: Screen) -> None:
        self.pid = getpid()
        self.screen = screen
        self.number = 0
        """Of the last piece of code."""
        module = types.ModuleType("__main__")
        self.namespace = module.__dict__
        self.namespace.update(FOLDER=start["folder"], display=screen.display, __builtins__=builtins)
        sys.modules["__main__"] = module
        sys.argv = [""]
        self.listener = Line(socket.AF_UNIX, socket.SOCK_STREAM)
        os.chdir(start["folder"])
        self.listener.bind(start["token"])
        os.chdir(start["workdir"])
        self.listener.listen(8)

    def serve(self) -> None:
        failures = 0
        while failures < MAX_FAILURES:
            try:
                fd, _ = self.listener._accept()  # type: ignore[attr-defined]  # of the class in C
                self.answer(Line(fileno=fd))
            except OSError as error:
                if error.errno in CLOSED:
                    break
                failures += 1
            except BaseException:  # noqa: BLE001 - a signal handler of the model's code
                failures += 1
        leave(1)

    def answer(self, line: Line) -> None:
        line.settimeout(None)
        request = receive(line)
        if request is None:
            line.close()
            return
        code, output = request
        dup2(output, 1)
        dup2(output, 2)
        close(output)
        frames = self.execute(code)
        if getpid() != self.pid:  # the code forked, and this is the child
            leave(0)
        silence()
        send(line, frames)
        line.close()

    def execute(self, code: str) -> list[tuple[bytes, bytes]]:
        """Frames of the answer."""
        open_streams()
        self.number += 1
        self.screen.begin()
        told = self.run(code, f"<code {self.number}>")
        try:
            self.screen.end()
        except BaseException as error:  # noqa: BLE001 - whatever the model's objects raise when they are drawn
            self.screen.notes.append(f"a figure could not be drawn: {brief(error)}")
        flush_streams()
        set_timer(signal.ITIMER_REAL, 0)  # an alarm of code that has ended must not go off in the next one
        frames = [(b"o", b"ok" if told is None else b"raised"), (b"t", encoded(told or ""))]
        frames += [(b"i", image) for image in self.screen.images]
        frames += [(b"n", encoded(note[:MAX_NOTE_CHARS])) for note in self.screen.notes[:16]]
        return [*frames, (b"e", b"")]

    def run(self, code: str, name: str) -> str | None:
        """The traceback where it raised."""
        # Each line with its end, as linecache has those of files: carets are placed by it.
        linecache.cache[name] = (len(code), None, [f"{line}\n" for line in code.split("\n")], name)
        try:
            tree = ast.parse(code, name)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, name, "exec", dont_inherit=True), self.namespace)
            if isinstance(last, ast.Expr):
                expression = compile(ast.Expression(last.value), name, "eval", dont_inherit=True)
                self.screen.show_last(eval(expression, self.namespace))
        except BaseException as error:  # noqa: BLE001 - the model's code; SystemExit does not end the process either
            return describe(error)
        return None


def receive(line: Line) -> tuple[str, int] | None:
    """A piece of code, and the pipe for its output; None from anybody but a client."""
    head, rights, _, _ = line.recvmsg(HEAD.size, CONTROL_BYTES)
    if len(head) < HEAD.size or not rights:
        return None
    output: int = array.array("i", rights[0][2])[0]
    _, length = HEAD.unpack(head)
    code = bytearray()
    while len(code) < length:
        content = line.recv(min(CHUNK_BYTES, length - len(code)))
        if not content:
            close(output)
            return None
        code += content
    return code.decode("utf-8", "replace"), output


def send(line: Line, frames: list[tuple[bytes, bytes]]) -> None:
    try:
        for kind, content in frames:
            line.sendall(HEAD.pack(kind, len(content)) + content)
    except OSError:  # whoever asked has gone
        pass


def open_streams() -> None:
    """Anew each time: the last code may have closed or replaced them."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        raw = io.open(fd, "wb", closefd=False)  # noqa: SIM115, UP020 - it stays open; `open` may be replaced
        stream = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def silence() -> None:
    """Until the next code brings a pipe: threads and children that go on would write to one that is closed."""
    nowhere = open_file("/dev/null", O_WRONLY)
    dup2(nowhere, 1)
    dup2(nowhere, 2)
    close(nowhere)


def flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with suppress(BaseException):  # None, or anything else that the code put there
            stream.flush()  # type: ignore[union-attr]


def describe(error: BaseException) -> str:
    """The traceback, from the model's own code on; its end where it is long."""
    try:
        frames = error.__traceback__
        while frames and not frames.tb_frame.f_code.co_filename.startswith("<code "):
            frames = frames.tb_next
        text = "".join(traceback.format_exception(type(error), error, frames))
    except BaseException:  # noqa: BLE001 - an exception whose own words raise
        text = brief(error)
    return text if len(text) <= MAX_TRACEBACK_CHARS else f"...{text[-MAX_TRACEBACK_CHARS:]}"


def brief(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:200]
    except BaseException:  # noqa: BLE001 - an exception whose own words raise
        return type(error).__name__


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def main(start: dict[str, Any], screen: Screen, ready: int) -> None:
    worker = Worker(start, screen)
    told = worker.run(start["prelude"], "<code 0>")
    screen.end()
    flush_streams()
    silence()
    outcome = b"ok" if told is None else b"raised"
    for kind, content in ((b"o", outcome), (b"t", encoded(told or "")), (b"e", b"")):
        os.write(ready, HEAD.pack(kind, len(content)) + content)
    close(ready)
    if told is None:
        worker.serve()
