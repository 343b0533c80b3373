"""The answer in a final turn: what stands in `<answer></answer>`, and why it may count for nothing. Pure.

The rules are those of a reward that models learned to deceive: a long answer, one with tags in it and one with two
boxes earn nothing, whatever they hold.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from gym_core.judging.answers import AnswerForm, extract_answer

OPEN, CLOSE = "<answer>", "</answer>"
MAX_CHARS = 1000
"""An answer of so many characters or more earns nothing."""

_THOUGHTS_END = "</think>"
_TAG = re.compile(r"</?[A-Za-z_][A-Za-z0-9_]{0,40}\s{0,8}/?>")
_EMPTY = re.compile(rf"(?<!{OPEN}){OPEN}\s*{CLOSE}")
_BOX = r"\boxed"


class Form(StrEnum):
    """How the answer stands there; `answer_form` of a row. It counts in the first two alone."""

    BOXED = "boxed"
    BARE = "bare"
    """Without a box: all of it is the answer."""
    TOO_LONG = "too_long"
    TAGS = "tags"
    SEVERAL_BOXES = "several_boxes"
    EMPTY = "empty"
    NONE = "none"
    """No `<answer>`."""


@dataclass(frozen=True)
class FinalAnswer:
    text: str | None
    """What is compared with the gold; None where nothing counts."""
    form: Form


def _without_empty(said: str) -> str:
    """From the first pair of tags on that holds something, if one follows those that hold nothing."""
    rest = _EMPTY.sub("", said)
    return rest if OPEN in rest else said


def read_answer(final_text: str) -> FinalAnswer:
    """Of the message that ends the rollout; what it thought before `</think>` is no part of it."""
    said = final_text.rpartition(_THOUGHTS_END)[2]
    _, found, rest = _without_empty(said).partition(OPEN)
    if not found:
        return FinalAnswer(None, Form.NONE)
    # Engines that stop at the closing tag leave it out.
    inside, _, after = rest.partition(CLOSE)
    inside = inside.strip()
    if len(inside) >= MAX_CHARS:
        return FinalAnswer(None, Form.TOO_LONG)
    if OPEN in after or _TAG.search(inside):
        return FinalAnswer(None, Form.TAGS)
    if inside.count(_BOX) > 1:
        return FinalAnswer(None, Form.SEVERAL_BOXES)
    if _BOX not in inside:
        return FinalAnswer(inside, Form.BARE) if inside else FinalAnswer(None, Form.EMPTY)
    boxed = extract_answer(inside)
    is_whole = boxed.form is AnswerForm.BOXED and bool(boxed.answer)
    return FinalAnswer(boxed.answer, Form.BOXED) if is_whole else FinalAnswer(None, Form.EMPTY)
