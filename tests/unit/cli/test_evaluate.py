import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gym_core.cli.evaluate import Evaluation, evaluate, exit_code, plan_evaluation
from gym_core.cli.launcher import OpenGym
from gym_core.cli.selection import Selection
from gym_core.errors import ConfigError, EpisodeError, FailureKind, TransportError
from gym_core.types.run import RunOptions, RunProgress, RunResult, RunState
from tests.unit.config.house import House


class FakeDisplay:
    def __init__(self) -> None:
        self.seen: list[int] = []
        self.notes: list[str] = []
        self.is_closed = False

    def update(self, progress: RunProgress) -> None:
        self.seen.append(progress.done)

    def note(self, line: str) -> None:
        self.notes.append(line)

    def close(self) -> None:
        self.is_closed = True


class FakeRuns:
    """A run of three rollouts; `script` decides what happens after each."""

    def __init__(self) -> None:
        self.started: list[RunOptions] = []
        self.cancelled: list[bool] = []
        self.breaks_after: int | None = None
        self.press_after: dict[int, int] = {}
        self.until_cancelled = 0
        self._cancellation = asyncio.Event()

    async def start_run(self, options: RunOptions) -> str:
        self.started.append(options)
        return "run-1"

    async def watch(self, run_id: str) -> AsyncIterator[RunProgress | RunResult]:
        state = RunState.DONE
        for done in range(4):
            yield RunProgress(run_id=run_id, state=RunState.RUNNING, total=3, done=done)
            if self.breaks_after == done:
                raise TransportError("peer dropped")
            if done in self.press_after:
                os.kill(os.getpid(), self.press_after[done])
                self._cancellation.clear()
                await asyncio.wait_for(self._cancellation.wait(), 5)
                state = RunState.CANCELLED
        yield RunResult(progress=RunProgress(run_id=run_id, state=state, total=3, done=3))

    async def cancel(self, run_id: str, *, drain: bool) -> None:
        self.cancelled.append(drain)
        self._cancellation.set()


async def press(times: int) -> None:
    """Ctrl-C, and a moment for each to arrive."""
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.001)


class Stage:
    """A gym that is opened by the test."""

    def __init__(self, folder: Path) -> None:
        self.runs = FakeRuns()
        self.display = FakeDisplay()
        self.is_open = False
        self.dies_of: str | None = None
        self.presses_at_start = 0
        self.presses_at_end = 0
        self._folder = folder

    @asynccontextmanager
    async def open(self, _: object) -> AsyncIterator[OpenGym]:
        died: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if self.dies_of is not None:
            asyncio.get_running_loop().call_soon(died.set_result, self.dies_of)
        self.is_open = True
        try:
            await press(self.presses_at_start)
            yield OpenGym("http://head", "token", self._folder, self.runs, died)
        finally:
            await press(self.presses_at_end)
            self.is_open = False

    async def play(self, evaluation: Evaluation) -> RunResult:
        return await evaluate(evaluation, self.display, opener=self.open)


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def selection(*overrides: str) -> Selection:
    given = ("++policy_base_url=http://h/v1", "++policy_api_key=sk-key", "++output_jsonl_fpath=x.jsonl")
    return Selection("puzzles", None, "vllm_model", (), (), (*given, *overrides))


@pytest.fixture
def evaluation(furnished: House) -> Evaluation:
    return plan_evaluation(selection("++limit=3", "++num_samples_in_parallel=2"))


def test_the_options_are_the_overrides_word_for_word(evaluation: Evaluation) -> None:
    assert evaluation.options == RunOptions(output_jsonl_fpath="x.jsonl", limit=3, num_samples_in_parallel=2)
    assert [item.dataset.name for item in evaluation.datasets] == ["puzzles"]


def test_an_unknown_split_is_refused_before_anything_starts(furnished: House) -> None:
    with pytest.raises(ConfigError, match="no dataset of type 'trian'"):
        plan_evaluation(selection("++split=trian"))


