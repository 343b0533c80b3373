"""The courier by itself: as a process beside the test, with programs that do no harm."""

import asyncio
import errno
import hashlib
import os
import signal
import sys
from pathlib import Path

import pytest

from gym_core.sandbox.providers.opensandbox.courier import NOT_REGULAR, NOT_WHOLE, TOO_LONG
from gym_core.sandbox.providers.opensandbox.frames import End, FrameReader, courier_argv
from gym_core.types.wire import JsonObject
from tests.sandboxes.words import serve_words


def command(*argv: str, **fields: object) -> JsonObject:
    """A request to run something."""
    given: JsonObject = {"op": "exec", "argv": list(argv), "cwd": "/", "env": {"PATH": os.environ["PATH"]}}
    return given | {"timeout_s": 20.0, "cap": 1 << 20, "file_bytes": 1 << 30, "only_port": None} | fields


class Run:
    """One courier."""

    def __init__(self) -> None:
        self.content: dict[str, bytearray] = {kind: bytearray() for kind in "oed"}
        self.reader = FrameReader(lambda kind, content: self.content[kind].extend(content))

    async def start(self, request: JsonObject) -> asyncio.subprocess.Process:
        argv = [sys.executable, *courier_argv(request)[1:]]
        return await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)

    async def finish(self, process: asyncio.subprocess.Process) -> End:
        stdout, _ = await process.communicate()
        for start in range(0, len(stdout), 1000):  # cut anywhere
            self.reader.feed(stdout[start : start + 1000].decode())
        assert self.reader.mistake is None
        assert self.reader.end is not None
        return self.reader.end

    async def to_end(self, request: JsonObject) -> End:
        return await self.finish(await self.start(request))


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


async def test_bytes_and_exit_codes_come_as_they_were() -> None:
    run = Run()
    script = "printf '\\000\\377\\n<x:>'; echo oops >&2; exit 3"
    assert (await run.to_end(command("sh", "-c", script))).status == 3
    assert (bytes(run.content["o"]), bytes(run.content["e"])) == (b"\0\xff\n<x:>", b"oops\n")


async def test_a_signal_a_missing_program_and_a_missing_folder_are_told_apart() -> None:
    assert (await Run().to_end(command("sh", "-c", "kill -TERM $$"))).status == -15
    for request, said in (
        (command("no-such-program"), b"no-such-program"),
        (command("true", cwd="/nowhere"), b"/nowhere"),
    ):
        run = Run()
        assert (await run.to_end(request)).status == 127
        assert run.content["e"] == said + b": No such file or directory\n"


async def test_output_past_the_cap_is_dropped_inside() -> None:
    run = Run()
    end = await run.to_end(command("sh", "-c", "head -c 3000000 /dev/zero", cap=1000))
    assert (end.status, end.truncated, len(run.content["o"])) == (0, True, 1000)


async def test_a_time_out_kills_all_that_descend_from_the_command() -> None:
    run = Run()
    script = "setsid sh -c 'echo $$; setsid sleep 600 & echo $!; wait' & wait"
    end = await run.to_end(command("sh", "-c", script, timeout_s=0.5))
    assert end.timed_out
    pids = [int(word) for word in run.content["o"].split()]
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)


async def test_what_stays_in_the_background_holds_nobody_and_stays() -> None:
    run = Run()
    async with asyncio.timeout(10):
        assert (await run.to_end(command("sh", "-c", "sleep 600 & echo $!"))).status == 0
    pid = int(run.content["o"])
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


async def test_an_interrupted_courier_kills_all_before_it_goes() -> None:
    run = Run()
    process = await run.start(command("sh", "-c", "setsid sleep 600 & echo $!; wait"))
    assert process.stdout
    while not run.content["o"]:
        run.reader.feed((await process.stdout.readline()).decode())
    process.terminate()
    assert await process.wait() == 143
    assert not alive(int(run.content["o"]))


CONNECT = """
import socket, sys
for port in map(int, sys.argv[1:]):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
        print("open")
    except OSError as error:
        print(error.strerror)
"""


async def test_commands_are_held_to_one_tcp_port() -> None:
    """The daemon that starts them listens on another, and asks for no password."""
    if not (await Run().to_end({"op": "look", "workdir": "/tmp"})).one_port:
        pytest.skip("this kernel has no Landlock for connections: it came with 6.7")
    async with serve_words(b"x") as one, serve_words(b"x") as other:
        for only_port, said in ((None, "open open"), (one, "open Permission denied"), (0, 2 * "Permission denied ")):
            run = Run()
            await run.to_end(command(sys.executable, "-c", CONNECT, str(one), str(other), only_port=only_port))
            assert run.content["o"].decode().split() == said.split()


def placed(folder: Path, content: bytes, **fields: object) -> JsonObject:
    (folder / "part").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    request: JsonObject = {"op": "place", "part": str(folder / "part"), "path": str(folder / "new" / "file")}
    return request | {"mode": 0o640, "size": len(content), "sha256": digest} | fields


async def test_an_upload_takes_its_place_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    assert (await Run().to_end(placed(tmp_path, b"content"))).status == 0
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"content", 0o640)
    for request in (placed(tmp_path, b"changed", sha256="0"), placed(tmp_path, b"changed", size=9)):
        assert (await Run().to_end(request)).status == NOT_WHOLE
    (tmp_path / "secret").write_bytes(b"changed")
    request = placed(tmp_path, b"changed")
    (tmp_path / "part").unlink()
    (tmp_path / "part").symlink_to(tmp_path / "secret")
    assert (await Run().to_end(request)).status == errno.ELOOP
    assert target.read_bytes() == b"content"
    assert list(target.parent.iterdir()) == [target]


async def test_a_file_is_read_and_nothing_else_is(tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    (tmp_path / "file").write_bytes(content)
    os.mkfifo(tmp_path / "fifo")
    statuses = []
    for name, most in (("file", len(content)), ("file", len(content) - 1), ("fifo", 9), (".", 9), ("none", 9)):
        run = Run()
        async with asyncio.timeout(10):
            statuses.append((await run.to_end({"op": "get", "path": str(tmp_path / name), "max_bytes": most})).status)
        assert run.content["d"] == (content if len(statuses) == 1 else b"")
    assert statuses == [0, TOO_LONG, NOT_REGULAR, NOT_REGULAR, 2]


@pytest.mark.parametrize(
    "text", ["no frame>", "<o:***>", "<x:e30>", f"<o:{'A' * 70_000}>", "<o:" + "A" * 70_000, "<x:bm9wZQ==>"]
)
def test_text_that_is_no_frame_ends_the_reading(text: str) -> None:
    reader = FrameReader(lambda kind, content: None)
    reader.feed(text)
    assert reader.mistake
    assert reader.end is None
