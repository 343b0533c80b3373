"""The typed, deterministic matcher: does an answer mean the same as the gold?

A third of BabyVision's golds defeat string comparison, and language-model judges accept lists that are paired wrongly.
The matcher compares by what kind of thing the gold is. Where a source does not state the kind it is told from the
gold's form; whether commas then mean a set or a sequence is a guess (a gold in rising order is taken for a set).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gym_core.judging.answer_shapes import Label, parse_coordinate, parse_items, parse_pairs, same_pairs
from gym_core.judging.answers import MAX_ANSWER_CHARS
from gym_core.judging.plain_text import ORDINAL_WORDS, plain_text, whole_number


class AnswerKind(StrEnum):
    """What kind of thing a gold answer is; a task's `answer_kind`."""

    LETTER = "letter"
    INT = "int"
    COORD = "coord"
    SEQUENCE = "seq"
    SET = "set"
    PAIRS = "pairs"
    RELATION = "relation"
    EQUATION = "equation"
    TEXT = "text"


@dataclass(frozen=True)
class MatchResult:
    equal: bool
    kind: AnswerKind
    """The kind it was compared as."""
    reason: str


_RELATIONS = {
    "<": "<",
    ">": ">",
    "=": "=",
    "==": "=",
    "less than": "<",
    "less": "<",
    "smaller": "<",
    "fewer": "<",
    "greater than": ">",
    "greater": ">",
    "more than": ">",
    "more": ">",
    "larger": ">",
    "equal": "=",
    "equal to": "=",
    "equals": "=",
    "the same": "=",
    "same": "=",
}
_LEAD_IN = re.compile(r"(?:(?:the|final|correct|right|answer|choices?|options?|letter|is)\b[\s:]*){0,8}")
_LETTER = re.compile(r"[(\[]?\s*([a-z])\s*[)\].:]{0,2}\s*")
_COUNTED = re.compile(
    r"(?:there are |total:? |count:? |= ?)?"
    r"(?P<number>[+-]?[\d,.]{0,20}\d|[a-z]+(?:-[a-z]+)?)"
    r"(?P<unit>(?: [a-z]+){0,4})"
)
_WORD = re.compile(r"[^\W_]+|[<>=+\-/*%]")
_ARTICLES = frozenset({"a", "an", "the"})


def match(gold: str, answer: str, kind: str | None = None, options: Sequence[str] = ()) -> MatchResult:
    """Compare an extracted answer with the gold as `kind` says (a word of AnswerKind), or as the gold's form does.

    `options` are a choice question's texts, the first one being A: an answer may then be the text instead of the
    letter. Raises ValueError for an unknown kind.
    """
    plain_gold, plain_answer = _bounded_plain(gold), _bounded_plain(answer)
    compared_as = AnswerKind(kind) if kind is not None else infer_kind(gold, options)
    if plain_gold == plain_answer:
        return MatchResult(bool(plain_gold), compared_as, "same text" if plain_gold else "both are empty")
    if compared_as is AnswerKind.LETTER:
        equal, reason = _same_letter(plain_gold, plain_answer, [plain_text(option) for option in options])
    else:
        equal, reason = _COMPARE[compared_as](plain_gold, plain_answer)
    return MatchResult(equal, compared_as, reason)


def infer_kind(gold: str, options: Sequence[str] = ()) -> AnswerKind:
    """The kind of a gold by its form."""
    plain = _bounded_plain(gold)
    if options or re.fullmatch(r"\(?[a-z]\)?", plain):
        return AnswerKind.LETTER
    if whole_number(plain) is not None and "," not in plain:
        return AnswerKind.INT
    if plain in _RELATIONS:
        return AnswerKind.RELATION
    if re.fullmatch(r"[\d\s+\-*/()]{1,200}=[\d\s+\-*/()=]{1,200}", plain):
        return AnswerKind.EQUATION
    if " and " not in plain and parse_coordinate(plain) is not None:
        return AnswerKind.COORD
    if parse_pairs(plain) is not None:
        return AnswerKind.PAIRS
    return _infer_list_kind(plain, gold)


def _bounded_plain(text: str) -> str:
    """Cut before and after, since one character may become many."""
    return plain_text(text[:MAX_ANSWER_CHARS])[:MAX_ANSWER_CHARS]


def _infer_list_kind(plain: str, gold: str) -> AnswerKind:
    if re.fullmatch(r"[A-Z]{2,8}", gold.strip()) and list(plain) == sorted(set(plain)):
        return AnswerKind.SET
    if not re.search(r",|;|^\S{1,20} and \S{1,20}$", plain):
        return AnswerKind.TEXT
    items = parse_items(plain)[0]
    if any(len(str(item).split()) > 3 for item in items):
        return AnswerKind.TEXT
    numbers = [item for item in items if isinstance(item, int)]
    if len(numbers) == len(items):
        is_rising = numbers == sorted(set(numbers))
    else:
        is_rising = all(len(str(item)) == 1 for item in items) and _texts(items) == sorted(set(_texts(items)))
    return AnswerKind.SET if is_rising else AnswerKind.SEQUENCE


