"""Environments whose tools return pictures, as tests play them for a trainer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from benchmarks.dominant_color.prepare import prepare as draw_colors
from benchmarks.visual_puzzles_opencode.prepare import prepare as draw_puzzles
from gym_core.config.roots import INSTALL_DIR
from gym_core.types.wire import JsonObject


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
            drawn = {"proportions": "even", "levels": [1], "subtypes": self.puzzles}
            return draw_puzzles(_prepare_args(self.benchmark) | drawn, folder / "rows.jsonl")
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


def _prepare_args(benchmark: str) -> JsonObject:
    """Of its one dataset."""
    config = yaml.safe_load((INSTALL_DIR / f"benchmarks/{benchmark}/config.yaml").read_bytes())
    (dataset,) = config[benchmark]["environment_servers"]["single_agent_turn_legacy"]["datasets"]
    args: JsonObject = dataset["prepare_args"]
    return args


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
    score=lambda row: float(not row["tool_failed"]),  # it is right, but where it calls what there is not
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
