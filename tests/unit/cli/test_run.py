"""`gym eval run` as a user types it: real processes, with a loopback endpoint for the model."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

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

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        given = ["--environment", "echo", "--model-type", "vllm_model", "--output", str(self.rows)]
        policy = [f"++policy_base_url={self._url}", "++policy_api_key=${oc.env:HOUSE_KEY}", "++policy_model_name=m"]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "gym_core.cli.main", "eval", "run", *given, *policy, "++split=example", *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._folder,
            env=os.environ | {"GYM_STATE_DIR": str(self._folder / "state"), "HOUSE_KEY": "sk-of-the-house"},
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
        self._answered = 0

    def let_go(self) -> None:
        self.hangs_after = None
        self.endpoint.recover()

    def _answer(self, messages: list[JsonObject]) -> str:
        prompt = json.dumps(messages)
        answer = next((word for clue, word in ANSWERS.items() if clue in prompt), None)
        if answer is None:
            return "ready"  # a look at the endpoint, not a task
        self._answered += 1
        if self._answered == self.hangs_after:
            self.endpoint.fail_always(Fault.HANG)
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


async def said(process: asyncio.subprocess.Process, text: str) -> None:
    """Wait until the command has told this."""
    assert process.stderr is not None
    async with asyncio.timeout(30):
        while text not in (line := (await process.stderr.readline()).decode()):
            assert line, f"it ended without saying {text!r}"


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
