"""A whole run inside the head server's library, through real servers: its files, its end, and what holds its output."""

import json
from pathlib import Path

import pytest

from gym_core.launch import runs
from gym_core.launch.plan import DatasetEntry, EnvironmentEntry
from gym_core.launch.run_work import RunSetting
from gym_core.launch.runs import Run
from gym_core.rollout.sink import read_rows
from gym_core.types.flat_row import flat_from_task
from gym_core.types.run import RunOptions, RunState
from gym_core.types.session import Sampling
from tests.fakes.gym import InProcessGym, in_process_gym, make_request


def make_run(gym: InProcessGym, folder: Path, run_id: str) -> Run:
    dataset = folder / "tasks.jsonl"
    dataset.write_text(json.dumps(flat_from_task(make_request().task)) + "\n")
    environment = EnvironmentEntry(
        name="echo",
        resources_server="echo",
        agent_server="agent",
        policy_server="policy_model",
        agent_timeout_s=20,
        max_concurrent_episodes=None,
        datasets=[DatasetEntry(name="tasks", type="benchmark", path=str(dataset), num_repeats=1)],
        identity={"model": "tiny"},
    )
    setting = RunSetting(environment, gym.servers, Sampling(), versions={}, argv=[], logs_dir=folder)
    return Run(run_id, RunOptions(output_jsonl_fpath=str(folder / "out.jsonl")), setting)


async def ended(run: Run) -> Run:
    run.start()
    await run.wait()
    return run


async def test_a_run_writes_its_rows_its_metrics_and_what_ran(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        run = await ended(make_run(gym, tmp_path, "r1"))
    assert run.state is RunState.DONE
    assert [row["reward"] for row in read_rows(run.files.rollouts)] == [1.0]
    assert json.loads(run.files.metrics.read_text())["key_metrics"]["mean/reward"] == 1.0
    assert json.loads(run.files.manifest.read_text())["endpoint"]["answers"] is True


async def test_a_run_that_is_resumed_with_nothing_to_play_keeps_its_look_at_the_endpoint(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        first = await ended(make_run(gym, tmp_path, "r1"))
        before = json.loads(first.files.manifest.read_text())["endpoint"]
        second = await ended(make_run(gym, tmp_path, "r2"))
    assert (second.state, second.progress().resumed) == (RunState.DONE, 1)
    assert json.loads(second.files.manifest.read_text())["endpoint"] == before


async def test_metrics_that_find_no_room_fail_the_run_and_let_go_of_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, value: object) -> None:
        raise OSError(28, "No space left on device")

    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        with monkeypatch.context() as patched:
            patched.setattr(runs, "write_json", full)
            first = await ended(make_run(gym, tmp_path, "r1"))
        second = await ended(make_run(gym, tmp_path, "r2"))
    assert (first.state, "No space left" in first.message) == (RunState.FAILED, True)
    assert (second.state, second.progress().resumed) == (RunState.DONE, 1)


async def test_an_endpoint_that_does_not_answer_ends_a_run_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym_core.launch.policy_check.CHECK_PAUSES_S", ())
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.refuses = frozenset({"messages"})
        run = await ended(make_run(gym, tmp_path, "r1"))
    assert run.state is RunState.FAILED
    assert run.message.startswith("policy endpoint: ")
    assert list(read_rows(run.files.rollouts)) == []


async def test_a_run_counts_what_it_captured_of_the_policys_tokens(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        run = await ended(make_run(gym, tmp_path, "r1"))
    (row,) = read_rows(run.files.rollouts)
    assert (row["_gym_sequences"]["calls"], row["_gym_sequences"]["sampled_tokens"]) == (1, len("teapot") + 1)
    report = json.loads(run.files.metrics.read_text())["sequences"]
    assert (report["rollouts"], report["drifted_rollouts"], report["sampled_tokens"]) == (1, 0, 7)


async def test_without_token_ids_a_run_counts_the_calls_that_lack_them(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        gym.endpoint.gives_token_ids = False
        run = await ended(make_run(gym, tmp_path, "r1"))
    (row,) = read_rows(run.files.rollouts)
    assert (row["_gym_sequences"]["calls"], row["_gym_sequences"]["incomplete_calls"]) == (0, 1)
    report = json.loads(run.files.metrics.read_text())["sequences"]
    assert (report["rollouts"], report["incomplete_calls"]) == (0, 1)
