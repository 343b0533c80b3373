"""`gym eval run` as a user types it: real processes, with a loopback endpoint for the model."""

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from gym_core.types.wire import JsonObject
from tests.fakes.model import Fault, ScriptedEndpoint

pytestmark = pytest.mark.slow

ANSWERS = {"teapot": "teapot", "capital of France": "Paris"}
"""What the two tasks of the echo environment say, to what they want to hear."""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


class Command:
    """One `gym eval run` of the echo environment."""

    def __init__(self, folder: Path, url: str) -> None:
        self.rows = folder / "out.jsonl"
        self._folder = folder
        self._url = url
        self._started: list[asyncio.subprocess.Process] = []

    def kill_all(self) -> None:
        for process in self._started:
            if process.returncode is None:
                process.kill()

    async def start(self, *words: str, terminal: int | None = None) -> asyncio.subprocess.Process:
        """With pipes, or with a terminal that it controls."""
        given = ["--environment", "echo", "--model-type", "vllm_model", "--output", str(self.rows)]
        policy = [f"++policy_base_url={self._url}", "++policy_api_key=${oc.env:HOUSE_KEY}", "++policy_model_name=m"]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "gym_core.cli.main", "eval", "run", *given, *policy, "++split=example", *words),
            stdin=terminal,
            stdout=asyncio.subprocess.PIPE if terminal is None else terminal,
            stderr=asyncio.subprocess.PIPE if terminal is None else terminal,
            cwd=self._folder,
            env=os.environ
            | {"GYM_STATE_DIR": str(self._folder / "state"), "HOUSE_KEY": "sk-of-the-house", "TERM": "xterm"},
            start_new_session=terminal is not None,
            preexec_fn=None if terminal is None else lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self._started.append(process)
        return process

    async def run(self, *words: str) -> Ended:
        return await self.end_of(await self.start(*words))

    async def end_of(self, process: asyncio.subprocess.Process) -> Ended:
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        assert process.returncode is not None
        assert "sk-of-the-house" not in out.decode() + err.decode()
        return Ended(process.returncode, out.decode(), err.decode())

    def keys(self) -> list[tuple[int, int]]:
        rows = [json.loads(line) for line in self.rows.read_text().splitlines()]
        return sorted((row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows)


class Model:
    """Knows both answers; from a chosen rollout on it hangs until it is let go."""

    def __init__(self) -> None:
        self.endpoint = ScriptedEndpoint(self._answer)
        self.hangs_after: int | None = None
        self.holds_after: int | None = None
        """From this rollout on answers wait, until `let_go`."""
        self._answered = 0

    def let_go(self) -> None:
        self.hangs_after = self.holds_after = None
        self.endpoint.recover()
        if self.endpoint.release is not None:
            self.endpoint.release.set()

    def asked(self) -> int:
        """Calls about tasks, answered or not."""
        return sum(any(clue in seen.raw.decode() for clue in ANSWERS) for seen in self.endpoint.requests)

    def _answer(self, messages: list[JsonObject]) -> str:
        prompt = json.dumps(messages)
        answer = next((word for clue, word in ANSWERS.items() if clue in prompt), None)
        if answer is None:
            return "ready"  # a look at the endpoint, not a task
        self._answered += 1
        if self._answered == self.hangs_after:
            self.endpoint.fail_always(Fault.HANG)
        if self._answered == self.holds_after:
            self.endpoint.release = asyncio.Event()
        return answer


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    model = Model()
    async with model.endpoint:
        yield model


@pytest.fixture
def command(model: Model, tmp_path: Path) -> Iterator[Command]:
    command = Command(tmp_path, model.endpoint.url)
    yield command
    command.kill_all()


async def lines_in(path: Path, count: int) -> None:
    """Wait until the file has so many lines."""
    for _ in range(600):
        if count_lines(path) >= count:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{path} never had {count} lines")


def count_lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


async def said(process: asyncio.subprocess.Process, text: str) -> str:
    """Wait until the command has told this; the line."""
    assert process.stderr is not None
    async with asyncio.timeout(30):
        while text not in (line := (await process.stderr.readline()).decode()):
            assert line, f"it ended without saying {text!r}"
    return line


async def happened(what: Callable[[], bool]) -> None:
    for _ in range(600):
        if what():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it never happened")


class Terminal:
    """A command that was started in a terminal of its own, in whose foreground it runs."""

    def __init__(self, command: Command, *words: str) -> None:
        self._command = command
        self._words = words
        self.shown = ""
        """All that it wrote, cursor movements included."""

    async def __aenter__(self) -> Self:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.set_blocking(self._ours, False)
        asyncio.get_running_loop().add_reader(self._ours, self._read)
        self._process = await self._command.start(*self._words, terminal=theirs)
        os.close(theirs)
        return self

    async def __aexit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)

    def _read(self) -> None:
        try:
            self.shown += os.read(self._ours, 1 << 16).decode("utf-8", "replace")
        except OSError:  # the last process that held the other end is gone
            asyncio.get_running_loop().remove_reader(self._ours)

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    async def shows(self, text: str) -> None:
        for _ in range(600):
            if text in self.shown:
                return
            assert self._process.returncode is None, self.shown
            await asyncio.sleep(0.05)
        raise AssertionError(f"{text!r} was never shown:\n{self.shown}")

    async def ended(self) -> int:
        async with asyncio.timeout(60):
            return await self._process.wait()


