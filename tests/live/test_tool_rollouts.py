"""Rollouts of tools for a trainer, with a real engine: every picture that a tool returned is in the samples."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.dominant_color.prepare import prepare
from gym_core.capture.images import parse_data_url
from gym_core.cli.selection import Selection
from gym_core.client import GymClient
from gym_core.config.roots import INSTALL_DIR
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.prepared import read_dataset
from gym_core.launch.runner import running_gym
from gym_core.launch.warmup import start_warmup
from gym_core.types.trainer import EndLine, GroupOptions, RolloutLine, RolloutsRequest
from gym_core.types.wire import JsonObject
from tests.live.engines import MODEL_NAME, Engine, build_model, needs_tiny_vlm, tiny_engine
from tests.live.scoring import Scorer
from tests.live.tool_samples import check_reward, check_sample, returned_images

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_tiny_vlm]

REPEATS = 2
TOOL_BONUS = 0.1


def examples(environment: str) -> Callable[[Path], Path]:
    """The rows that are checked in with it."""
    return lambda folder: INSTALL_DIR / f"resources_servers/{environment}/data/example.jsonl"


@dataclass(frozen=True)
class Tools:
    """An environment whose tools return pictures, as one way of writing calls plays it."""

    environment: str
    agent: str
    """Dotted path of its agent's block."""
    rows: Callable[[Path], Path]
    calls: int
    """Of tools, by the scripted policy, a rollout."""
    returned: int
    """Pictures that they return."""
    score: Callable[[JsonObject], float] = lambda row: 1.0
    """What the scripted policy earns with a task."""
    agent_settings: JsonObject = field(default_factory=dict)


def _dominant_color(**settings: str) -> Tools:
    def rows(folder: Path) -> Path:
        return prepare({"seed": 7, "tasks": 3}, folder / "d.jsonl")

    agent = "tool_agent.agent_servers.tool_agent"
    return Tools("dominant_color", agent, rows, calls=2, returned=2, agent_settings=settings)


def _geo3k_zoom(**settings: str) -> Tools:
    return Tools(
        "geo3k_zoom",
        "geo3k_zoom_agent.agent_servers.tool_agent",
        examples("geo3k_zoom"),
        calls=2,
        returned=2,
        score=lambda row: float(row["expected_answer"] == "1"),  # a guess: the policy knows no geometry
        agent_settings=settings,
    )


def _visual_tools(**settings: str) -> Tools:
    agent = "visual_tools_agent.agent_servers.tool_agent"
    return Tools("visual_tools", agent, examples("visual_tools"), calls=1, returned=1, agent_settings=settings)


CASES = {
    "dominant_color-openai": _dominant_color(dialect="openai"),
    "dominant_color-images-in-tool-messages": _dominant_color(dialect="openai", tool_images="tool"),
    "dominant_color-tagged_json": _dominant_color(dialect="tagged_json"),
    "geo3k_zoom-openai": _geo3k_zoom(dialect="openai"),
    "geo3k_zoom-tagged_json": _geo3k_zoom(dialect="tagged_json"),
    "visual_tools-openai": _visual_tools(dialect="openai"),
    "visual_tools-images-in-tool-messages": _visual_tools(dialect="openai", tool_images="tool"),
}


@asynccontextmanager
async def trainer(folder: Path, engine: Engine, tools: Tools) -> AsyncIterator[GymClient]:
    """Of a gym that plays the environment's rows with the engine's model."""
    dataset = {"name": "rows", "type": "benchmark", "jsonl_fpath": str(tools.rows(folder))}
    values: dict[str, object] = {
        "policy_base_url": engine.base_url,
        "policy_model_name": MODEL_NAME,
        "policy_api_key": "EMPTY",
        f"{tools.environment}_environment.environment_servers.single_agent_turn_legacy.datasets": [dataset],
        **{f"{tools.agent}.{name}": value for name, value in tools.agent_settings.items()},
    }
    overrides = tuple(f"++{path}={json.dumps(value)}" for path, value in values.items())
    selection = Selection(None, tools.environment, "vllm_model", (), (), overrides)
    checked = await asyncio.to_thread(selection.check)
    async with running_gym(checked, warmup=start_warmup(folder / "state")) as running:
        yield GymClient.over(running.client)


async def played(folder: Path, model: Path, tools: Tools) -> list[RolloutLine]:
    async with (
        asyncio.timeout(300),
        tiny_engine(model, "--script", "tests.live.tool_script:answer") as engine,
        trainer(folder, engine, tools) as client,
    ):
        asked = RolloutsRequest(
            split="benchmark", num_repeats=REPEATS, images="inline", group=GroupOptions(tool_bonus=TOOL_BONUS)
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


@pytest.mark.parametrize("name", CASES)
async def test_every_picture_of_a_tool_is_in_the_samples(
    name: str, model: Path, scorer: Scorer, tmp_path: Path
) -> None:
    tools = CASES[name]
    lines = await played(tmp_path, model, tools)
    tasks = list(read_dataset(tools.rows(tmp_path)))
    assert len(lines) == len(tasks) * REPEATS
    for line in lines:
        assert line.row is not None
        assert (line.end_reason, line.tool_calls, line.advantage) == ("completed", tools.calls, 0.0)
        assert line.row["reward"] == tools.score(tasks[line.task_index].task_data)
        assert len(returned_images(line.row)) == tools.returned
        sample = check_sample(line, model, scorer)
        assert len(sample.calls) == tools.calls + 1
        check_reward(line, tool_bonus=TOOL_BONUS)


async def test_the_pictures_are_those_of_the_task_in_its_order(model: Path, tmp_path: Path) -> None:
    tools = _dominant_color(dialect="openai")
    tasks = list(read_dataset(tools.rows(tmp_path)))
    for line in await played(tmp_path, model, tools):
        assert line.row is not None
        later = tasks[line.task_index].task_data["later_images"]
        assert returned_images(line.row) == [
            PreparedImage.from_bytes(parse_data_url(url), row="").sha256 for url in later
        ]