def _same_letter(gold: str, answer: str, options: list[str]) -> tuple[bool, str]:
    wanted = _LETTER.fullmatch(gold)
    if not wanted:
        return _same_words(gold, answer)
    bare = answer[_lead_in_end(answer) :]
    if alone := _LETTER.fullmatch(bare):
        return alone[1] == wanted[1], f"letter {alone[1].upper()}"
    chosen = [chr(ord("a") + index) for index, option in enumerate(options) if option and option in (answer, bare)]
    led = _LETTER.match(bare)
    if led and led[1] in _letters(options) and bare[led.end() :] == options[ord(led[1]) - ord("a")]:
        chosen = [led[1]]
    if len(chosen) == 1:
        return chosen[0] == wanted[1], f"text of option {chosen[0].upper()}"
    return False, "answer is not one letter"


def _lead_in_end(answer: str) -> int:
    found = _LEAD_IN.match(answer)
    return found.end() if found else 0


def _letters(options: list[str]) -> list[str]:
    return [chr(ord("a") + index) for index in range(len(options))]


def _same_int(gold: str, answer: str) -> tuple[bool, str]:
    wanted = whole_number(gold)
    if wanted is None:
        return _same_words(gold, answer)
    counted = _COUNTED.fullmatch(answer.strip("()[]{} "))
    value = whole_number(counted["number"]) if counted else None
    if counted is None or value is None or any(whole_number(word) is not None for word in counted["unit"].split()):
        return False, "answer is not one whole number"
    if {"or", "and", "to", "not"} & set(counted["unit"].split()):
        return False, "answer is not one whole number"
    return value == wanted, f"number {value}"


def _same_coordinate(gold: str, answer: str) -> tuple[bool, str]:
    wanted = parse_coordinate(gold)
    if wanted is None:
        return _same_words(gold, answer)
    given = parse_coordinate(answer)
    return given == wanted, f"position {given}" if given else "answer is not a position"


def _same_sequence(gold: str, answer: str) -> tuple[bool, str]:
    wanted = parse_items(gold)
    if not wanted:
        return _same_words(gold, answer)
    return any(items == wanted[0] for items in parse_items(answer)), "compared as a sequence"


def _same_set(gold: str, answer: str) -> tuple[bool, str]:
    wanted = parse_items(gold)
    if not wanted:
        return _same_words(gold, answer)
    elements = list(wanted[0])
    if len(elements) == 1 and re.fullmatch(r"[a-z]{2,8}", gold):
        elements = list(gold)
    return any(sorted(_texts(items)) == sorted(_texts(elements)) for items in parse_items(answer)), "compared as a set"


def _same_pairing(gold: str, answer: str) -> tuple[bool, str]:
    wanted = parse_pairs(gold)
    if wanted is None:
        return _same_words(gold, answer)
    given = parse_pairs(answer)
    if given is None:
        return False, "answer is not a list of pairs"
    return same_pairs(wanted, given), "compared as pairs"


def _same_relation(gold: str, answer: str) -> tuple[bool, str]:
    wanted, given = _RELATIONS.get(gold), _RELATIONS.get(answer)
    if wanted is None:
        return _same_words(gold, answer)
    return given == wanted, f"relation {given}" if given else "answer is not a relation"


def _same_equation(gold: str, answer: str) -> tuple[bool, str]:
    return "".join(gold.split()) == "".join(answer.split()), "compared as an equation"


def _same_words(gold: str, answer: str) -> tuple[bool, str]:
    words = _words(gold)
    return bool(words) and words == _words(answer), "compared as text"


def _words(text: str) -> list[Label]:
    found = [word for word in _WORD.findall(text) if word not in _ARTICLES]
    numbers = [ORDINAL_WORDS.get(word, whole_number(word)) for word in found]
    return [word if number is None else number for word, number in zip(found, numbers, strict=True)]


def _texts(items: Sequence[Label]) -> list[str]:
    return [str(item) for item in items]


_COMPARE: dict[AnswerKind, Callable[[str, str], tuple[bool, str]]] = {
    AnswerKind.INT: _same_int,
    AnswerKind.COORD: _same_coordinate,
    AnswerKind.SEQUENCE: _same_sequence,
    AnswerKind.SET: _same_set,
    AnswerKind.PAIRS: _same_pairing,
    AnswerKind.RELATION: _same_relation,
    AnswerKind.EQUATION: _same_equation,
    AnswerKind.TEXT: _same_words,
}