async def test_a_run_prints_its_number_and_where_everything_is(command: Command) -> None:
    ended = await command.run()
    assert ended.code == 0, ended.err
    assert "mean/reward  1.0000" in ended.out
    assert str(command.rows) in ended.out
    assert command.keys() == [(0, 0), (1, 0)]
    assert "done: 2/2 done" in ended.err


async def test_a_run_says_at_its_end_why_a_table_that_was_asked_for_cannot_be_had(command: Command) -> None:
    ended = await command.run("--table", "babyvision")
    assert ended.code == 0, ended.err
    assert f"no table: {command.rows}: its tasks have no `category`" in ended.out


async def test_a_run_that_is_interrupted_once_finishes_what_runs_and_starts_nothing_new(
    command: Command, model: Model
) -> None:
    model.holds_after = 1
    words = ("--num-repeats", "3", "--concurrency", "1")
    process = await command.start(*words)
    await lines_in(command.rows, 1)
    await happened(lambda: model.asked() == 2)
    process.send_signal(signal.SIGINT)
    assert "the same command goes on from here" in await said(process, "stopping after what runs now")
    await said(process, "draining: 1/6 done")
    model.let_go()
    ended = await command.end_of(process)
    assert ended.code == 130, ended.err
    assert (command.keys(), model.asked()) == ([(0, 0), (1, 0)], 2)
    assert "stopped after what was running; run the same command again to resume" in ended.out
    assert "4 rollouts are still to do: the same command goes on from here" in ended.out
    ended = await command.run(*words)
    assert (ended.code, len(command.keys()), model.asked()) == (0, 6, 6)


async def test_ctrl_c_in_a_terminal_reaches_the_command_alone(command: Command, model: Model) -> None:
    """There the key's signal goes to every process of the foreground group at once."""
    model.holds_after = 1
    async with Terminal(command, "--num-repeats", "3", "--concurrency", "1") as terminal:
        await terminal.shows("agent playing")
        await terminal.shows("1/1 slots")
        terminal.press_ctrl_c()
        await terminal.shows("stopping after what runs now")
        await terminal.shows("draining")
        model.let_go()
        assert await terminal.ended() == 130
        assert "4 rollouts are still to do" in terminal.shown
    assert command.keys() == [(0, 0), (1, 0)]


async def test_ctrl_c_twice_in_a_terminal_stops_at_once(command: Command, model: Model) -> None:
    model.holds_after = 1
    async with Terminal(command, "--num-repeats", "3", "--concurrency", "1") as terminal:
        await terminal.shows("agent playing")
        await lines_in(command.rows, 1)
        terminal.press_ctrl_c()
        await terminal.shows("stopping after what runs now")
        terminal.press_ctrl_c()
        await terminal.shows("stopping at once")
        assert await terminal.ended() == 130
        assert "the same command goes on from here" in terminal.shown
    assert command.keys() == [(0, 0)]


async def test_a_pilot_plays_its_rollouts_and_the_same_command_without_it_plays_the_rest(
    command: Command, model: Model
) -> None:
    words = (
        "--num-repeats",
        "2",
        "++policy_model.model_servers.vllm_model.prices={input: 1, output: 1, currency: USD}",
    )
    ended = await command.run(*words, "--pilot", "2")
    assert ended.code == 0, ended.err
    assert command.keys() == [(0, 0), (1, 0)]
    assert "2 tasks x 2 repeats = 4, 8 in flight" in ended.out
    assert "the 2 rollouts left, if like the 2 rollouts that were played" in ended.out
    assert "2 of 4 finished: 2 measured, 0 masked; 2 missing" in ended.out

    before = await command.run(*words, "--dry-run")
    assert (before.code, model.asked()) == (0, 2)
    assert "resumes, 2 kept, 2 to play" in before.out
    assert "the 2 rollouts left, if like the 2 rollouts that were played" in before.out

    ended = await command.run(*words)
    assert (ended.code, len(command.keys()), model.asked()) == (0, 4, 4)
    assert "rollouts left" not in ended.out


async def test_a_run_that_is_interrupted_twice_ends_with_130_and_the_same_command_finishes_it(
    command: Command, model: Model
) -> None:
    model.hangs_after = 2
    words = ("--num-repeats", "3", "--concurrency", "1")
    process = await command.start(*words)
    await lines_in(command.rows, 2)
    process.send_signal(signal.SIGINT)
    await said(process, "stopping after what runs now")
    process.send_signal(signal.SIGINT)
    ended = await command.end_of(process)
    assert ended.code == 130, ended.err
    assert "4 rollouts are still to do: the same command goes on from here" in ended.out
    assert len(command.keys()) == 2

    model.let_go()
    ended = await command.run(*words)
    assert ended.code == 0, ended.err
    assert "6/6 done (2 before)" in ended.err
    assert command.keys() == [(task, repeat) for task in (0, 1) for repeat in (0, 1, 2)]


async def test_a_run_goes_on_after_a_kill(command: Command, model: Model) -> None:
    model.hangs_after = 1
    process = await command.start("--num-repeats", "2", "--concurrency", "1")
    await lines_in(command.rows, 1)
    process.kill()
    await process.wait()
    model.let_go()
    ended = await command.run("--num-repeats", "2")
    assert ended.code == 0, ended.err
    assert command.keys() == [(0, 0), (0, 1), (1, 0), (1, 1)]
