"""Connect the lines: every number has its letter, crossings can be told apart, and the pixels suffice."""

import dataclasses

import pytest

from benchmarks.visual_puzzles_opencode.puzzles import connect_the_lines
from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS, AnswerKind
from benchmarks.visual_puzzles_opencode.puzzles.drawing import INK, PAPER
from tests.unit.puzzles.test_visual_tracking import make


def test_the_gold_is_one_pair_for_every_number_and_no_letter_twice() -> None:
    for level, lines in zip(LEVELS, (4, 6, 7), strict=True):
        for seed in range(5):
            puzzle = make("Connect the lines", seed, level)
            pairs = [pair.split("-") for pair in puzzle.answer.split(",")]
            assert puzzle.answer_kind is AnswerKind.PAIRS
            assert [number for number, _ in pairs] == [str(number) for number in range(1, lines + 1)]
            assert sorted(letter for _, letter in pairs) == [chr(ord("A") + place) for place in range(lines)]


def test_colours_help_less_with_every_level() -> None:
    counts = []
    for level in LEVELS:
        colors = make("Connect the lines", 0, level).image.getcolors()
        assert colors is not None
        counts.append(len({color for _, color in colors} - {INK, PAPER}))
    assert counts == [4, 3, 0]


def test_crossings_are_far_enough_apart_to_see_each_alone() -> None:
    for level in LEVELS:
        for seed in range(5):
            boxes = make("Connect the lines", seed, level).roi
            assert len(boxes) >= 4
            for index, (left, top, *_) in enumerate(boxes):
                for other_left, other_top, *_ in boxes[index + 1 :]:
                    assert (left - other_left) ** 2 + (top - other_top) ** 2 >= 34**2


def test_a_line_that_forks_is_refused() -> None:
    puzzle = make("Connect the lines", 0, 1)
    pieces = puzzle.structure["pieces"]
    forked = puzzle.structure | {"pieces": [*pieces, [*pieces[0][:2], *pieces[1][2:]]]}
    with pytest.raises(ValueError, match="forks"):
        connect_the_lines.solve(dataclasses.replace(puzzle, structure=forked))
