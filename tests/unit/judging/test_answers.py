"""Finding the final answer in a model's text."""

import time

import pytest

from gym_core.judging.answers import MAX_ANSWER_CHARS, AnswerForm, Extracted, extract_answer


@pytest.mark.parametrize(
    ("text", "answer", "form"),
    [
        (r"So it is \boxed{3}.", "3", AnswerForm.BOXED),
        (r"\boxed{1}, no: \boxed{ (4,7) }", "(4,7)", AnswerForm.BOXED),
        (r"\boxed {B}", "B", AnswerForm.BOXED),
        (r"\boxed{\text{AN APPLE}}", r"\text{AN APPLE}", AnswerForm.BOXED),
        (r"\boxed{\frac{2\sqrt{2}}{5}} done", r"\frac{2\sqrt{2}}{5}", AnswerForm.BOXED),
        (r"\boxed{\{1,2\}}", r"\{1,2\}", AnswerForm.BOXED),
        (r"\boxed{a \} b}", r"a \} b", AnswerForm.BOXED),
        (r"\boxed{\boxed{5}}", "5", AnswerForm.BOXED),
        (r"{ open \boxed{6} and } \boxed{7", "6", AnswerForm.BOXED),
        (r"} } \boxed{8}", "8", AnswerForm.BOXED),
        (r"in JSON: \\boxed{9}", "9", AnswerForm.BOXED),
        (r"\boxed{4} and later an empty \boxed{}", "4", AnswerForm.BOXED),
        (r"Answer: 5, that is \boxed{4}", "4", AnswerForm.BOXED),
        ("<|begin_of_box|>12<|end_of_box|>", "12", AnswerForm.BOX_TOKENS),
        ("<answer>1-C, 2-D</answer>", "1-C, 2-D", AnswerForm.ANSWER_TAG),
        ("Thinking.\nAnswer: B", "B", AnswerForm.ANSWER_LINE),
        ("**Final Answer:** **(4,7)**", "(4,7)", AnswerForm.ANSWER_LINE),
        ("answer: 1\nanswer: 2\n", "2", AnswerForm.ANSWER_LINE),
        ("The answer is 17.", "17", AnswerForm.ANSWER_LINE),
        ("The answer is: 8−5=3", "8−5=3", AnswerForm.ANSWER_LINE),
        ("### Answer:\n\n42\n", "42", AnswerForm.ANSWER_LINE),
        ("答案：B", "B", AnswerForm.ANSWER_LINE),
        (r"<think>\boxed{1}</think> It is \boxed{2}", "2", AnswerForm.BOXED),
        (r"<think>maybe \boxed{1}</think>The answer is 2", "2", AnswerForm.ANSWER_LINE),
        (r"<think>it is \boxed{1}</think>That was it.", "1", AnswerForm.BOXED),
    ],
)
def test_an_answer_is_found_in_its_form(text: str, answer: str, form: AnswerForm) -> None:
    assert extract_answer(text) == Extracted(answer, form)


@pytest.mark.parametrize(
    "text",
    ["", "I cannot tell.", r"\boxed{}", r"\boxed{  }", r"\boxed{3", "boxed{3}", "Answer:", "answers vary", "<answer>"],
)
def test_no_answer_is_none(text: str) -> None:
    assert extract_answer(text) == Extracted(None, AnswerForm.NONE)


def test_a_very_long_answer_is_cut() -> None:
    answer = extract_answer(r"\boxed{" + "x" * 100_000 + "}").answer
    assert answer is not None
    assert len(answer) == MAX_ANSWER_CHARS


@pytest.mark.parametrize(
    "unit",
    [
        r"\boxed{",
        r"\boxed{}",
        "{",
        "}",
        "\\",
        r"\boxed",
        "answer: ",
        "answer is\n",
        "answer" + "*" * 50,
        " ",
        "<answer>",
        "<|begin_of_box|>",
        "</think>",
        r"\boxed" + " " * 100,
    ],
)
def test_hostile_text_costs_no_more_than_its_length(unit: str) -> None:
    """A quadratic step would take minutes at this size; the bound is loose so that a busy machine passes."""
    text = unit * (2_000_000 // len(unit))
    started = time.process_time()
    extract_answer(text)
    assert time.process_time() - started < 5


@pytest.mark.slow
def test_ten_megabytes_of_nested_boxes_take_seconds() -> None:
    depth = 10_000_000 // 8
    started = time.process_time()
    extract_answer(r"\boxed{" * depth + "}" * depth)
    assert time.process_time() - started < 15
