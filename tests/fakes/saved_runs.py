"""Runs of the echo environment inside one process: one that plays, and those that are made of its files."""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from pydantic import SecretStr

from gym_core.http.client import HttpPool
from gym_core.launch.plan import DatasetEntry, EnvironmentEntry
from gym_core.launch.run_work import RunSetting
from gym_core.launch.runs import Run
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.types.flat_row import flat_from_task
from gym_core.types.run import RunOptions, SavedRunUse
from gym_core.types.session import Sampling
from gym_core.types.wire import JsonObject
from model_servers.replay_model.app import ReplayModel, ReplayModelConfig
from tests.fakes.gym import TOKEN, InProcessGym, make_request
from tests.fakes.serving import serving


def echo_run(
    gym: InProcessGym,
    folder: Path,
    output: str,
    *,
    n_tasks: int = 1,
    saved_run: SavedRunUse | None = None,
    identity: JsonObject | None = None,
    **options: object,
) -> Run:
    """A run over tasks whose phrases are "teapot", then "teapot 1", "teapot 2", ..."""
    dataset = folder / "tasks.jsonl"
    tasks = [make_request(phrase="teapot" if i == 0 else f"teapot {i}", image=i == 0).task for i in range(n_tasks)]
    dataset.write_text("".join(json.dumps(flat_from_task(task) | {"task_id": None} | _id(i)) + "\n"
                               for i, task in enumerate(tasks)))  # fmt: skip
    environment = EnvironmentEntry(
        name="echo",
        resources_server="echo",
        agent_server="agent",
        policy_server="policy_model",
        agent_timeout_s=20,
        max_concurrent_episodes=None,
        datasets=[DatasetEntry(name="tasks", type="benchmark", path=str(dataset), num_repeats=1)],
        identity=identity or {"servers": {"echo": {"judge": "first"}, "agent": {}, "policy_model": {"model": "tiny"}}},
    )
    setting = RunSetting(environment, gym.servers, Sampling(), versions={}, argv=[], logs_dir=folder)
    values = {"output_jsonl_fpath": str(folder / output), "saved_run": saved_run} | options
    return Run("r1", RunOptions.model_validate(values), setting)


def _id(index: int) -> JsonObject:
    return {"task_id": {"taskset": "echo", "task_id": str(index)}}


async def ended(run: Run) -> Run:
    run.start()
    await run.wait()
    return run


@contextlib.asynccontextmanager
async def replaying(gym: InProcessGym, run: Path, folder: Path, **fields: object) -> AsyncIterator[InProcessGym]:
    """The same gym with a policy server that answers from a saved run."""
    part = ServerSlice(
        name="policy_model", type="any", implementation="any", block={}, run_token=SecretStr(TOKEN),
        state_dir=str(folder / "replay"), url="http://127.0.0.1:1",
    )  # fmt: skip
    config = ReplayModelConfig.model_validate({"run": str(run), **fields})
    server = ReplayModel(config, ServerContext(part, HttpPool()))
    async with serving(server.make_app()) as url, HttpPool() as pool:
        yield replace(gym, servers=replace(gym.servers, policy=pool.service(url, TOKEN)))
