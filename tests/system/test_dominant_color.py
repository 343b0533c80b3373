"""The documented commands of dominant_color, through real services: a policy that looks, and one that does not."""

import json
import shutil
from pathlib import Path

import pytest

from gym_core.config.roots import INSTALL_DIR
from gym_core.types.wire import JsonObject
from tests.system.house import House

pytestmark = [pytest.mark.live, pytest.mark.slow]

TASKS = 12


async def play(house: House, *words: str) -> tuple[list[JsonObject], JsonObject]:
    """Rows and metrics of a run."""
    source = INSTALL_DIR / "benchmarks/dominant_color"
    target = house.cwd / "benchmarks/dominant_color"  # so that the data are written there
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("data", "__pycache__"))
    output = house.folder / "out" / "x.jsonl"
    selected = ("--benchmark", "dominant_color")
    prepared = await house.run("eval", "prepare", *selected)
    assert prepared.code == 0, prepared.err
    ended = await house.run(
        "eval", "run", *selected, "--model-type", "scripted_model", "--limit", str(TASKS), "--output", str(output),
        *words,
    )  # fmt: skip
    assert ended.code == 0, ended.out + ended.err
    await house.all_gone()
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    return rows, json.loads(output.with_name("x_aggregate_metrics.json").read_text())


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_a_policy_that_looks_recalls_every_picture(house: House) -> None:
    rows, _ = await play(house)
    assert len(rows) == TASKS
    assets = names_in(house.folder / "out" / "x_assets")
    for row in rows:
        assert (row["reward"], row["images_seen"], row["colors_in_place"]) == (1.0, 2, 3)
        agent = row["_gym_agent"]
        assert (agent["ending"], agent["tool_calls"]) == ("finished", {"see_next_image": 2})
        outputs = [item["output"] for item in row["response"]["output"] if item["type"] == "function_call_output"]
        pictures = [part["image_url"] for output in outputs for part in output if part["type"] == "input_image"]
        assert len(pictures) == 2
        assert {url.removeprefix("sha256:") for url in pictures} <= assets
        assert len(row["_gym_capture"]["images"]) == 3


async def test_a_policy_that_does_not_look_earns_next_to_nothing(house: House) -> None:
    rows, metrics = await play(house, "++policy_model.model_servers.scripted_model.looks=false")
    assert {row["_gym_agent"]["ending"] for row in rows} == {"finished"}
    assert all(row["_gym_agent"]["tool_calls"] == {} for row in rows)
    assert sum(row["reward"] for row in rows) <= 2
    assert metrics


async def test_a_budget_without_calls_scores_zero_and_is_named(house: House) -> None:
    rows, _ = await play(house, "++tool_agent.agent_servers.tool_agent.budgets.max_tool_calls=1")
    for row in rows:
        assert (row["reward"], row["failure_kind"], row["mask_sample"]) == (0.0, "no_final_answer", False)
        assert row["_gym_agent"]["ending"] == "tool_budget"
