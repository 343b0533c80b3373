"""Ten real problems: what earns the reward, in which words, and what does not."""

import json
import math

import pytest
from pydantic import ValidationError

from gym_core.errors import FailureKind
from gym_core.judging.math_value import read_value, same_value
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    OutputMessage,
    OutputText,
    ResponsesReply,
)
from gym_core.types.wire import JsonObject
from resources_servers.geo3k_zoom.grading import Geo3kTask, grade, matched_by
from tests.unit.geo3k.problems import Problem, problems

TEN = problems()
by_id = pytest.mark.parametrize("problem", TEN, ids=lambda problem: problem.id)


def message(text: str) -> OutputMessage:
    return OutputMessage(id="m", content=[OutputText(text=text)])


def reply(*output: object) -> ResponsesReply:
    return ResponsesReply(id="r", created_at=0, status="completed", output=list(output))


@by_id
def test_every_choice_has_the_value_that_the_authors_worked_out(problem: Problem) -> None:
    for choice, value in zip(problem.choices, problem.values, strict=True):
        found = read_value(choice)
        assert found is not None
        assert math.isclose(found.number, value, rel_tol=1e-9)


@by_id
def test_of_the_four_choices_one_is_right(problem: Problem) -> None:
    assert [same_value(problem.gold, choice) for choice in problem.choices] == [
        index == problem.index for index in range(4)
    ]


@by_id
@pytest.mark.parametrize("form", ["{}", "${}$", "x = {}", "{}.", " {} \\text{{ units}}"])
def test_the_gold_in_other_dress_is_right(problem: Problem, form: str) -> None:
    said = f"So \\boxed{{{form.format(problem.gold)}}}"
    verification = grade(Geo3kTask(expected_answer=problem.gold), reply(message(said)))
    assert verification.reward == 1.0
    assert verification.reward_components == {"correctness": 1.0}
    assert verification.details["matched_by"] in ("text", "value")


@by_id
def test_with_options_letter_and_value_are_right_and_the_others_wrong(problem: Problem) -> None:
    task = Geo3kTask(expected_answer=problem.letter, options=problem.choices)
    assert matched_by(task, problem.letter) == "letter"
    assert matched_by(task, f"({problem.letter.lower()})") == "letter"
    assert matched_by(task, problem.gold) is not None
    for index, choice in enumerate(problem.choices):
        if index != problem.index:
            assert matched_by(task, "ABCD"[index]) is None
            assert matched_by(task, choice) is None


@pytest.mark.parametrize(
    ("gold", "answer", "how"),
    [
        ("5\\sqrt{3}", "5 \\sqrt{3}", "text"),
        ("5\\sqrt{3}", "\\sqrt{75}", "value"),
        ("5\\sqrt{3}", "8.66", "value"),
        ("5\\sqrt{3}", "5\\sqrt{2}", None),
        ("\\frac{2\\sqrt{2}}{5}", "\\frac{4}{5\\sqrt{2}}", "value"),
        ("1,200", "1200", "text"),
        ("80", "80^\\circ", "value"),
        ("80", "B", None),
        ("x^2", "X^2", "text"),
        ("x^2", "x^3", None),
    ],
)
def test_how_an_answer_is_matched(gold: str, answer: str, how: str | None) -> None:
    assert matched_by(Geo3kTask(expected_answer=gold), answer) == how


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ([message("\\boxed{1} no, \\boxed{80}")], "80"),
        ([message("\\boxed{\\frac{1}{2}}")], "\\frac{1}{2}"),
        ([message("\\boxed{1}"), message(" ")], "1"),
        ([message("\\boxed{1}"), message("I am not sure.")], None),
        ([message("The answer is 80.")], None),
        ([message("")], None),
        ([], None),
    ],
)
def test_the_answer_is_the_last_box_of_the_newest_message_with_text(output: list[object], answer: str | None) -> None:
    verification = grade(Geo3kTask(expected_answer="80"), reply(*output))
    assert verification.details["extracted_answer"] == answer
    assert verification.reward == float(answer == "80")
    is_missing = verification.failure is not None and verification.failure.kind is FailureKind.NO_FINAL_ANSWER
    assert is_missing == (answer is None)


def look(call_id: str, box: tuple[float, ...], *, is_shown: bool = True) -> list[object]:
    arguments = json.dumps(dict(zip(("x0", "y0", "x1", "y1"), box, strict=True)))
    picture = [InputImage(image_url="data:image/png;base64,AAAA")]
    output = FunctionCallOutput(call_id=call_id, output=picture if is_shown else "Error: no")
    return [FunctionCall(call_id=call_id, name="zoom", arguments=arguments), output]


def test_where_the_model_looked_is_told_and_compared_with_where_the_evidence_is() -> None:
    task = Geo3kTask(expected_answer="8", roi=[(0.5, 0.5, 1, 1)])
    other = FunctionCall(call_id="x", name="unknown_tool", arguments="{}")
    looks = [
        *look("1", (0.5, 0.5, 0.75, 2)),
        *look("2", (0.5, 0.5, 0.75, 1)),
        *look("3", (0, 0, 1, 0.01), is_shown=False),
        other,
    ]
    columns = grade(task, reply(*looks, message("\\boxed{8}"))).details
    assert columns["zoom_regions"] == [[0.5, 0.5, 0.75, 1.0]] * 2
    assert (columns["zoom_calls"], columns["zoom_duplicates"]) == (2, 1)
    assert (columns["roi_recall"], columns["roi_iou"]) == (0.5, 0.5)


def test_a_refused_call_with_the_id_of_an_earlier_one_is_no_look() -> None:
    looks = [*look("call_0", (0, 0, 0.5, 0.5)), *look("call_0", (0.5, 0.5, 1, 1), is_shown=False)]
    columns = grade(Geo3kTask(expected_answer="8"), reply(*looks, message("\\boxed{8}"))).details
    assert columns["zoom_regions"] == [[0, 0, 0.5, 0.5]]


def test_without_evidence_in_the_row_nothing_is_compared() -> None:
    columns = grade(Geo3kTask(expected_answer="8"), reply(*look("1", (0, 0, 1, 1)), message("\\boxed{8}"))).details
    assert (columns["zoom_calls"], columns["roi_recall"], columns["roi_iou"]) == (1, None, None)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"expected_answer": "D", "options": ("1", "2")}, "'D' is no letter of 2 options"),
        ({"expected_answer": "Apple", "options": ("1", "2")}, "'Apple' is no letter of 2 options"),
        ({"expected_answer": "(B)", "options": ("1", "2")}, "is no letter of 2 options"),
        ({"expected_answer": " ", "options": ("1", "2")}, "is blank"),
        ({"expected_answer": "A", "options": ("1", " ")}, "is blank"),
        ({"expected_answer": " , $"}, "is blank"),
        ({"expected_answer": "8", "roi": [(40, 40, 80, 80)]}, "reaches outside of the image"),
        ({"expected_answer": "8", "roi": [(0.2, 0.2, 0.2, 0.4)]}, "has no area"),
    ],
)
def test_a_row_that_cannot_be_graded_is_refused_before_it_is_played(row: JsonObject, message: str) -> None:
    with pytest.raises(ValidationError) as told:
        Geo3kTask.model_validate(row)
    assert message in str(told.value)


def test_a_gold_letter_may_be_small_and_in_white_space() -> None:
    task = Geo3kTask(expected_answer=" b ", options=("1", "2"))
    assert [matched_by(task, answer) for answer in ("B", "2", "A", "1")] == ["letter", "letter", None, None]
