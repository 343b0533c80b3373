"""geo3k's reward, worked out by hand: the last box of the newest message, and nothing else, makes it 1."""

import json
from dataclasses import dataclass, field

import pytest

from gym_core.errors import FailureKind
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    OutputItem,
    OutputMessage,
    OutputText,
    ResponsesReply,
)
from resources_servers.geo3k_zoom.grading import Geo3kTask, grade

GOLD = "5\\sqrt{3}"
OPTIONS = ("5\\sqrt{2}", GOLD, "10", "15")
"""B is right."""
LONG = "so " * 40_000


def zoomed(box: tuple[float, float, float, float], *, works: bool = True) -> list[OutputItem]:
    """A look, and its picture; or the words that refuse it."""
    arguments = json.dumps(dict(zip(("x0", "y0", "x1", "y1"), box, strict=True)))
    picture = [InputImage(image_url="sha256:" + "0" * 64)]
    output = FunctionCallOutput(call_id="c", output=picture if works else "Error: too small")
    return [FunctionCall(call_id="c", name="zoom", arguments=arguments), output]


NONE: list[OutputItem] = []
ONE = zoomed((0, 0, 0.5, 0.5))
TWO = [*ONE, *zoomed((0.5, 0.5, 1, 1))]
SAME_TWICE = [*ONE, *ONE]
FAILED = zoomed((0.5, 0.5, 0.5, 0.6), works=False)


@dataclass(frozen=True)
class Row:
    said: str
    reward: float
    answer: str | None
    matched_by: str | None = None
    looks: list[OutputItem] = field(default_factory=list)
    calls: int = 0
    duplicates: int = 0
    options: tuple[str, ...] = ()


TABLE = {
    # right and wrong, with and without looks: a look earns nothing and costs nothing
    "right, no tool": Row("\\boxed{5\\sqrt{3}}", 1, GOLD, "text"),
    "right, one look": Row("\\boxed{5\\sqrt{3}}", 1, GOLD, "text", ONE, 1),
    "right, two looks": Row("\\boxed{\\sqrt{75}}", 1, "\\sqrt{75}", "value", TWO, 2),
    "right, one look twice": Row("\\boxed{8.66}", 1, "8.66", "value", SAME_TWICE, 2, 1),
    "right, failed look": Row("\\boxed{5\\sqrt{3}}", 1, GOLD, "text", FAILED, 0),
    "wrong, no tool": Row("\\boxed{5\\sqrt{2}}", 0, "5\\sqrt{2}"),
    "wrong, one look": Row("\\boxed{10}", 0, "10", None, ONE, 1),
    "wrong, failed look": Row("\\boxed{10}", 0, "10", None, FAILED, 0),
    # forms of the answer
    "two boxes, last right": Row("\\boxed{10} or \\boxed{5\\sqrt{3}}", 1, GOLD, "text"),
    "two boxes, last wrong": Row("\\boxed{5\\sqrt{3}} or \\boxed{10}", 0, "10"),
    "no box": Row("The answer is 5\\sqrt{3}", 0, None),
    "no box, one look": Row("The answer is 5\\sqrt{3}", 0, None, None, ONE, 1),
    "open box": Row("\\boxed{5\\sqrt{3", 0, None),
    "empty box": Row("\\boxed{}", 0, None),
    "nothing": Row("", 0, None),
    "over-long text, box at its end": Row(LONG + "\\boxed{5\\sqrt{3}}", 1, GOLD, "text"),
    "over-long answer that begins right": Row("\\boxed{5\\sqrt{3} " + "so " * 200 + "}", 0, f"{GOLD}{' so' * 200}"),
    # with options
    "right letter": Row("\\boxed{B}", 1, "B", "letter", ONE, 1, options=OPTIONS),
    "right value of an option": Row("\\boxed{8.66}", 1, "8.66", "value", options=OPTIONS),
    "wrong letter": Row("\\boxed{C}", 0, "C", options=OPTIONS),
    "letter and no options": Row("\\boxed{B}", 0, "B"),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_reward_is_what_the_table_says(name: str) -> None:
    row = TABLE[name]
    said = [OutputMessage(id="m", content=[OutputText(text=row.said)])] if row.said else []
    task = Geo3kTask(expected_answer="B" if row.options else GOLD, options=row.options)
    reply = ResponsesReply(id="r", created_at=0, status="completed", output=[*row.looks, *said])
    found = grade(task, reply)
    answer = found.details["extracted_answer"]
    assert (found.reward, found.reward_components) == (row.reward, {"correctness": row.reward})
    assert found.shaping == {}
    assert (answer if answer is None else " ".join(answer.split())) == (row.answer and " ".join(row.answer.split()))
    assert found.details["matched_by"] == row.matched_by
    assert (found.details["zoom_calls"], found.details["zoom_duplicates"]) == (row.calls, row.duplicates)
    kind = found.failure and found.failure.kind
    assert kind == (FailureKind.NO_FINAL_ANSWER if row.answer is None else None)
