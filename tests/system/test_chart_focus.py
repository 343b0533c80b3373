"""The documented commands of chart_focus, through real services and real sandboxes."""

import json
import re
import shutil

import pytest

from gym_core.config.roots import INSTALL_DIR
from gym_core.types.wire import JsonObject
from tests.fakes.model import ScriptedEndpoint
from tests.system.house import House

pytestmark = [pytest.mark.live, pytest.mark.slow]

TASKS = 15
"""Each type of figure with each kind of question once."""


async def play(house: House, *words: str) -> tuple[list[JsonObject], JsonObject]:
    """Rows and metrics of a run."""
    source, target = INSTALL_DIR / "benchmarks/chart_focus", house.cwd / "benchmarks/chart_focus"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("data", "__pycache__"))  # data are written there
    selected = ("--benchmark", "chart_focus", "++split=benchmark")
    prepared = await house.run("eval", "prepare", *selected)
    assert prepared.code == 0, prepared.err
    output = house.folder / "out" / "x.jsonl"
    ended = await house.run(
        "eval", "run", *selected, "--model-type", "scripted_model", "--limit", str(TASKS), "--output", str(output),
        *words,
    )  # fmt: skip
    assert ended.code == 0, ended.out + ended.err
    await house.all_gone()
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    return rows, json.loads(output.with_name("x_aggregate_metrics.json").read_text())


def what_happened(row: JsonObject) -> tuple[float, int, str]:
    return row["reward"], row["tool_flag"], row["parse_outcome"]


async def test_every_kind_of_figure_is_focused_on_read_and_graded(house: House) -> None:
    rows, metrics = await play(house)
    assert len(rows) == TASKS
    assets = {path.name for path in (house.folder / "out" / "x_assets").iterdir()}
    for row in rows:
        assert (row["failure_kind"], row["exact_match"], row["_gym_agent"]["ending"]) == (None, 1.0, "finished")
        assert row["reward_components"] == {"rule": row["reward"]}
        outputs = [item["output"] for item in row["response"]["output"] if item["type"] == "function_call_output"]
        match row["figure_type"], row["l2_category"]:
            case (("v_bar" | "h_bar"), "highest"):
                assert (what_happened(row), outputs) == ((1.0, 0, "no_tool"), [])
            case "h_bar", "which_above":
                (told,) = outputs
                assert what_happened(row) == (0.0, -10, "ok")
                assert told.startswith("OBSERVATION: the code failed.")
                assert "NameError" in told
            case _:
                ((text, picture),) = outputs
                assert what_happened(row) == (1.0, 1, "ok")
                assert text["text"] == "OBSERVATION: the code ran. The edited image:"
                assert picture["image_url"].removeprefix("sha256:") in assets
                assert len(row["_gym_capture"]["images"]) == 2
                assert (row["roi_recall"], row["roi_precision"]) == (1.0, 1.0)
    assert metrics["key_metrics"]["mean/reward"] == pytest.approx(14 / 15)
    assert metrics["key_metrics"]["mean/exact_match"] == 1.0


async def test_a_failed_action_costs_nothing_where_the_switch_says_so(house: House) -> None:
    block = "++chart_focus.resources_servers.chart_focus.reward"
    rows, _ = await play(house, f"{block}.failed_tool_scores_zero=false", f"{block}.no_tool_weight=0.5")
    assert {row["reward"] for row in rows} == {1.0}
    shaped = {row["tool_flag"]: row["reward_shaping"] for row in rows}
    assert shaped == {1: {}, 0: {"no_tool": -0.5}, -10: {}}


async def test_a_policy_that_does_not_look_earns_next_to_nothing(house: House) -> None:
    rows, _ = await play(house, "++policy_model.model_servers.scripted_model.looks=false")
    assert {row["tool_flag"] for row in rows} == {0}
    assert sum(row["exact_match"] for row in rows) <= 3


def judge(messages: list[JsonObject]) -> str:
    """Compares as its instructions say, and has no token for differences."""
    blocks = dict(re.findall(r"<<<([A-Z ]+) [0-9a-f]+>>>\n(.*?)\n<<<END", messages[-1]["content"], re.DOTALL))
    if "difference" in messages[1]["content"]:
        return "I like turtles"
    gold, said = (sorted(re.split(r" ?\|+ ?", blocks[name])) for name in ("REFERENCE ANSWER", "FINAL ANSWER"))
    return "They agree. <|YES|>" if gold == said else "<|NO|>"


async def test_a_judge_model_has_its_share_and_masks_what_it_does_not_decide(house: House) -> None:
    async with ScriptedEndpoint(judge, model="gpt-4o-mini", needs_key="sk-judge") as endpoint:
        rows, _ = await play(
            house, "--config", "resources_servers/chart_focus/configs/chart_focus_judged.yaml",
            f"++chart_focus_judge_base_url={endpoint.url}", "++chart_focus_judge_api_key=sk-judge",
            "++max_masked_fraction=1",
        )  # fmt: skip
    for row in rows:
        asked = (row["mask_sample"], row["failure_kind"], row["judge_verdict"], row["judge_attempts"])
        if row["tool_flag"] == -10:
            assert asked == (False, None, None, 0)
            assert row["reward_components"] == {"rule": 0.0, "judge": 0.0}
        elif row["l2_category"] == "difference":
            assert asked == (True, "judge_failed", None, 2)
            assert (row["reward"], row["judge_raw_reply"], row["rule_score"]) == (None, "I like turtles", 1.0)
        else:
            assert asked == (False, None, "equivalent", 1)
            assert row["reward_components"] == {"rule": 0.5, "judge": 0.5}
