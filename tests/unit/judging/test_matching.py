"""The typed matcher: every form of gold that BabyVision uses, what must match and what must not."""

import json
import time
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gym_core.judging.matching import AnswerKind, infer_kind, match

PAIRS = json.loads((Path(__file__).parents[2] / "data" / "answer_pairs.json").read_text())


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair['gold']}|{pair['prediction']}")
def test_public_answers_are_judged_as_checked_by_hand(pair: dict[str, str | bool]) -> None:
    assert match(str(pair["gold"]), str(pair["prediction"])).equal is pair["should_be"]


@pytest.mark.parametrize(
    ("gold", "kind"),
    [
        ("F", "letter"),
        ("59", "int"),
        ("(4,7)", "coord"),
        ("10,5", "coord"),
        ("6-7", "coord"),
        ("Row 4 Column 17", "coord"),
        ("Second column, first one", "coord"),
        ("(2-1)-(3-3)", "pairs"),
        ("2,N,Z,S", "seq"),
        ("17,16,12,12,11,11,9,5,4,3", "seq"),
        ("Still,waters,run,deep", "seq"),
        ("2,3,6,7,10", "set"),
        ("3 and 11", "set"),
        ("CD", "set"),
        ("B,C", "set"),
        ("1-4,3-12,5-10", "pairs"),
        ("1-Skull #3, 2-Skull #2", "pairs"),
        ("A - Blue, B - Yellow", "pairs"),
        (">", "relation"),
        ("8−5=3", "equation"),
        ("AN APPLE", "text"),
        ("The first one in the first row, the third one in the second row", "text"),
    ],
)
def test_the_kind_of_a_gold_is_told_from_its_form(gold: str, kind: str) -> None:
    assert infer_kind(gold) == AnswerKind(kind)
    assert match(gold, gold).equal


def test_a_choice_question_is_answered_by_letter() -> None:
    assert infer_kind("B", ["1", "2"]) is AnswerKind.LETTER


@pytest.mark.parametrize(
    ("kind", "gold", "answer"),
    [
        ("letter", "B", "b"),
        ("letter", "B", r"\text{(B)}"),
        ("letter", "B", "Option B."),
        ("letter", "B", "The answer is (B)"),
        ("letter", "B", "**B**"),
        ("int", "12", "12.0"),
        ("int", "12", "twelve"),
        ("int", "12", "12 triangles"),
        ("int", "12", "There are 12 dots."),
        ("int", "1234", "1,234"),
        ("int", "12", "$12$"),
        ("int", "12", "(12)"),
        ("int", "-3", "−3"),
        ("coord", "(4,7)", "4, 7"),
        ("coord", "(4,7)", "[4; 7]"),
        ("coord", "(4,7)", "Row 4, Column 7"),
        ("coord", "(4,7)", "column 7, row 4"),
        ("coord", "(4,7)", r"(4,\,7)"),
        ("coord", "(4,7)", "fourth row, seventh column"),
        ("coord", "(4,7)", "4th row 7th column"),
        ("coord", "(4,7)", "(R4, C7)"),
        ("coord", "(4,7)", "r4c7"),
        ("coord", "Row 1 Column 2", "row one, column two"),
        ("coord", "Second column, first one", "(1,2)"),
        ("coord", "6-7", "(6,7)"),
        ("seq", "7, 4, 5, 9, 2", "7,4,5,9,2"),
        ("seq", "7, 4, 5, 9, 2", "7 4 5 9 2"),
        ("seq", "7, 4, 5, 9, 2", "7-4-5-9-2"),
        ("seq", "7, 4, 5, 9, 2", r"7 \rightarrow 4 \rightarrow 5 \rightarrow 9 \rightarrow 2"),
        ("seq", "2,N,Z,S", "(2, n, z, s)"),
        ("set", "2,3,6", "{6, 3, 2}"),
        ("set", "3 and 11", "11, 3"),
        ("set", "CD", "D and C"),
        ("set", "CD", "DC"),
        ("set", "B,C", r"\{C, B\}"),
        ("pairs", "1-4,3-12", "12-3; 4-1"),
        ("pairs", "1-4,3-12", "(1,4), (3,12)"),
        ("pairs", "1-C, 2-D", r"1 \to C, 2 \to D"),
        ("pairs", "1-C, 2-D", "2: d and 1: c"),
        ("pairs", "1-Skull #3, 2-Skull #2", "2 - skull 2, 1 - skull 3"),
        ("pairs", "(1,3)-(3,1)", "(3, 1) to (1, 3)"),
        ("pairs", "(2-1)-(3-3)", "(3,3)-(2,1)"),
        ("pairs", "1-2,2-3,3-1", "3-1, 1-2, 2-3"),
        ("relation", "<", r"\lt"),
        ("relation", ">", "greater than"),
        ("equation", "8−5=3", "8 - 5 = 3"),
        ("text", "AN APPLE", "an apple."),
        ("text", "AN APPLE", "apple"),
        ("text", "The first one", "first one"),
    ],
)
def test_the_same_answer_in_other_words_matches(kind: str, gold: str, answer: str) -> None:
    assert match(gold, answer, kind).equal, match(gold, answer, kind)
    assert match(gold, answer, kind).kind == kind


