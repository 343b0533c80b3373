"""Maze: one opening, one way, and a flood over the pixels that finds it."""

import dataclasses

import pytest

from benchmarks.visual_puzzles_opencode.puzzles import maze
from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS, AnswerKind
from tests.unit.puzzles.test_visual_tracking import make


def test_both_questions_are_asked_at_every_level() -> None:
    for level in LEVELS:
        kinds = {make("Maze", seed, level).answer_kind for seed in range(20)}
        assert kinds == {AnswerKind.INT, AnswerKind.LETTER}


def test_ways_grow_longer_with_the_level() -> None:
    lengths: dict[int, list[int]] = {level: [] for level in LEVELS}
    for level in LEVELS:
        for seed in range(20):
            puzzle = make("Maze", seed, level)
            if puzzle.answer_kind is AnswerKind.INT:
                lengths[level].append(int(puzzle.answer))
    assert max(lengths[1]) < max(lengths[2]) < max(lengths[3])
    assert all(12 <= length <= 60 for level in LEVELS for length in lengths[level])


def test_every_maze_is_a_forest_with_one_tree_for_each_opening() -> None:
    for level in LEVELS:
        for seed in range(10):
            structure = make("Maze", seed, level).structure
            passages = sum(row.count("1") for row in structure["right"] + structure["down"])
            assert passages == len(structure["right"]) ** 2 - len(structure["openings"])


def test_a_wall_torn_down_between_two_trees_is_refused() -> None:
    puzzle = next(make("Maze", seed, 1) for seed in range(20) if make("Maze", seed, 1).options)
    size = len(puzzle.structure["right"])
    everything_open = puzzle.structure | {
        "right": ["1" * (size - 1) + "0"] * size,
        "down": ["1" * size] * (size - 1) + ["0" * size],
    }
    with pytest.raises(ValueError, match="4 openings reach the centre"):
        maze.solve(dataclasses.replace(puzzle, structure=everything_open))
