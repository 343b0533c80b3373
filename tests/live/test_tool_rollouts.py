"""Rollouts of tools for a trainer, with a real engine: every picture that a tool returned is in the samples."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gym_core.capture.images import parse_data_url
from gym_core.cli.selection import Selection
from gym_core.client import GymClient
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.prepared import read_dataset
from gym_core.launch.runner import running_gym
from gym_core.launch.warmup import start_warmup
from gym_core.types.trainer import EndLine, GroupOptions, RolloutLine, RolloutsRequest
from tests.live.engines import MODEL_NAME, Engine, build_model, needs_tiny_vlm, tiny_engine
from tests.live.gyms import needs_toolkit
from tests.live.tool_cases import CASES, DOMINANT_COLOR, Tools

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_tiny_vlm]
pytest.importorskip("torch", reason="no torch here: run `make tiny-vlm`")

from tests.live.scoring import Scorer  # noqa: E402 - needs torch
from tests.live.tool_samples import check_reward, check_sample, returned_images  # noqa: E402 - needs torch

TASKS, REPEATS = 4, 2
"""At most so many tasks of an environment."""
TOOL_BONUS = 0.1
PATIENCE_S = 600.0
"""A minute on an idle machine."""


@asynccontextmanager
async def trainer(folder: Path, engine: Engine, tools: Tools) -> AsyncIterator[GymClient]:
    """Of a gym that plays the environment's rows with the engine's model."""
    policy = {"policy_base_url": engine.base_url, "policy_model_name": MODEL_NAME, "policy_api_key": "EMPTY"}
    values = policy | tools.overrides(folder)
    overrides = tuple(f"++{path}={json.dumps(value)}" for path, value in values.items())
    environment = None if tools.benchmark else tools.environment
    selection = Selection(tools.benchmark, environment, "vllm_model", (), (), overrides)
    checked = await asyncio.to_thread(selection.check)
    async with running_gym(checked, warmup=start_warmup(folder / "state")) as running:
        yield GymClient.over(running.client)


async def played(folder: Path, model: Path, tools: Tools) -> list[RolloutLine]:
    async with (
        asyncio.timeout(PATIENCE_S),
        tiny_engine(model, "--script", "tests.live.tool_script:answer") as engine,
        trainer(folder, engine, tools) as client,
    ):
        asked = RolloutsRequest(
            split="benchmark",
            limit=TASKS,
            num_repeats=REPEATS,
            images="inline",
            group=GroupOptions(tool_bonus=TOOL_BONUS),
        )
        lines = [line async for line in client.rollouts(asked)]
    assert isinstance(lines[-1], EndLine), lines[-1]
    return [line for line in lines if isinstance(line, RolloutLine)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def scorer(model: Path) -> Scorer:
    return Scorer(model)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_toolkit) if tools.is_in_sandbox else name for name, tools in CASES.items()]
)
async def test_every_picture_of_a_tool_is_in_the_samples(
    name: str, model: Path, scorer: Scorer, tmp_path: Path
) -> None:
    tools = CASES[name]
    lines = await played(tmp_path, model, tools)
    assert len(lines) == REPEATS * min(TASKS, len(list(read_dataset(tools.rows(tmp_path)))))
    for line in lines:
        assert line.row is not None
        assert (line.end_reason, line.advantage) == ("completed", 0.0)
        assert line.row["reward"] == tools.score(line.row)
        check_sample(line, model, scorer)
        check_reward(line, tool_bonus=TOOL_BONUS)
    counts = [(line.tool_calls, len(returned_images(line.row or {}))) for line in lines]
    assert max(counts) == (tools.calls, tools.returned)
    assert tools.is_choosy or len(set(counts)) == 1
    assert {name for line in lines for name in (line.row or {})["reward_shaping"]} == tools.terms


async def test_the_pictures_are_those_of_the_task_in_its_order(model: Path, tmp_path: Path) -> None:
    tasks = list(read_dataset(DOMINANT_COLOR.rows(tmp_path)))
    for line in await played(tmp_path, model, DOMINANT_COLOR):
        assert line.row is not None
        later = tasks[line.task_index].task_data["later_images"]
        assert returned_images(line.row) == [
            PreparedImage.from_bytes(parse_data_url(url), row="").sha256 for url in later
        ]