@pytest.mark.parametrize(
    ("kind", "gold", "answer"),
    [
        ("letter", "B", "A or B"),
        ("letter", "B", "(B), (C)"),
        ("letter", "B", "Both"),
        ("int", "12", "12 or 13"),
        ("int", "12", "12 to fourteen"),
        ("int", "12", "12.5"),
        ("int", "12", "not 12"),
        ("int", "12", "-12"),
        ("int", "12", "1 2"),
        ("coord", "(4,7)", "(7,4)"),
        ("coord", "(4,7)", "4"),
        ("coord", "(4,7)", "(4,7,1)"),
        ("coord", "(4,7)", "row 7, column 4"),
        ("coord", "(4,7)", "fourth row from the bottom, seventh column"),
        ("coord", "(4,7)", "row 4, row 7"),
        ("coord", "(4,7)", "(4,7) or (4,8)"),
        ("seq", "7,4,5", "4,7,5"),
        ("seq", "7,4,5", "7,4"),
        ("set", "2,3,6", "2,3"),
        ("set", "2,3,6", "2,3,6,7"),
        ("set", "2,3,6", "2,2,3,6"),
        ("pairs", "1-4,3-12", "1-4"),
        ("pairs", "1-4,3-12", "1-12, 3-4"),
        ("pairs", "1-C,2-D", "1-D,2-C"),
        ("pairs", "1-C,2-D", "C, D"),
        ("pairs", "1-2,2-3,3-1", "2-1, 3-2, 1-3"),
        ("relation", "<", "<="),
        ("relation", "=", "not equal"),
        ("equation", "8-5=3", "8+5=3"),
        ("text", "AN APPLE", "AN APPLE PIE"),
        ("text", "AN APPLE", ""),
    ],
)
def test_a_near_miss_does_not_match(kind: str, gold: str, answer: str) -> None:
    assert not match(gold, answer, kind).equal, match(gold, answer, kind)


def test_a_choice_may_be_answered_by_its_text() -> None:
    options = ["Left", "Right", "Neither of them", "Right one"]
    for answer in ("Right", "(B) Right", "B. right", "Option B: Right"):
        assert match("B", answer, options=options).equal, answer
    for answer in ("Left", "(B) Left", "Right or left", "(A) Right", "B and A"):
        assert not match("B", answer, options=options).equal, answer


def test_a_letter_goes_before_an_options_text() -> None:
    assert match("A", "B", options=["B", "A"]).equal is False
    assert match("C", "3", options=["1", "2", "3"]).equal


def test_two_options_of_one_text_decide_nothing() -> None:
    assert not match("A", "Left", options=["Left", "left"]).equal


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="colour"):
        match("red", "red", "colour")


def test_an_empty_gold_matches_nothing() -> None:
    assert not match("", "").equal


numbers = st.integers(0, 999)
distinct = st.lists(st.integers(0, 99), min_size=2, max_size=5, unique=True)


@given(numbers, numbers)
def test_whole_numbers_match_by_value(gold: int, answer: int) -> None:
    assert match(str(gold), f" {answer}. ", "int").equal is (gold == answer)


@given(numbers, numbers)
def test_positions_match_in_every_writing_and_never_swapped(row: int, column: int) -> None:
    gold = f"({row},{column})"
    for answer in (f"{row}, {column}", f"Row {row}, Column {column}", f"column {column} row {row}", f"r{row}c{column}"):
        assert match(gold, answer, "coord").equal, answer
    assume(row != column)
    assert not match(gold, f"({column},{row})", "coord").equal


@given(distinct)
def test_order_counts_in_a_sequence_and_not_in_a_set(elements: list[int]) -> None:
    gold = ",".join(map(str, elements))
    for shuffled in permutations(elements):
        answer = ", ".join(map(str, shuffled))
        assert match(gold, answer, "set").equal
        assert match(gold, answer, "seq").equal is (list(shuffled) == elements)


@given(distinct, st.data())
def test_pairs_match_in_any_order_and_only_with_the_right_partner(lefts: list[int], data: st.DataObject) -> None:
    rights = "ABCDE"[: len(lefts)]
    pairs = list(zip(lefts, rights, strict=True))
    gold = ",".join(f"{left}-{right}" for left, right in pairs)
    shuffled = data.draw(st.permutations(pairs))
    assert match(gold, "; ".join(f"{right} - {left}" for left, right in shuffled), "pairs").equal
    turned = [*rights[1:], rights[0]]
    assert not match(gold, ",".join(f"{a}-{b}" for a, b in zip(lefts, turned, strict=True)), "pairs").equal


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from([None, *AnswerKind]))
def test_any_two_texts_can_be_compared(gold: str, answer: str, kind: str | None) -> None:
    match(gold, answer, kind)
    match(gold, answer, kind, options=["1", answer])


@pytest.mark.parametrize("unit", ["(", "-", "1-", "(1,", " ", "the ", r"\text{", "\\", "ﷺ", "1,", "r1c", "a>", "one-"])
def test_hostile_answers_cost_little(unit: str) -> None:
    answer = unit * (200_000 // len(unit))
    started = time.process_time()
    for kind in (None, *AnswerKind):
        match("1-2,3-4", answer, kind)
        match(answer, "1-2,3-4", kind)
    assert time.process_time() - started < 5
