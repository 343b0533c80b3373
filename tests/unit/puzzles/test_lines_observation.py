"""Lines Observation: a dot is on one line or on none, crossings are open, and the pixels suffice."""

import dataclasses
from itertools import combinations, pairwise

import pytest

from benchmarks.visual_puzzles_opencode.puzzles import lines_observation
from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS, AnswerKind
from benchmarks.visual_puzzles_opencode.puzzles.drawing import INK, PAPER
from tests.unit.puzzles.test_visual_tracking import make


def test_the_question_states_the_order_of_the_numbers() -> None:
    for seed in range(12):
        puzzle = make("Lines Observation", seed, 2)
        numbers = [int(number) for number in puzzle.answer.split(",")]
        assert puzzle.answer_kind is AnswerKind.SEQUENCE
        assert len(numbers) == 5
        if puzzle.structure["order"] == "descending":
            assert "from the largest number to the smallest" in puzzle.question
            assert numbers == sorted(numbers, reverse=True)
        else:
            assert "in alphabetical order" in puzzle.question


def test_lines_share_no_lattice_point_and_no_direction_turns_back() -> None:
    for level in LEVELS:
        for seed in range(8):
            lines = list(make("Lines Observation", seed, level).structure["lines"].values())
            for one, other in combinations(lines, 2):
                assert not {tuple(point) for point in one} & {tuple(point) for point in other}
            for line in lines:
                steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(line)]
                assert all(a[0] * b[0] + a[1] * b[1] >= 0 for a, b in pairwise(steps))


def test_dots_off_a_line_stay_clear_of_its_ink() -> None:
    """At least four pixels of paper between a dot's disc and any line that does not run through its middle."""
    for seed in range(8):
        structure = make("Lines Observation", seed, 3).structure
        stretches = [ends for line in structure["lines"].values() for ends in pairwise(line)]
        for x, y in structure["dots"]:
            for (x0, y0), (x1, y1) in stretches:
                run, rise = x1 - x0, y1 - y0
                along = run * (x - x0) + rise * (y - y0)
                off = (run * (y - y0) - rise * (x - x0)) ** 2 / (run**2 + rise**2)
                if off and 0 <= along <= run**2 + rise**2:
                    assert off**0.5 - lines_observation.DOT - lines_observation.STROKE // 2 >= 4


def test_the_last_level_has_one_colour_for_all_lines() -> None:
    counts = []
    for level in LEVELS:
        colors = make("Lines Observation", 0, level).image.getcolors()
        assert colors is not None
        counts.append(len({color for _, color in colors} - {INK, PAPER}))
    assert counts == [3, 5, 1]


def test_a_dot_on_two_lines_is_refused() -> None:
    puzzle = make("Lines Observation", 0, 1)
    lines = puzzle.structure["lines"]
    shared = puzzle.structure | {"lines": lines | {"A": [*lines["A"], *lines["B"]]}}
    with pytest.raises(ValueError, match="lies on A and B"):
        lines_observation.solve(dataclasses.replace(puzzle, structure=shared))
