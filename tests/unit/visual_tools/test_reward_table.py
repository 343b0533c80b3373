"""The reward of visual_tools, worked out by hand: the final answer alone makes it; tools are told and not paid for."""

from dataclasses import dataclass

import pytest

from gym_core.errors import FailureKind
from gym_core.servers.image_looks import told_number
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    OutputItem,
    OutputMessage,
    OutputText,
    ResponsesReply,
)
from gym_core.types.wire import JsonObject
from tests.unit.visual_tools.playing import graded_reply

COUNT: JsonObject = {"expected_answer": "4", "answer_kind": "int", "roi": [[0, 0, 50, 50]], "image_size": [100, 100]}
CHOICE: JsonObject = {"expected_answer": "B", "answer_kind": "letter", "options": ["three", "four"]}
PAIRS: JsonObject = {"expected_answer": "1-C,2-A", "answer_kind": "pairs"}
LONG = "so " * 40_000


def zoomed(number: int, *, works: bool = True) -> list[OutputItem]:
    """A look at the upper left quarter, which is all of the evidence; or the words that refuse it."""
    picture = [InputImage(image_url="sha256:" + "0" * 64), InputText(text=told_number(number))]
    call = FunctionCall(call_id=f"c{number}", name="zoom", arguments='{"box": [0, 0, 0.5, 0.5]}')
    return [call, FunctionCallOutput(call_id=f"c{number}", output=picture if works else "Error: no")]


NONE: tuple[OutputItem, ...] = ()
ONE = tuple(zoomed(1))
TWICE = (*zoomed(1), *zoomed(2))
FAILED = tuple(zoomed(1, works=False))


@dataclass(frozen=True)
class Row:
    said: str
    reward: float
    calls: tuple[OutputItem, ...] = NONE
    n_calls: int = 0
    looks: int = 0
    recall: float = 0.0
    task: str = "count"
    no_answer: bool = False


TABLE = {
    "right, no tool": Row("\\boxed{4}", 1),
    "right, one look": Row("\\boxed{4}", 1, ONE, 1, 1, 1.0),
    "right, the same look twice": Row("\\boxed{4}", 1, TWICE, 2, 2, 1.0),
    "right, failed tool": Row("\\boxed{4}", 1, FAILED),
    "wrong, no tool": Row("\\boxed{5}", 0),
    "wrong, one look": Row("\\boxed{5}", 0, ONE, 1, 1, 1.0),
    "wrong, failed tool": Row("\\boxed{5}", 0, FAILED),
    "two boxes, last right": Row("\\boxed{5} no, \\boxed{4}", 1),
    "two boxes, last wrong": Row("\\boxed{4} no, \\boxed{5}", 0),
    "two numbers in one box": Row("\\boxed{4 or 5}", 0),
    "number as a word": Row("\\boxed{four}", 1),
    "with its unit": Row("\\boxed{4 shapes}", 1),
    "answer line, no box": Row("Answer: 4", 1),
    "no answer": Row("I cannot tell.", 0, no_answer=True),
    "no answer, one look": Row("I cannot tell.", 0, ONE, 1, 1, 1.0, no_answer=True),
    "empty box": Row("\\boxed{}", 0, no_answer=True),
    "nothing": Row("", 0, no_answer=True),
    "over-long text, box at its end": Row(LONG + "\\boxed{4}", 1),
    "over-long answer that begins right": Row("\\boxed{4 " + "so " * 900 + "}", 0),
    "right letter": Row("\\boxed{B}", 1, task="choice"),
    "right letter in brackets": Row("\\boxed{(B)}", 1, task="choice"),
    "text of the right option": Row("\\boxed{four}", 1, task="choice"),
    "wrong letter": Row("\\boxed{A}", 0, task="choice"),
    "two letters": Row("\\boxed{A, B}", 0, task="choice"),
    "right pairs, other order": Row("\\boxed{2-A, 1-C}", 1, task="pairs"),
    "pairs exchanged": Row("\\boxed{1-A,2-C}", 0, task="pairs"),
    "one pair of two": Row("\\boxed{1-C}", 0, task="pairs"),
}


@pytest.mark.parametrize("name", TABLE)
async def test_the_reward_is_what_the_table_says(name: str) -> None:
    row = TABLE[name]
    task = {"count": COUNT, "choice": CHOICE, "pairs": PAIRS}[row.task]
    said = [OutputMessage(id="m", content=[OutputText(text=row.said)])] if row.said else []
    reply = ResponsesReply(id="r", created_at=0, status="completed", output=[*row.calls, *said])
    found = await graded_reply(reply, task)
    assert (found.reward, found.reward_components, found.shaping) == (row.reward, {}, {})
    assert len(found.details["tool_chain"]) == row.n_calls
    assert found.details["look_calls"] == row.looks
    assert found.details["look_duplicates"] == max(0, row.looks - 1)
    assert found.details.get("roi_recall") == (row.recall if row.task == "count" else None)
    kind = found.failure and found.failure.kind
    assert kind == (FailureKind.NO_FINAL_ANSWER if row.no_answer else None)
