"""The questions: golds by a computation of their own from the words of the question, and where the evidence is."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.chart_focus import parts
from benchmarks.chart_focus.drawn import drawn_questions
from benchmarks.chart_focus.prepare import prepare
from benchmarks.chart_focus.questions import KINDS
from benchmarks.chart_focus.rows import FigureQuestion, to_task_row
from gym_core.datasets.prepared import read_dataset
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject
from resources_servers.chart_focus import task
from resources_servers.chart_focus.focus_tools import FOCUS_TOOLS
from resources_servers.chart_focus.task import ChartTask

COUNT = 15
"""Each type of figure with each kind of question."""


@pytest.fixture(scope="module", params=[0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def questions(request: pytest.FixtureRequest) -> list[FigureQuestion]:
    return list(drawn_questions(seed=request.param, tasks=COUNT))


def numbers_of(question: FigureQuestion) -> dict[str, int]:
    """By row, of the column that the question names."""
    data = question.figure_data
    assert data is not None
    named = re.search(r"number of (\w+)", question.question)
    index = data["columns"].index(named[1]) if named else 0
    return {row: values[index] for row, values in data["rows"].items()}


def golds_of(question: FigureQuestion) -> list[str]:
    numbers, text = numbers_of(question), question.question
    words = re.findall(r"\w+", text)
    mentioned = [numbers[word] for word in words if word in numbers]
    if limit := re.search(r"more than (\d+)", text):
        above = [row for row in numbers if numbers[row] > int(limit[1])]
        return [str(len(above))] if text.startswith("How many") else above
    if "difference" in text:
        low, high = sorted(mentioned)
        return [str(high - low)]
    if "highest" in text:
        (best,) = [row for row in numbers if all(numbers[row] >= other for other in numbers.values())]
        return [best]
    (value,) = mentioned
    return [str(value)]


def test_golds_are_what_the_question_asks_for(questions: list[FigureQuestion]) -> None:
    for question in questions:
        assert question.gold.split("|||") == golds_of(question), question.question


def test_a_list_has_several_answers_and_is_never_all_of_them(questions: list[FigureQuestion]) -> None:
    lists = [question for question in questions if question.kind == "which_above"]
    assert lists
    for question in lists:
        assert 2 <= len(question.gold.split("|||")) < len(numbers_of(question))


def test_no_name_is_a_number(questions: list[FigureQuestion]) -> None:
    names = {name for question in questions for named in question.boxes.values() for name in named}
    assert not [name for name in names if any(char.isdigit() for char in name)]


def test_server_and_benchmark_have_the_same_words_for_a_figure() -> None:
    assert parts.AXES_OF == task.AXES_OF


def test_types_and_kinds_take_turns(questions: list[FigureQuestion]) -> None:
    assert {(question.figure_type, question.kind) for question in questions[:15]} == {
        (figure_type, kind) for figure_type in ("v_bar", "h_bar", "table") for kind in KINDS
    }


def test_no_one_answer_is_right_by_guessing(questions: list[FigureQuestion]) -> None:
    golds = [question.gold for question in questions]
    assert max(golds.count(gold) for gold in golds) < 0.3 * len(golds)


def test_evidence_is_in_the_boxes_of_those_the_question_is_about(questions: list[FigureQuestion]) -> None:
    for question in questions:
        rows = [name for name in numbers_of(question) if re.search(rf"\b{name}\b", question.question)]
        about = rows or list(numbers_of(question))
        axis = "rows" if question.figure_type == "table" else next(iter(question.boxes))
        assert len(question.roi) == len(about)
        boxes = [question.boxes[axis][name] for name in about]  # type: ignore[index]  # an axis of the figure
        for roi in question.roi:
            assert any(box[0] <= roi[0] and roi[2] <= box[2] and box[1] <= roi[1] and roi[3] <= box[3] for box in boxes)


def test_the_prompt_has_names_and_functions_and_neither_boxes_nor_golds(questions: list[FigureQuestion]) -> None:
    for question in questions:
        row = to_task_row(question)
        shown = json.dumps(row["responses_create_params"], ensure_ascii=False)
        listed = ChartTask.model_validate(row).listed_tools
        assert all(f"{tool}(image, names, " in shown for tool in listed)
        assert not any(tool in shown for tool in FOCUS_TOOLS if tool not in listed)
        for named in question.boxes.values():
            assert all(json.dumps(json.dumps(name))[1:-1] in shown for name in named)
            assert not any(", ".join(map(str, box)) in shown for box in named.values())
        if question.kind in ("lookup", "difference"):
            assert question.gold not in re.findall(r"\d+", shown.split("input_text")[1])


def rows_of(path: Path) -> Iterator[JsonObject]:
    return (json.loads(line) for line in path.read_text().splitlines())


def test_a_seed_is_the_same_file_another_one_another_and_fewer_are_the_first(tmp_path: Path) -> None:
    one, again = (prepare({"seed": 1, "tasks": 4}, tmp_path / name) for name in ("a.jsonl", "b.jsonl"))
    other, fewer = (
        prepare({"seed": 2, "tasks": 4}, tmp_path / "c.jsonl"),
        prepare({"seed": 1, "tasks": 2}, tmp_path / "d"),
    )
    assert one.read_bytes() == again.read_bytes()
    assert list(rows_of(fewer)) == list(rows_of(one))[:2]
    assert not set(one.read_text().splitlines()) & set(other.read_text().splitlines())
    assert len(list(read_dataset(one))) == 4


@pytest.mark.parametrize("args", [{"tasks": 0}, {"seed": -1}, {"figures": 3}])
def test_wrong_arguments_are_named(tmp_path: Path, args: JsonObject) -> None:
    with pytest.raises(ConfigError, match="prepare_args"):
        prepare(args, tmp_path / "x.jsonl")


def test_the_example_rows_are_of_every_type_and_whole() -> None:
    path = Path(__file__).parents[3] / "resources_servers/chart_focus/data/example.jsonl"
    rows = [ChartTask.model_validate(row) for row in rows_of(path)]
    assert {row.figure_type for row in rows} == {"v_bar", "h_bar", "table"}
