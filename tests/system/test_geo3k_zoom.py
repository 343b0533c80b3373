"""The documented commands of geo3k_zoom, through real services, on the ten real problems and one with a known guess."""

import json
import shutil

import pytest

from gym_core.config.roots import INSTALL_DIR
from gym_core.types.wire import JsonObject
from tests.system.house import House
from tests.unit.geo3k.problems import data_uri, problems, write_parquet

pytestmark = [pytest.mark.live, pytest.mark.slow]

GUESS = "1"
"""What the scripted policy says about every figure."""


async def play(house: House, *words: str) -> list[JsonObject]:
    """Rows of a run."""
    rows: list[dict[str, object]] = [
        {"problem": f"<image>{problem.text}", "answer": problem.gold, "images": [data_uri(problem.png)]}
        for problem in problems()
    ]
    rows.append({"problem": "<image>What is the guess?", "answer": GUESS, "images": [data_uri(problems()[0].png)]})
    house.environment["GEO3K_PARQUET"] = str(write_parquet(house.folder / "rows.parquet", rows))
    source, target = INSTALL_DIR / "benchmarks/geo3k_zoom", house.cwd / "benchmarks/geo3k_zoom"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("data", "__pycache__"))  # data are written there
    output = house.folder / "out" / "x.jsonl"
    prepared = await house.run("eval", "prepare", "--benchmark", "geo3k_zoom", "++split=benchmark")
    assert prepared.code == 0, prepared.err
    ended = await house.run(
        "eval", "run", "--benchmark", "geo3k_zoom", "--model-type", "scripted_model", "--output", str(output), *words
    )
    assert ended.code == 0, ended.out + ended.err
    await house.all_gone()
    return [json.loads(line) for line in output.read_text().splitlines()]


async def test_every_problem_is_looked_at_twice_and_graded(house: House) -> None:
    rows = await play(house)
    assert len(rows) == 11
    assets = {path.name for path in (house.folder / "out" / "x_assets").iterdir()}
    for row in rows:
        is_right = row["expected_answer"] == GUESS
        assert (row["reward"], row["reward_components"]) == (float(is_right), {"correctness": float(is_right)})
        assert (row["extracted_answer"], row["zoom_calls"], row["failure_kind"]) == (GUESS, 2, None)
        agent = row["_gym_agent"]
        assert (agent["ending"], agent["tool_calls"], agent["notes"]) == ("finished", {"zoom": 2}, [])
        outputs = [item["output"] for item in row["response"]["output"] if item["type"] == "function_call_output"]
        for picture, caption in outputs:
            assert picture["image_url"].removeprefix("sha256:") in assets
            assert caption["text"].startswith("Zoomed view of the box [")
        assert len(row["_gym_capture"]["images"]) == 3


async def test_a_turn_past_the_budget_of_calls_ends_without_a_score_of_its_answer(house: House) -> None:
    rows = await play(house, "++geo3k_zoom_agent.agent_servers.tool_agent.budgets.max_tool_calls=1")
    for row in rows:
        assert (row["reward"], row["failure_kind"], row["mask_sample"]) == (0.0, "no_final_answer", False)
        assert row["_gym_agent"]["ending"] == "tool_budget"
        assert row["zoom_calls"] == 1
