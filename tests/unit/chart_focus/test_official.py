"""Official rows from a local file: every form they come in, and every mistake named."""

import base64
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from benchmarks.chart_focus.official import figure_files, official_questions
from benchmarks.chart_focus.prepare import ROWS_VARIABLE, fingerprint, prepare
from gym_core.datasets.prepared import read_dataset
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject
from resources_servers.chart_focus.task import ChartTask


def png(size: tuple[int, int] = (200, 100)) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", size, "white").save(content, "PNG")
    return content.getvalue()


def corners(x1: float, y1: float, x2: float, y2: float) -> JsonObject:
    return {"x1": x1, "y1": y1, "x2": x2, "y2": y2}


URI = "data:image/png;base64," + base64.b64encode(png()).decode()
CHART: JsonObject = {
    "type": "v_bar",
    "figure_bbox": corners(0, 0, 200, 100),
    "x_values_bbox": {"2005": corners(10, 0, 50.4, 90), "2006": corners(60, 0, 230, 90)},
    "y_values_bbox": {},
}
TABLE: JsonObject = {
    "type": "table",
    "columns_bbox": {"Year": corners(0, 0, 0.5, 1.0), "Team": corners(0.5, 0, 1.01, 1)},
    "row_starters": {"Year": corners(0, 0, 1, 0.2), "1969": corners(0, 0.2, 1, 0.6)},
}
ROW: JsonObject = {"figure_id": "f", "query": "How many?", "answer": "7", "images": [URI], "metadata": CHART}


def prepared(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[ChartTask]:
    monkeypatch.setenv(ROWS_VARIABLE, str(path))
    made = prepare({}, path.with_name("made.jsonl"))
    return [ChartTask.model_validate(task.task_data) for task in read_dataset(made)]


def lines(path: Path, *rows: JsonObject) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_charts_boxes_are_pixels_kept_within_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = prepared(lines(tmp_path / "x.jsonl", ROW), monkeypatch)
    assert task.boxes == {"x_values": {"2005": (10, 0, 50, 90), "2006": (60, 0, 200, 90)}}
    assert (task.question, task.golds, task.figure_type) == ("How many?", ["7"], "v_bar")


def test_a_tables_boxes_are_fractions_that_are_scaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROW | {"metadata": json.dumps(TABLE), "answer": ["a", "b"]}
    (task,) = prepared(lines(tmp_path / "x.jsonl", row), monkeypatch)
    assert task.boxes["columns"] == {"Year": (0, 0, 100, 100), "Team": (100, 0, 200, 100)}
    assert task.boxes["rows"] == {"Year": (0, 0, 200, 20), "1969": (0, 20, 200, 60)}
    assert task.golds == ["a", "b"]


def test_boxes_in_lists_go_with_names_in_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = {
        "type": "table",
        "column_headers": ["Year", "Team"],
        "columns_bbox": list(TABLE["columns_bbox"].values()),
        "row_starters": ["Year", "1969"],
        "rows_bbox": list(TABLE["row_starters"].values()),
    }
    (task,) = prepared(lines(tmp_path / "x.jsonl", ROW | {"metadata": metadata}), monkeypatch)
    assert list(task.boxes["rows"]) == ["Year", "1969"]
    assert task.boxes["columns"]["Team"] == (100, 0, 200, 100)


def test_a_picture_may_be_a_file_beside_or_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "rows").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(png())
    row = {name: value for name, value in ROW.items() if name != "images"} | {"figure_path": "images/a.png"}
    rows = tmp_path / "rows" / "x.json"
    rows.write_text(json.dumps([row]))
    assert len(prepared(rows, monkeypatch)) == 1


