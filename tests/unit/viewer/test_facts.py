"""The part of a line that a table needs, of lines that no run writes."""

from pathlib import Path

import msgspec
import pytest

from gym_core.rollout.sink import read_rows
from gym_core.types.wire import JsonObject
from gym_core.viewer.facts import read_facts
from tests.fakes.made_runs import write_small_run


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> JsonObject:
    path: Path = write_small_run(tmp_path_factory.mktemp("run"), n_tasks=1).path
    return next(read_rows(path))


def test_a_runs_own_line_is_read(row: JsonObject) -> None:
    assert read_facts(msgspec.json.encode(row), 0).row.id == row["_ng_rollout_id"]


@pytest.mark.parametrize(
    "change",
    [
        {"_gym_timing": {"total": -1.0}},
        {"_gym_timing": {"total": 1e300}},
        {"_gym_finished_at": 1e300},
        {"_gym_attempts": -1},
        {"_gym_agent": {"tool_calls": {"bash": -3}}},
        {"response": {"output": [], "usage": {"output_tokens": -7}}},
        {"response": {"output": [], "usage": {"output_tokens": 2**62}}},
        {"reward": 2.0},
        {"_ng_rollout_id": "../x"},
        {"_gym_measures": {"look_calls": 1e300}},
        {"_gym_measures": {"look_calls": "many"}},
    ],
    ids=str,
)
def test_a_line_with_a_number_or_a_name_that_no_run_writes_is_refused(row: JsonObject, change: JsonObject) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_facts(msgspec.json.encode(row | change), 0)


def test_the_numbers_that_an_environment_measures_are_read(row: JsonObject) -> None:
    line = msgspec.json.encode(row | {"_gym_measures": {"look_calls": 2, "balance": -0.5}})
    assert read_facts(line, 0).outcome.measures == {"look_calls": 2.0, "balance": -0.5}


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"NaN", b"true", b'"9"'])
def test_a_time_that_is_no_number_is_refused(row: JsonObject, number: bytes) -> None:
    line = msgspec.json.encode(row | {"_gym_finished_at": 2.5})
    with pytest.raises(ValueError, match=r".+"):
        read_facts(line.replace(b'"_gym_finished_at":2.5', b'"_gym_finished_at":' + number), 0)


@pytest.mark.parametrize("text", [["a", {"b": 1}], {"x": 1}, 3.5, None])
def test_a_question_or_a_category_that_is_no_text_is_shown_as_json(row: JsonObject, text: object) -> None:
    found = read_facts(msgspec.json.encode(row | {"question": text, "category": text}), 0).row
    assert found.question == ("" if text is None else msgspec.json.encode(text).decode())
