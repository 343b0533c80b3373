"""Shaping in what is exported: a trainer's files hold the whole reward, a table for people its terms."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gym_core.cli.main import main
from gym_core.export.writers import ExportFormat
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from tests.unit.export.saved_runs import FakeRun

SHAPING = {"tool_use": 0.25, "no_tool": -0.125}
REWARD, PARTS = 1.125, {"accuracy": 1.0, **SHAPING}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """One right rollout with shaping."""
    fake = FakeRun(tmp_path / "results")
    graded = Verification(reward=1.0, shaping=SHAPING)
    return fake.write([fake.record(0, fake.tool_session()).model_copy(update={"verification": graded})])


def exported(run: Path, kind: str) -> Path:
    output = run.parent / f"out.{kind}"
    assert main(["export", "--format", kind, "--output", str(output), str(run)]) == 0
    return output


def reward_of(row: JsonObject) -> object:
    """By the name that the format has for it."""
    return next(row[name] for name in ("reward", "reward_score", "gym_reward") if name in row)


@pytest.mark.parametrize("kind", [kind for kind in ExportFormat if kind is not ExportFormat.PARQUET])
def test_a_trainers_row_has_the_reward_with_its_shaping(run: Path, kind: ExportFormat) -> None:
    (line,) = exported(run, kind).read_text("utf-8").splitlines()
    row = json.loads(line)
    assert reward_of(row) == REWARD
    if kind in (ExportFormat.JSONL, ExportFormat.NEMO_RL):
        assert row["reward_components"] == PARTS
    if kind is ExportFormat.NEMO_RL:
        assert row["reward_shaping"] == SHAPING


def test_so_has_parquet(run: Path) -> None:
    (row,) = pq.read_table(exported(run, "parquet")).to_pylist()
    assert (row["reward"], dict(row["reward_components"])) == (REWARD, PARTS)


def test_flat_rows_have_the_score_and_each_term(run: Path) -> None:
    with exported(run, "rows_csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["reward"], row["shaping.tool_use"], row["shaping.no_tool"]) == ("1.0", "0.25", "-0.125")