def test_an_output_that_cannot_be_written_is_reported_with_all_other_mistakes(furnished: House) -> None:
    (furnished.folder / "taken.jsonl").mkdir()
    with pytest.raises(ConfigError) as caught:
        plan_evaluation(selection("++output_jsonl_fpath=taken.jsonl"))
    (problem,) = caught.value.problems
    assert problem == f"config: output_jsonl_fpath: '{furnished.folder / 'taken.jsonl'}' is a folder"
    with pytest.raises(ConfigError) as caught:
        plan_evaluation(selection("++output_jsonl_fpath=taken.jsonl", "++limit=0"))
    assert [problem.split(": ")[1] for problem in caught.value.problems] == ["limit", "output_jsonl_fpath"]


def test_a_missing_output_is_reported_with_all_other_mistakes(furnished: House) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_evaluation(Selection("puzzles", None, "vllm_model", (), (), ("++limit=0",)))
    assert [problem.split(": ")[1] for problem in caught.value.problems] == [
        "policy_base_url",
        "policy_api_key",
        "limit",
        "output_jsonl_fpath",
    ]


async def test_a_run_is_followed_to_its_result_and_everything_is_put_away(stage: Stage, evaluation: Evaluation) -> None:
    result = await stage.play(evaluation)
    assert result.progress.state is RunState.DONE
    assert stage.display.seen == [0, 1, 2, 3]
    assert stage.runs.started == [evaluation.options]
    assert (stage.is_open, stage.display.is_closed) == (False, True)


async def test_the_first_interrupt_drains_and_the_second_cancels(stage: Stage, evaluation: Evaluation) -> None:
    stage.runs.press_after = {1: signal.SIGINT, 2: signal.SIGINT}
    result = await stage.play(evaluation)
    assert stage.runs.cancelled == [True, False]
    assert result.progress.state is RunState.CANCELLED
    assert all("the same command goes on from here" in note for note in stage.display.notes)
    assert exit_code(result, evaluation.options) == 130


async def test_more_interrupts_leave_the_end_of_a_run_in_peace(stage: Stage, evaluation: Evaluation) -> None:
    stage.runs.press_after = {1: signal.SIGINT, 2: signal.SIGINT}
    stage.presses_at_end = 2
    result = await stage.play(evaluation)
    assert (result.progress.state, stage.is_open, stage.runs.cancelled) == (RunState.CANCELLED, False, [True, False])


async def test_interrupts_before_a_run_begins_end_the_command_and_put_everything_away(
    stage: Stage, evaluation: Evaluation
) -> None:
    stage.presses_at_start, stage.presses_at_end = 1, 3
    playing = asyncio.create_task(stage.play(evaluation))
    await asyncio.wait({playing}, timeout=5)
    assert playing.cancelled()
    assert (stage.runs.started, stage.is_open, stage.display.is_closed) == ([], False, True)


async def test_sigterm_cancels_at_once(stage: Stage, evaluation: Evaluation) -> None:
    stage.runs.press_after = {1: signal.SIGTERM}
    await stage.play(evaluation)
    assert stage.runs.cancelled == [False]


async def test_a_gym_that_dies_ends_the_command_with_the_reason(stage: Stage, evaluation: Evaluation) -> None:
    stage.dies_of = "the head server ended (code -9)"
    stage.runs.breaks_after = 0
    with pytest.raises(EpisodeError, match="code -9.*\n.*goes on from here") as caught:
        await stage.play(evaluation)
    assert caught.value.kind is FailureKind.SHUTDOWN
    assert (stage.is_open, stage.display.is_closed) == (False, True)


async def test_a_broken_stream_of_a_living_gym_is_its_own_error(
    stage: Stage, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym_core.cli.evaluate.REASON_GRACE_S", 0.0)
    stage.runs.breaks_after = 1
    with pytest.raises(TransportError, match="peer dropped"):
        await stage.play(evaluation)


@pytest.mark.parametrize(
    ("state", "masked", "code"),
    [
        (RunState.DONE, 0, 0),
        (RunState.DONE, 5, 0),
        (RunState.DONE, 6, 1),
        (RunState.FAILED, 0, 1),
        (RunState.CANCELLED, 0, 130),
    ],
)
def test_exit_codes(state: RunState, masked: int, code: int) -> None:
    progress = RunProgress(run_id="r", state=state, total=100, done=100, masked=masked)
    assert exit_code(RunResult(progress=progress), RunOptions(output_jsonl_fpath="x")) == code
