"""Plain-text answers parsed into shapes that can be compared: coordinates, lists, pairs.

Each parser gives None for what it does not understand in full; it never guesses from a part.
"""

import re

from gym_core.judging.plain_text import ordinal_number, whole_number

Label = str | int
Pair = tuple[Label, Label]

_FILLER = frozenset(
    ["the", "a", "an", "in", "at", "of", "is", "and", "one", "cell", "position", "answer", "on", "it", "s"]
)
_ROW_WORDS = frozenset({"row", "r"})
_COLUMN_WORDS = frozenset({"column", "col", "c"})
_COORDINATE_TOKEN = re.compile(r"\d{1,6}(?:st|nd|rd|th)|[a-z]+(?:-[a-z]+)?|\d{1,9}|\S")
_IN_BRACKETS = re.compile(r"\(\s*(\w{1,9})\s*[,-]\s*(\w{1,9})\s*\)")
_JOINED_BRACKETS = re.compile(r"\)\s{0,4}(?:->|-|:|to)\s{0,4}\(")
_CONNECTOR = re.compile(r"\s*(?:->|-|:|=|\bto\b)\s*")
_ITEM_BREAK = re.compile(r"\s*(?:[,;\n]|\band\b)\s*")


def parse_coordinate(text: str) -> tuple[int, int] | None:
    """(row, column), in whatever words; two bare numbers are taken in the order they stand."""
    numbers: list[tuple[int, str | None]] = []  # value, and the axis it is said to be on
    axis: str | None = None  # a "row" that waits for its number
    for token in _COORDINATE_TOKEN.findall(_split_grid_names(text)):
        word_axis = "row" if token in _ROW_WORDS else "column" if token in _COLUMN_WORDS else None
        ordinal = ordinal_number(token)
        is_pronoun = token == "one" and axis is None  # "the first one"
        value = ordinal if ordinal is not None else None if is_pronoun else whole_number(token)
        if word_axis and numbers and numbers[-1][1] == "ordinal":
            numbers[-1] = (numbers[-1][0], word_axis)
        elif word_axis:
            axis = word_axis
        elif value is not None:
            numbers.append((value, axis or ("ordinal" if ordinal is not None else None)))
            axis = None
        elif token not in _FILLER and token not in "()[]{},;:=.-":
            return None
    return _row_and_column(numbers) if axis is None else None


def parse_items(text: str) -> list[list[Label]]:
    """Every reasonable split of a list into its elements, likeliest first."""
    bare = _without_brackets(text)
    splits = [
        _ITEM_BREAK.split(bare),
        re.split(r"\s*(?:->|>)\s*", bare),
        re.split(r"[,;\s]+", re.sub(r"\band\b", " ", bare)),
        re.split(r"\s*-\s*", bare),
        list(bare) if re.fullmatch(r"[a-z]{1,26}", bare) else [],
    ]
    labelled = [[_label(part) for part in parts if part.strip()] for parts in splits]
    return [items for items in labelled if items]


def parse_pairs(text: str) -> list[Pair] | None:
    """Pairs in order, as in "1-C, 2-D", "(1,7), (2,9)" or, between grid points, "(1,3)-(3,1)"."""
    ends_are_points = _JOINED_BRACKETS.search(text) is not None
    text = _IN_BRACKETS.sub(r"\1@\2" if ends_are_points else r" \1-\2 ", text)
    pairs: list[Pair] = []
    for item in _ITEM_BREAK.split(_without_brackets(text)):
        if not item:
            continue
        ends = [_label(end) for end in _CONNECTOR.split(item)]
        if len(ends) != 2 or "" in ends:
            return None
        pairs.append((ends[0], ends[1]))
    return pairs or None


def same_pairs(left: list[Pair], right: list[Pair]) -> bool:
    """Order of pairs never counts. Order inside a pair counts only where labels map onto themselves (1-2, 2-3, 3-1)."""
    if _is_permutation(left):
        return _sorted(left) == _sorted(right)
    return _sorted([_sorted_pair(pair) for pair in left]) == _sorted([_sorted_pair(pair) for pair in right])


def _is_permutation(pairs: list[Pair]) -> bool:
    return sorted(str(a) for a, _ in pairs) == sorted(str(b) for _, b in pairs)


def _sorted_pair(pair: Pair) -> Pair:
    first, second = sorted(pair, key=str)
    return first, second


def _sorted(pairs: list[Pair]) -> list[Pair]:
    return sorted(pairs, key=str)


def _row_and_column(numbers: list[tuple[int, str | None]]) -> tuple[int, int] | None:
    if len(numbers) != 2:
        return None
    (first, first_axis), (second, second_axis) = numbers
    if first_axis in ("row", "column") and first_axis == second_axis:
        return None
    if first_axis == "column" or second_axis == "row":
        return second, first
    return first, second


def _split_grid_names(text: str) -> str:
    """ "r2c3" to "r 2 c 3", "row4" to "row 4"."""
    return re.sub(r"\b(r|c|row|col|column)(\d{1,6})(?=\b|c|r)", r"\1 \2 ", text)


def _without_brackets(text: str) -> str:
    return re.sub(r"[()\[\]{}]", " ", text).strip(" ,;")


def _label(text: str) -> Label:
    bare = " ".join(text.replace("#", " ").split()).strip("\"'.")
    number = whole_number(bare)
    return bare if number is None else number