def test_parquet_with_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [ROW | {"images": [{"bytes": png(), "path": None}], "metadata": json.dumps(CHART)}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    assert len(prepared(tmp_path / "x.parquet", monkeypatch)) == 1


def test_metadata_as_columns_of_parquet_have_names_of_other_rows_as_nulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = CHART | {"x_values_bbox": {"2007": corners(1, 1, 20, 20)}, "y_values_bbox": None}
    chart = {name: value for name, value in CHART.items() if name != "y_values_bbox"}
    rows = [ROW | {"metadata": {**chart, "y_values_bbox": None}}, ROW | {"metadata": other, "answer": "8"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    tasks = prepared(tmp_path / "x.parquet", monkeypatch)
    assert [list(task.boxes["x_values"]) for task in tasks] == [["2005", "2006"], ["2007"]]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"answer": None}, "answer"),
        ({"answer": "|||"}, "answer: .*holds no answer"),
        ({"answer": [" ", "."]}, "answer: .*holds no answer"),
        ({"images": None, "figure_path": "x" * 5000}, "no file"),
        ({"query": ""}, "query"),
        ({"images": None}, "neither images nor figure_path"),
        ({"images": ["https://example.org/x.png"]}, "no base64 data URI"),
        ({"images": None, "figure_path": "../x.png"}, "leads out"),
        ({"images": None, "figure_path": "x.png"}, "no file"),
        ({"metadata": "{"}, "not JSON"),
        ({"metadata": CHART | {"type": "pie"}}, "metadata.type"),
        ({"metadata": CHART | {"x_values_bbox": {}}}, "no boxes of x_values"),
        ({"metadata": CHART | {"x_values_bbox": {"a": corners(5, 5, 5, 9)}}}, "no area"),
        ({"metadata": CHART | {"x_values_bbox": [corners(1, 1, 9, 9)]}}, "1 boxes and 0 names"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_written(
    change: JsonObject, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=f"(?s)1 mistakes.*row 1: .*{told}"):
        prepared(lines(tmp_path / "x.jsonl", ROW, ROW | change), monkeypatch)
    assert not (tmp_path / "made.jsonl").exists()


def test_a_file_that_is_not_there_or_is_empty_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no file"):
        prepared(tmp_path / "x.jsonl", monkeypatch)
    with pytest.raises(ValueError, match="no rows"):
        prepared(lines(tmp_path / "x.jsonl"), monkeypatch)


@pytest.mark.parametrize(
    ("line", "told"),
    [(b'{"query": "How', "cut short"), (b'{"answer": NaN}', "NaN is no number"), (b'{"answer": "\xff"}', "not UTF-8")],
)
def test_a_line_that_is_no_json_is_named_beside_the_other_mistakes(line: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n".join([json.dumps(ROW | {"answer": None}).encode(), line, json.dumps(ROW).encode()]))
    with pytest.raises(ValueError, match=f"(?s)2 mistakes in .*x.jsonl.*row 0: answer.*row 1: .*{told}"):
        list(official_questions(path))


def test_a_json_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('[{"query": ')
    for read in (official_questions, figure_files):
        with pytest.raises(ValueError, match="x.json.*cut short"):
            list(read(path))


def test_parquet_has_the_columns_that_a_line_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(png())
    row = {"question": "How many?", "answer": "7", "figure_path": "a.png", "metadata": json.dumps(CHART)}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "x.parquet")
    (task,) = prepared(tmp_path / "x.parquet", monkeypatch)
    assert task.question == "How many?"
    pq.write_table(pa.Table.from_pylist([row | {"query": None}]), tmp_path / "x.parquet")
    assert len(prepared(tmp_path / "x.parquet", monkeypatch)) == 1
    assert list(figure_files(tmp_path / "x.parquet")) == [tmp_path / "a.png"]


def test_another_file_or_none_makes_the_rows_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ROWS_VARIABLE, raising=False)
    drawn = fingerprint({})
    monkeypatch.setenv(ROWS_VARIABLE, str(lines(tmp_path / "x.jsonl", ROW)))
    first = fingerprint({})
    lines(tmp_path / "x.jsonl", ROW, ROW)
    second = fingerprint({})
    monkeypatch.setenv(ROWS_VARIABLE, str(tmp_path / "gone.jsonl"))
    assert len({drawn, first, second, fingerprint({}), ""}) == 5, '"" would take whatever is there'


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.parquet"])
def test_a_picture_that_is_replaced_makes_the_rows_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"query": "?", "answer": "7", "figure_path": path, "metadata": json.dumps(CHART)}
        for path in ("a.png", "a.png", "../up.png")
    ]
    path = tmp_path / name
    if name == "x.parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text(json.dumps(rows) if name == "x.json" else "\n".join(["{", *map(json.dumps, rows)]))
    monkeypatch.setenv(ROWS_VARIABLE, str(path))
    seen = {fingerprint({})}
    for size in ((200, 100), (201, 100)):
        (tmp_path / "a.png").write_bytes(png(size) + b"\0" * size[0])
        seen.add(fingerprint({}))
    assert len(seen) == 3
    assert list(figure_files(path)) == [tmp_path / "a.png"]
