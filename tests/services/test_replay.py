"""A run played again from its recorded calls, through the real proxy, agent and grader."""

import shutil
from pathlib import Path

import pytest

from gym_core.capture.recorder import capture_path
from gym_core.errors import ConfigError, FailureKind
from gym_core.launch.runs import Run
from gym_core.rollout.replayed import ReplayOutcome, compare_replay
from gym_core.rollout.saved import SavedRun
from gym_core.rollout.sink import read_rows
from gym_core.types.run import Replay, RunState
from gym_core.types.verification import Verification
from model_servers.replay_model.library import Library
from tests.fakes.captured import read_calls
from tests.fakes.gym import in_process_gym
from tests.fakes.saved_runs import echo_run, ended, replaying


def capture_of(run: Run, task_index: int) -> Path:
    row = next(row for row in read_rows(run.files.rollouts) if row["_ng_task_index"] == task_index)
    return capture_path(run.files.captures, row["_gym_capture"]["session_id"])


def replay(folder: Path) -> Replay:
    return Replay(path=str(folder / "out.jsonl"))


async def test_a_run_is_played_again_without_its_model_to_the_same_rows_and_tokens(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        first = await ended(echo_run(gym, tmp_path, "out.jsonl", n_tasks=2))
        gym.endpoint.requests.clear()
        async with replaying(gym, first.files.rollouts, tmp_path) as again:
            run = await ended(echo_run(again, tmp_path, "new.jsonl", saved_run=replay(tmp_path)))
        assert gym.endpoint.requests == []
    assert (run.state, run.message) == (RunState.DONE, "")
    report = compare_replay(SavedRun(first.files.rollouts), SavedRun(run.files.rollouts))
    assert (report.counts, report.is_same) == ({ReplayOutcome.SAME: 2}, True)
    old, new = ({row["_ng_rollout_id"]: row for row in read_rows(r.files.rollouts)} for r in (first, run))
    for name, row in old.items():
        calls = [
            next(read_calls(capture_path(r.files.captures, found["_gym_capture"]["session_id"])))
            for r, found in ((first, row), (run, new[name]))
        ]
        assert calls[0].token_ids == calls[1].token_ids != []
        assert calls[0].logprobs == calls[1].logprobs
        assert new[name]["_gym_capture"]["has_logprobs"]
    assert SavedRun(run.files.rollouts).manifest.derived_from.kind == "replay"  # type: ignore[union-attr]


async def test_a_harness_that_asks_something_else_ends_as_diverged_and_says_where(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        first = await ended(echo_run(gym, tmp_path, "out.jsonl", n_tasks=2, num_samples_in_parallel=1))
        # The recording of a question without its picture stands in for a harness that asks otherwise.
        with_picture, without = (capture_of(first, index) for index in (0, 1))
        with_picture.write_bytes(without.read_bytes())
        async with replaying(gym, first.files.rollouts, tmp_path) as again:
            run = await ended(echo_run(again, tmp_path, "new.jsonl", saved_run=replay(tmp_path), limit=1))
    (now,) = read_rows(run.files.rollouts)
    assert (now["failure_kind"], now["reward"], now["_gym_attempts"]) == (FailureKind.REPLAY_DIVERGED, None, 1)
    assert now["failure_reason"].startswith("call 1 was never recorded: message 1 (user) of recorded call 1 was ")
    report = compare_replay(SavedRun(first.files.rollouts), SavedRun(run.files.rollouts), limit=1)
    assert (report.counts, report.is_same) == ({ReplayOutcome.DIVERGED: 1}, False)
    assert report.rollouts[0].detail == now["failure_reason"]


async def test_a_changed_grade_is_told_apart_from_a_divergence(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        first = await ended(echo_run(gym, tmp_path, "out.jsonl"))
        async with replaying(gym, first.files.rollouts, tmp_path) as again:
            gym.resources.verify = _always_wrong  # type: ignore[method-assign, assignment]
            run = await ended(echo_run(again, tmp_path, "new.jsonl", saved_run=replay(tmp_path)))
    report = compare_replay(SavedRun(first.files.rollouts), SavedRun(run.files.rollouts))
    assert report.counts == {ReplayOutcome.REWARD_CHANGED: 1}
    assert report.rollouts[0].detail == "1 -> 0"


async def _always_wrong(_: object) -> Verification:
    return Verification(reward=0.0)


async def test_missing_captures_and_pictures_are_said_in_words(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        first = await ended(echo_run(gym, tmp_path, "out.jsonl", n_tasks=2))
        captures = [capture_of(first, index) for index in (0, 1)]
        async with replaying(gym, first.files.rollouts, tmp_path) as again:
            captures[1].unlink()
            some = await ended(echo_run(again, tmp_path, "some.jsonl", saved_run=replay(tmp_path)))
            shutil.rmtree(first.files.assets)
            blind = await ended(echo_run(again, tmp_path, "blind.jsonl", saved_run=replay(tmp_path)))
            captures[0].unlink()
            none = await ended(echo_run(again, tmp_path, "none.jsonl", saved_run=replay(tmp_path)))
    report = compare_replay(SavedRun(first.files.rollouts), None)
    assert set(report.counts) == {ReplayOutcome.NOT_RECORDED}
    assert (some.state, len(list(read_rows(some.files.rollouts)))) == (RunState.DONE, 1)
    assert "is missing from" in blind.message
    assert "has recorded model calls" in none.message


async def test_a_damaged_capture_ends_its_rollout_alone(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        first = await ended(echo_run(gym, tmp_path, "out.jsonl", n_tasks=2))
        damaged = capture_of(first, 0)
        damaged.write_bytes(b"no frames at all, " * 9 + damaged.read_bytes())
        async with replaying(gym, first.files.rollouts, tmp_path) as again:
            run = await ended(echo_run(again, tmp_path, "new.jsonl", saved_run=replay(tmp_path)))
    report = compare_replay(SavedRun(first.files.rollouts), SavedRun(run.files.rollouts))
    assert report.counts == {ReplayOutcome.DIVERGED: 1, ReplayOutcome.SAME: 1}, report
    assert "cannot be read" in "".join(rollout.detail for rollout in report.rollouts)


def test_a_recording_of_no_rollouts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").touch()
    with pytest.raises(ConfigError, match="no finished rollouts"):
        Library(tmp_path / "x.jsonl", ())
    with pytest.raises(ConfigError, match="no such file"):
        Library(tmp_path / "y.jsonl", ())
