"""The final answer in a model's text. Linear in the length of the text, whatever it holds.

In order of preference: the last complete `\\boxed{...}`, GLM's box tokens, `<answer>` tags, then the last line with
"answer: ..." or "answer is ...". What follows the model's thoughts (`</think>`) goes before what is inside them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

MAX_ANSWER_CHARS = 2000
"""A longer answer is cut: no gold is near this size, and it travels into the row and the judge's prompt."""


class AnswerForm(StrEnum):
    BOXED = "boxed"
    BOX_TOKENS = "box_tokens"
    ANSWER_TAG = "answer_tag"
    ANSWER_LINE = "answer_line"
    NONE = "none"


@dataclass(frozen=True)
class Extracted:
    answer: str | None
    """None when the text holds no final answer."""
    form: AnswerForm


_THOUGHTS_END = "</think>"
_BRACES = re.compile(r"\\boxed\s{0,8}\{|\\\\(?!boxed)|\\[{}]|[{}]")
_ANSWER_LINE = re.compile(
    r"(?:\banswer|答案)[*_ \t]{0,6}(?::|：|=|is\b|是|为)[*_ \t]{0,6}[:：]?[*_ \t]{0,6}\n{0,3}(?P<answer>[^\n]*)",
    re.IGNORECASE,
)


def extract_answer(text: str) -> Extracted:
    """The final answer and the form it was found in."""
    _, thoughts_end, conclusion = text.rpartition(_THOUGHTS_END)
    for part in (conclusion, text) if thoughts_end else (text,):
        for form, find in _FINDERS:
            answer = find(part)
            if answer:
                return Extracted(answer[:MAX_ANSWER_CHARS], form)
    return Extracted(None, AnswerForm.NONE)


def _last_boxed(text: str) -> str | None:
    r"""Content of the `\boxed{` that opens last among those that close and are not empty; escaped braces are text."""
    best: tuple[int, int] | None = None
    open_braces: list[int | None] = []  # where a box's content begins; None for an ordinary brace
    for token in _BRACES.finditer(text):
        word = token.group()
        if word == "{":
            open_braces.append(None)
        elif word == "}":
            start = open_braces.pop() if open_braces else None
            is_later = start is not None and (best is None or start > best[0])
            if start is not None and is_later and not _is_blank(text, start, token.start()):
                best = (start, token.start())
        elif word.startswith(r"\boxed"):
            open_braces.append(token.end())
    return text[best[0] : best[1]].strip() if best else None


def _is_blank(text: str, start: int, end: int) -> bool:
    """Looks at the head alone, so that a deep nest of boxes costs no more than its length."""
    return not text[start : min(end, start + MAX_ANSWER_CHARS)].strip()


def _between(text: str, opening: str, closing: str) -> str | None:
    end = text.rfind(closing)
    start = text.rfind(opening, 0, end) if end >= 0 else -1
    return text[start + len(opening) : end].strip() if start >= 0 else None


def _last_answer_line(text: str) -> str | None:
    answer = None
    for found in _ANSWER_LINE.finditer(text):
        answer = found["answer"].strip().strip("*_`").strip() or answer
    if answer is None:
        return None
    return answer.removesuffix(".").strip()


_FINDERS: tuple[tuple[AnswerForm, Callable[[str], str | None]], ...] = (
    (AnswerForm.BOXED, _last_boxed),
    (AnswerForm.BOX_TOKENS, lambda text: _between(text, "<|begin_of_box|>", "<|end_of_box|>")),
    (AnswerForm.ANSWER_TAG, lambda text: _between(text, "<answer>", "</answer>")),
    (AnswerForm.ANSWER_LINE, _last_answer_line),
)
