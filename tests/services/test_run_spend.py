"""What a run says of tokens, cost and time while it goes and at its end, and what a pilot says of the rest."""

import asyncio
import json
from pathlib import Path

import pytest

from gym_core.launch.plan import DatasetEntry, EnvironmentEntry
from gym_core.launch.run_work import RunSetting
from gym_core.launch.runs import Run
from gym_core.rollout.output import RunManifest
from gym_core.rollout.sink import read_rows
from gym_core.servers.resources import Submission
from gym_core.types.cost import RunPrices, TokenPrices
from gym_core.types.flat_row import flat_from_task
from gym_core.types.run import RunOptions, RunState
from gym_core.types.session import Sampling
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from resources_servers.echo.app import EchoServer, EchoTask
from tests.fakes.gym import InProcessGym, in_process_gym, make_request

PRICES = RunPrices(policy=TokenPrices(input=1_000_000, output=1_000_000, currency="EUR"))
"""One unit a token."""
N_TASKS = 6
HELD = asyncio.Event()
"""Set: grading goes on."""


class HeldEcho(EchoServer):
    async def verify(self, submission: Submission[EchoTask]) -> Verification:
        await HELD.wait()
        return await super().verify(submission)


def make_run(gym: InProcessGym, folder: Path, *, prices: RunPrices = PRICES, **options: object) -> Run:
    dataset = folder / "tasks.jsonl"
    tasks = [make_request(metadata={"n": str(n)}).task for n in range(N_TASKS)]
    rows = [flat_from_task(task) for task in tasks]
    for n, row in enumerate(rows):
        row["task_id"]["task_id"] = f"task-{n}"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
    environment = EnvironmentEntry(
        name="echo",
        resources_server="echo",
        agent_server="agent",
        policy_server="policy_model",
        agent_timeout_s=20,
        max_concurrent_episodes=3,
        datasets=[DatasetEntry(name="tasks", type="benchmark", path=str(dataset), num_repeats=1)],
        identity={"model": "tiny"},
        prices=prices,
    )
    setting = RunSetting(environment, gym.servers, Sampling(), versions={}, argv=[], logs_dir=folder)
    given = {"output_jsonl_fpath": str(folder / "out.jsonl"), **options}
    return Run("r", RunOptions.model_validate(given), setting)


async def ended(run: Run) -> Run:
    run.start()
    await run.wait()
    assert run.state is RunState.DONE, run.message
    return run


def tokens_in_rows(run: Run) -> int:
    captures = [row["_gym_capture"] for row in read_rows(run.files.rollouts)]
    return sum(capture["input_tokens"] + capture["output_tokens"] for capture in captures)


async def test_a_run_counts_its_tokens_and_works_out_what_they_cost(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        run = await ended(make_run(gym, tmp_path))
    spend = json.loads(run.files.metrics.read_text())["spend"]
    assert spend["cost"] == tokens_in_rows(run) > 0
    assert (spend["attempts"], spend["currency"], spend["judge_cost"]) == (N_TASKS, "EUR", None)
    assert spend["wall_s"] > 0
    assert run.progress().spend is not None
    assert RunManifest.model_validate_json(run.files.manifest.read_bytes()).prices == PRICES


async def test_without_prices_the_cost_is_null_and_the_tokens_are_there(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        run = await ended(make_run(gym, tmp_path, prices=RunPrices()))
    spend = json.loads(run.files.metrics.read_text())["spend"]
    assert (spend["cost"], spend["policy_cost"], spend["currency"]) == (None, None, None)
    assert spend["policy"]["input"] + spend["policy"]["output"] == tokens_in_rows(run)


async def test_a_resume_counts_on(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        await ended(make_run(gym, tmp_path, limit=2))
        second = await ended(make_run(gym, tmp_path))
    spend = second.progress().spend
    assert spend is not None
    assert (spend.attempts, spend.cost) == (N_TASKS, tokens_in_rows(second))


async def test_a_pilot_plays_a_few_says_what_the_rest_takes_and_the_run_goes_on_from_it(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        pilot = await ended(make_run(gym, tmp_path, pilot=2))
        estimate = pilot.result().estimate
        assert sorted(row["_ng_task_index"] for row in read_rows(pilot.files.rollouts)) == [1, 4]
        coverage = json.loads(pilot.files.metrics.read_text())["coverage"]
        assert (coverage["expected"], coverage["finished"], coverage["missing"]) == (N_TASKS, 2, N_TASKS - 2)
        assert (pilot.progress().done, pilot.progress().total) == (2, 2)
        whole = await ended(make_run(gym, tmp_path))
    assert estimate is not None
    assert (estimate.rollouts, estimate.seen, estimate.currency) == (4, 2, "EUR")
    assert estimate.cost is not None
    assert (whole.progress().done, whole.progress().resumed, whole.result().estimate) == (N_TASKS, 2, None)
    spend = whole.progress().spend
    assert spend is not None
    assert spend.cost == pytest.approx(tokens_in_rows(whole))
    assert estimate.cost.mean == pytest.approx(tokens_in_rows(whole) * 4 / 6)  # they are all alike


async def test_a_snapshot_says_what_runs_and_what_each_is_doing(tmp_path: Path) -> None:
    HELD.clear()
    async with in_process_gym(tmp_path, resources_type=HeldEcho) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        run = make_run(gym, tmp_path)
        run.start()
        async with asyncio.timeout(10):
            while len([a for a in run.progress().active if a.stage == "verify"]) < 3:  # noqa: ASYNC110 - a poll
                await asyncio.sleep(0.01)
        progress = run.progress()
        assert (progress.running, progress.slots) == (3, 3)
        assert [(a.task_id, a.repeat, a.attempt) for a in progress.active] == [(f"task-{n}", 0, 0) for n in range(3)]
        assert all(0 <= a.stage_s <= a.total_s for a in progress.active)
        run.cancel(drain=True)
        HELD.set()
        await run.wait()
    assert (run.state, run.progress().done, run.progress().active) == (RunState.CANCELLED, 3, [])


async def test_of_the_slowest_the_calls_to_the_model_are_known(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        await ended(make_run(gym, tmp_path, limit=1))  # so that the next run's look at the endpoint is not the first
        run = make_run(gym, tmp_path)
        release = asyncio.Event()

        def rule(_: list[JsonObject]) -> str:
            gym.endpoint.release = release  # from the first answered rollout on, answers wait
            return "teapot"

        run.start()
        async with asyncio.timeout(10):
            while run.state is RunState.STARTING:  # noqa: ASYNC110 - a poll
                await asyncio.sleep(0.001)
        gym.endpoint.rule = rule
        async with asyncio.timeout(10):
            while not any(a.calls and a.stage == "respond" for a in run.progress().active):
                await run.setting.playing.look(gym.servers.policy)
                await asyncio.sleep(0.005)
        assert {a.calls for a in run.progress().active if a.calls} == {1}
        release.set()
        await run.wait()
    assert (run.state, run.progress().done) == (RunState.DONE, N_TASKS)


async def test_a_drain_that_finds_nothing_left_is_a_whole_run(tmp_path: Path) -> None:
    HELD.clear()
    async with in_process_gym(tmp_path, resources_type=HeldEcho) as gym:
        gym.endpoint.rule = lambda _: "teapot"
        run = make_run(gym, tmp_path, limit=1)
        run.start()
        async with asyncio.timeout(10):
            while not run.progress().active:  # noqa: ASYNC110 - a poll
                await asyncio.sleep(0.01)
        run.cancel(drain=True)
        HELD.set()
        await run.wait()
    assert (run.state, run.progress().done) == (RunState.DONE, 1)
