"""The rule channel: the final answer in a model's text, and how near it comes to the golds. Pure."""

import itertools
import math
import re
import unicodedata
from collections.abc import Sequence

from gym_core.judging.answers import MAX_ANSWER_CHARS

GOLD_SEPARATOR, ANSWER_SEPARATOR = "|||", "||"
FINAL_ANSWER = re.compile(r"FINAL ANSWER[*_]{0,3}:")
TERMINATE = "TERMINATE"
MAX_ANSWERS = 100
"""Of a list; what a model writes past it is not read."""

_NUMBER = re.compile(r"[$€£]?\s?([+-]?(?:\d{1,3}(?:,\d{3})+|\d{1,30})(?:\.\d{0,30})?|[+-]?\.\d{1,30})\s?%?")
_AROUND = " \t\r\n*_`'\""
_MINUS = str.maketrans("\u2212", "-")


def final_answer(text: str) -> str | None:
    """What stands after the last `FINAL ANSWER:`, up to `TERMINATE` or the line's end; None where nothing does."""
    marks = list(FINAL_ANSWER.finditer(text))
    if not marks:
        return None
    said = text[marks[-1].end() :].partition(TERMINATE)[0].lstrip(_AROUND)[:MAX_ANSWER_CHARS]
    answer = said.partition("\n")[0].strip(_AROUND).removesuffix(".").rstrip(_AROUND)
    return answer or None


def listed(text: str, separator: str) -> list[str]:
    """The items of a list, the first `MAX_ANSWERS`, without blank ones."""
    return [item for part in text.split(separator) if (item := part.strip(_AROUND + "|"))][:MAX_ANSWERS]


def rule_score(golds: Sequence[str], answers: Sequence[str], *, count_extra: bool = False) -> float:
    """In [0, 1]: how alike each answer and its best match are, summed, over the number of golds.

    A gold is matched once. `count_extra` divides by the number of answers where there are more of them than golds.
    """
    pairs = itertools.product(enumerate(golds), enumerate(answers))
    alike = sorted(((-similarity(gold, said), i, j) for (i, gold), (j, said) in pairs))
    total, used_golds, used_answers = 0.0, set[int](), set[int]()
    for negative, i, j in alike:
        if i not in used_golds and j not in used_answers:
            total -= negative
            used_golds.add(i)
            used_answers.add(j)
    return min(1.0, total / max(len(golds), len(answers) if count_extra else 0))


def similarity(gold: str, answer: str) -> float:
    """In [0, 1]. Two numbers: 1 - |a - b| / max(|a|, |b|). Otherwise 1 for the same text, case, spaces and a full
    stop at the end aside."""
    gold, answer = _plain(gold), _plain(answer)
    a, b = _number(gold), _number(answer)
    if a is not None and b is not None:
        return 1.0 if a == b else max(0.0, 1.0 - abs(a - b) / max(abs(a), abs(b)))
    return float(gold == answer)


def _number(text: str) -> float | None:
    """Of digits, with separators of thousands, a currency sign before or a percent sign behind."""
    found = _NUMBER.fullmatch(text)
    value = float(found[1].replace(",", "")) if found else math.nan
    return value if math.isfinite(value) else None


def _plain(text: str) -> str:
    """One line in lower case; a letter with its accent is one character, a minus sign a hyphen."""
    text = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).translate(_MINUS)
    return " ".join(text.split()).removesuffix(".").rstrip()
