"""Rollouts of tools for a trainer, with a real engine: every picture that a tool returned is in the samples."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml

from benchmarks.dominant_color.prepare import prepare as draw_colors
from benchmarks.visual_puzzles_opencode.prepare import prepare as draw_puzzles
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
from tests.live.gyms import needs_toolkit
from tests.live.scoring import Scorer
from tests.live.tool_samples import check_reward, check_sample, returned_images

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_tiny_vlm]

TASKS, REPEATS = 4, 2
"""At most so many tasks of an environment."""
TOOL_BONUS = 0.1
PATIENCE_S = 600.0
"""A minute on an idle machine."""


@dataclass(frozen=True)
class Tools:
    """An environment whose tools return pictures, as one way of writing calls plays it."""

    environment: str
    calls: int
    """Of tools, by the scripted policy, a rollout."""
    returned: int
    """Pictures that they return."""
    is_choosy: bool = False
    """Whether there are tasks in which it calls fewer, or gets fewer: the numbers above are then the most."""
    score: Callable[[JsonObject], float] = lambda row: 1.0
    """What the scripted policy earns with a row."""
    terms: frozenset[str] = frozenset()
    """Names of the environment's shaping."""
    settings: JsonObject = field(default_factory=dict)
    """Of its agent's block, by name."""
    resources: JsonObject = field(default_factory=dict)
    """Of its resources server's, by name."""
    server: str | None = None
    """The resources server's implementation; None means that it has the environment's name."""
    agent: str = ""
    """Name of the agent's block; "" means that it is named after the environment."""
    policy: JsonObject = field(default_factory=dict)
    """Settings of the policy model's server."""
    is_in_sandbox: bool = False
    puzzles: Sequence[str] = ()
    """Kinds of visual puzzles to be drawn as rows of `benchmark`."""
    benchmark: str | None = None
    """That plays visual puzzles in the environment."""

    def rows(self, folder: Path) -> Path:
        """Drawn for the test, or those that are checked in."""
        if self.environment == "dominant_color":
            return draw_colors({"seed": 7, "tasks": 3}, folder / "rows.jsonl")
        if self.benchmark:
            (dataset,) = yaml.safe_load((INSTALL_DIR / f"benchmarks/{self.benchmark}/config.yaml").read_bytes())[
                self.benchmark
            ]["environment_servers"]["single_agent_turn_legacy"]["datasets"]
            drawn = {"proportions": "even", "levels": [1], "subtypes": self.puzzles}
            return draw_puzzles(dataset["prepare_args"] | drawn, folder / "rows.jsonl")
        return INSTALL_DIR / f"resources_servers/{self.environment}/data/example.jsonl"

    def overrides(self, folder: Path) -> dict[str, object]:
        name = self.environment
        agent = f"{self.agent or name + '_agent'}.agent_servers.tool_agent"
        resources = f"{name}.resources_servers.{self.server or name}"
        dataset = {"name": "rows", "type": "benchmark", "jsonl_fpath": str(self.rows(folder))}
        environment = self.benchmark or f"{name}_environment"
        return {
            f"{environment}.environment_servers.single_agent_turn_legacy.datasets": [dataset],
            **{f"policy_model.model_servers.vllm_model.{key}": value for key, value in self.policy.items()},
            **{f"{agent}.{key}": value for key, value in self.settings.items()},
            **{f"{resources}.{key}": value for key, value in self.resources.items()},
        }


DOMINANT_COLOR = Tools("dominant_color", calls=2, returned=2, agent="tool_agent")
# A guess: the scripted policy knows no geometry.
GEO3K_ZOOM = Tools("geo3k_zoom", calls=2, returned=2, score=lambda row: float(row["expected_answer"] == "1"))
VISUAL_TOOLS = Tools("visual_tools", calls=1, returned=1)
BENCHMAX = Tools("benchmax", calls=2, returned=2)
CHART_FOCUS = Tools(
    "chart_focus",
    calls=1,
    returned=1,
    is_choosy=True,
    score=lambda row: row["reward_components"]["rule"],
    is_in_sandbox=True,
)
# The first code of each rollout raises, the second shows a figure.
PYVISION_IMAGE = Tools(
    "pyvision_image", calls=2, returned=1, server="pyvision", terms=frozenset({"tool_use"}), is_in_sandbox=True
)
PUZZLES = Tools(
    "visual_tools",
    calls=16,
    returned=16,
    is_choosy=True,
    benchmark="visual_puzzles_tools",
    puzzles=("Count Clusters", "Find the different", "Find the same", "Mirroring Patterns"),
)

CASES = {
    "dominant_color": DOMINANT_COLOR,
    "dominant_color-images-in-tool-messages": replace(DOMINANT_COLOR, settings={"tool_images": "tool"}),
    "dominant_color-tagged_json": replace(DOMINANT_COLOR, settings={"dialect": "tagged_json"}),
    "geo3k_zoom": GEO3K_ZOOM,
    "geo3k_zoom-tagged_xml": replace(GEO3K_ZOOM, settings={"dialect": "tagged_xml"}),
    "visual_tools": VISUAL_TOOLS,
    "visual_tools-tagged_xml": replace(VISUAL_TOOLS, settings={"dialect": "tagged_xml"}),
    "visual_tools-images-in-tool-messages": replace(VISUAL_TOOLS, settings={"tool_images": "tool"}),
    "benchmax": BENCHMAX,
    "benchmax-tagged_json": replace(BENCHMAX, settings={"dialect": "tagged_json"}),
    "chart_focus": CHART_FOCUS,
    "chart_focus-less-without-tools": replace(
        CHART_FOCUS, resources={"reward.no_tool_weight": 0.5}, terms=frozenset({"no_tool"})
    ),
    "pyvision_image": PYVISION_IMAGE,
    "pyvision_video": replace(PYVISION_IMAGE, environment="pyvision_video"),
    "puzzles-by-tools": PUZZLES,
    "puzzles-by-code": replace(
        PYVISION_IMAGE, calls=1, is_choosy=True, benchmark="visual_puzzles_pyvision", puzzles=PUZZLES.puzzles
    ),
    # OpenCode writes a call anew when it sends it back, so that only token prompts keep the sampled ones.
    "puzzles-by-opencode": Tools(
        "visual_coding_opencode",
        calls=2,
        returned=1,
        is_choosy=True,
        benchmark="visual_puzzles_opencode",
        puzzles=PUZZLES.puzzles,
        policy={"exact_prefix": True},
        is_in_sandbox=True,
    ),
}


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
