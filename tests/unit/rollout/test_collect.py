"""The collector writes each rollout once, retries what is ours within a budget, and stops as it is told to."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gym_core.errors import ConfigError, FailureKind
from gym_core.rollout.collect import Breakdown, Collector
from gym_core.rollout.output import OutputFiles, RunManifest, RunOutput
from gym_core.rollout.plan import plan_rollouts
from gym_core.rollout.sink import read_rows
from gym_core.types.rollout import EpisodeResult, RunRequest
from gym_core.types.run import RunOptions
from gym_core.types.verification import Failure, Verification
from tests.fakes.rollouts import completed, failed, make_task

Play = Callable[[RunRequest, int], Awaitable[EpisodeResult]]


async def _no_sleep(_: float) -> None:
    await asyncio.sleep(0)


class Bench:
    """A collector over a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.files = OutputFiles(folder / "x.jsonl")

    def open(self, *, run_hash: str = "h", resume: bool = True) -> RunOutput:
        manifest = RunManifest(run_hash=run_hash, identity={"model": run_hash})
        return RunOutput(self.files, manifest, resume=resume, retry_masked=True)

    async def run(self, play: Play, *, tasks: int = 4, repeats: int = 1, **options: object) -> Collector:
        output = self.open()
        try:
            requests = plan_rollouts(
                [make_task(i) for i in range(tasks)], repeats=repeats, environment="e",
                done=output.done, attempts=output.attempts(),
            )  # fmt: skip
            chosen = RunOptions.model_validate({"output_jsonl_fpath": "x", **options})
            collector = Collector(output, play, chosen, sleep=_no_sleep)
            await collector.run(requests)
            return collector
        finally:
            output.close()

    def rows(self) -> list[dict[str, object]]:
        return list(read_rows(self.files.rollouts))

    def keys(self) -> Counter[tuple[object, object]]:
        return Counter((row["_gym_task_hash"], row["_ng_rollout_index"]) for row in self.rows())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def _until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


async def _right(request: RunRequest, attempt: int) -> EpisodeResult:
    return completed(request, attempt)


async def test_each_rollout_is_written_once(bench: Bench) -> None:
    await bench.run(_right, tasks=5, repeats=3)
    assert len(bench.keys()) == 15
    assert set(bench.keys().values()) == {1}


async def test_a_second_run_does_only_what_is_missing(bench: Bench) -> None:
    await bench.run(_right, tasks=3)
    played: list[int] = []

    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        played.append(request.task_index)
        return completed(request, attempt)

    await bench.run(play, tasks=5)
    assert sorted(played) == [3, 4]
    assert len(bench.rows()) == 5


async def test_our_failure_is_a_new_episode_and_leaves_a_trace(bench: Bench) -> None:
    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        return failed(request, attempt) if attempt == 0 else completed(request, attempt)

    await bench.run(play, tasks=1)
    assert [row["reward"] for row in bench.rows()] == [1.0]
    assert [row["attempt"] for row in read_rows(bench.files.failures)] == [0]


async def test_a_rollout_that_keeps_failing_is_masked_and_a_resume_tries_it_again(bench: Bench) -> None:
    async def broken(request: RunRequest, attempt: int) -> EpisodeResult:
        return failed(request, attempt)

    await bench.run(broken, tasks=1, max_rollout_attempts=2)
    assert [(row["reward"], row["mask_sample"], row["failure_kind"]) for row in bench.rows()] == [
        (None, True, "sandbox_lost")
    ]
    attempts: list[int] = []

    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        attempts.append(attempt)
        return completed(request, attempt)

    await bench.run(play, tasks=1)
    assert [row["reward"] for row in bench.rows()] == [1.0]
    assert attempts == [2], "attempts are numbered over all runs"


async def test_a_failed_judge_is_not_played_again_by_a_resume(bench: Bench) -> None:
    async def unjudged(request: RunRequest, attempt: int) -> EpisodeResult:
        return failed(request, attempt, kind=FailureKind.JUDGE_FAILED)

    await bench.run(unjudged, tasks=1)
    await bench.run(_right, tasks=1)
    assert [row["failure_kind"] for row in bench.rows()] == ["judge_failed"]


async def test_no_more_rollouts_run_than_were_asked_for_and_no_fewer(bench: Bench) -> None:
    running, most = 0, 0

    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return completed(request, attempt)

    await bench.run(play, tasks=20, num_samples_in_parallel=6)
    assert most == 6


async def test_a_run_in_which_everything_fails_stops_and_says_why(bench: Bench) -> None:
    async def broken(request: RunRequest, attempt: int) -> EpisodeResult:
        return failed(request, attempt, kind=FailureKind.MODEL_UNAVAILABLE)

    with pytest.raises(Breakdown, match="model_unavailable"):
        await bench.run(broken, tasks=200, num_samples_in_parallel=4)
    assert len(bench.rows()) < 60


async def test_draining_finishes_what_runs_and_starts_nothing_more(bench: Bench) -> None:
    output = bench.open()
    requests = plan_rollouts([make_task(i) for i in range(10)], repeats=1, environment="e")
    gate = asyncio.Event()

    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        await gate.wait()
        return completed(request, attempt)

    options = RunOptions(output_jsonl_fpath="x", num_samples_in_parallel=3)
    collector = Collector(output, play, options, sleep=_no_sleep)
    running = asyncio.create_task(collector.run(requests))
    await _until(lambda: collector.state.running == 3)
    collector.drain()
    await asyncio.sleep(0)
    gate.set()
    await running
    output.close()
    assert len(bench.rows()) == 3


async def test_cancelled_rollouts_are_not_written(bench: Bench) -> None:
    output = bench.open()
    requests = plan_rollouts([make_task(0)], repeats=1, environment="e")

    async def play(request: RunRequest, attempt: int) -> EpisodeResult:
        await asyncio.Event().wait()
        raise AssertionError

    collector = Collector(output, play, RunOptions(output_jsonl_fpath="x"), sleep=_no_sleep)
    running = asyncio.create_task(collector.run(requests))
    await _until(lambda: collector.state.running == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    output.close()
    assert bench.rows() == []


async def test_another_configuration_is_refused_with_both_hashes(bench: Bench) -> None:
    await bench.run(_right, tasks=1)
    with pytest.raises(ConfigError, match=r"run h, this is run other: model: h -> other"):
        bench.open(run_hash="other")


async def test_without_resume_a_path_that_holds_rollouts_is_refused(bench: Bench) -> None:
    await bench.run(_right, tasks=1)
    with pytest.raises(ConfigError, match="already holds rollouts"):
        bench.open(resume=False)
    assert len(bench.rows()) == 1


def test_tasks_of_one_content_are_refused() -> None:
    with pytest.raises(ConfigError, match="same content"):
        plan_rollouts([make_task(1), make_task(2), make_task(1)], repeats=1, environment="e")


async def test_a_run_whose_every_answer_lacks_a_judge_stops_and_says_why(bench: Bench) -> None:
    async def unjudged(request: RunRequest, attempt: int) -> EpisodeResult:
        failure = Failure(kind=FailureKind.JUDGE_FAILED, reason="401: no key", stage="verify")
        played = completed(request, attempt)
        return played.model_copy(update={"verification": Verification.failed(failure)})

    with pytest.raises(Breakdown, match="judge_failed in 'verify': 401: no key"):
        await bench.run(unjudged, tasks=100, num_samples_in_parallel=4)
    assert len(bench.rows()) < 20
