"""The same puzzles without tools, with image tools, and in a Python process: played, measured, paired."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from gym_core.sandbox import toolkit
from gym_core.types.comparison import Comparison
from gym_core.types.metrics import MetricsReport
from gym_core.types.wire import JsonObject
from gym_core.viewer.run import ViewedRun
from tests.system.house import House

pytestmark = [pytest.mark.live, pytest.mark.slow]

SOLVED, GUESSED = ("Count Clusters", "Find the same"), "Count 3D blocks"
SUBTYPES = [*SOLVED, GUESSED]
"""An easy and a hard one of each."""
TASKS = 2 * len(SUBTYPES)


@dataclass(frozen=True)
class Played:
    path: Path
    rows: list[JsonObject]

    @property
    def metrics(self) -> MetricsReport:
        return MetricsReport.model_validate_json(self.path.with_name("x_aggregate_metrics.json").read_bytes())

    @property
    def right(self) -> dict[str, float]:
        """Mean reward by subtype."""
        by_subtype = self.metrics.by_subtype
        return {name.rpartition("/")[2]: found.mean for name, found in by_subtype.items() if found.mean is not None}

    @property
    def questions(self) -> list[object]:
        return [(row["task_id"], row["question"], row["expected_answer"], row["roi"]) for row in self.rows]


async def play(house: House, interface: str) -> Played:
    benchmark = f"visual_puzzles_{interface}"
    dataset = f"++{benchmark}.environment_servers.single_agent_turn_legacy.datasets.0"
    output = house.folder / interface / "x.jsonl"
    chosen = (
        "--benchmark", benchmark, f"{dataset}.jsonl_fpath={house.folder / 'data' / interface}.jsonl",
        f"{dataset}.prepare_args.subtypes={json.dumps(SUBTYPES)}",
    )  # fmt: skip
    prepared = await house.run("eval", "prepare", *chosen)
    assert prepared.code == 0, prepared.err
    ended = await house.run("eval", "run", *chosen, "--model-type", "scripted_model", "--output", str(output))
    assert ended.code == 0, ended.out + ended.err
    await house.all_gone()
    rows = sorted(map(json.loads, output.read_text().splitlines()), key=lambda row: int(row["_ng_task_index"]))
    assert len(rows) == TASKS
    assert not any(row["mask_sample"] for row in rows)
    return Played(output, rows)


async def compared(house: House, a: Played, b: Played) -> Comparison:
    ended = await house.run("eval", "compare", "--json", str(a.path), str(b.path))
    assert ended.code == 0, ended.err
    return Comparison.model_validate_json(ended.out)


async def test_image_tools_and_no_tools_are_asked_the_same_and_paired_by_content(house: House) -> None:
    without, tools = await play(house, "no_tools"), await play(house, "tools")
    assert without.questions == tools.questions
    assert tools.right == dict.fromkeys(SOLVED, 1.0) | {GUESSED: 0.0}
    assert set(without.right.values()) == {0.0}
    assert all(row["_gym_agent"]["tool_calls"] == {} for row in without.rows)

    found = await compared(house, without, tools)
    assert (found.pairing.by_content, found.pairing.measured) == (TASKS, TASKS)
    assert found.overall.difference == pytest.approx(2 / 3)

    summary = await house.run(
        "eval", "summary", str(tools.path), "--table", "babyvision", "--baseline", str(without.path)
    )
    assert summary.code == 0, summary.err
    assert "difference  +0.6667" in summary.out


async def test_where_the_model_looked_is_in_rows_metrics_summary_and_viewer(house: House) -> None:
    tools = await play(house, "tools")
    for row in tools.rows:
        n_looks = {"Count Clusters": 1, "Find the same": row["tool_chain"].count("find_template"), GUESSED: 0}
        assert row["look_calls"] == len(row["look_regions"]) == n_looks[row["l2_category"]]
        assert row["_gym_measures"]["look_calls"] == row["look_calls"]
        is_solved = row["l2_category"] in SOLVED
        assert (row["roi_recall"] > 0.8) is is_solved

    measures = tools.metrics.measures
    assert {"look_calls", "look_distinct", "roi_recall", "roi_iou"} <= measures.keys()
    recall = [row["roi_recall"] for row in tools.rows]
    assert measures["roi_recall"].overall.mean == pytest.approx(sum(recall) / TASKS)
    assert tools.metrics.key_metrics["mean/roi_recall"] == measures["roi_recall"].overall.mean
    by_subtype = {name.rpartition("/")[2]: found.mean for name, found in measures["look_calls"].by_subtype.items()}
    assert by_subtype == {"Count Clusters": 1.0, "Find the same": 10.0, GUESSED: 0.0}

    run = ViewedRun(tools.path)
    run.refresh()
    assert run.metrics().measures == measures
    printed = (await house.run("eval", "summary", str(tools.path))).out
    assert "mean/roi_recall" in printed
    assert "measured by the environment, by subtype" in printed


@pytest.mark.skipif(not toolkit.is_built(), reason="no toolkit: run `gym sandbox build`")
async def test_a_python_process_is_asked_in_other_words_and_paired_by_row(house: House) -> None:
    without, code = await play(house, "no_tools"), await play(house, "pyvision")
    assert without.questions == code.questions
    assert code.right == dict.fromkeys(SOLVED, 1.0) | {GUESSED: 0.0}
    for row in code.rows:
        is_solved = row["l2_category"] in SOLVED
        assert row["_gym_agent"]["tool_calls"] == ({"python": 1} if is_solved else {})
        assert "look_calls" not in row
    found = await compared(house, without, code)
    assert (found.pairing.by_content, found.pairing.by_row_id, found.pairing.measured) == (0, TASKS, TASKS)
    assert found.overall.difference == pytest.approx(2 / 3)
