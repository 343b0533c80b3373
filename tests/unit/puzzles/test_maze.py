"""Maze: one opening, one way, and a flood over the pixels that finds it."""

import dataclasses
from pathlib import Path

import pytest

from benchmarks.visual_puzzles_opencode.puzzles import maze
from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS, AnswerKind
from model_servers.scripted_model.solvers import maze as pixel_solver
from tests.unit.puzzles.tracking_gates import (
    BLIND_LIMIT,
    blind_share,
    check_determinism,
    check_frame,
    check_gold,
    make,
    pixel_shares,
)


def test_the_flood_agrees_with_the_parents_kept_while_growing() -> None:
    check_gold(maze, seeds=15)


def test_pictures_hold_their_evidence() -> None:
    check_frame(maze, seeds=8)


def test_a_seed_is_the_same_picture_in_every_process() -> None:
    check_determinism(maze)


@pytest.mark.slow
def test_no_constant_answer_pays() -> None:
    assert blind_share(maze, seeds=60) < BLIND_LIMIT


def test_both_questions_are_asked_at_every_level() -> None:
    for level in LEVELS:
        kinds = {make(maze, seed, level).answer_kind for seed in range(20)}
        assert kinds == {AnswerKind.INT, AnswerKind.LETTER}


def test_ways_grow_longer_with_the_level() -> None:
    lengths: dict[int, list[int]] = {level: [] for level in LEVELS}
    for level in LEVELS:
        for seed in range(20):
            puzzle = make(maze, seed, level)
            if puzzle.answer_kind is AnswerKind.INT:
                lengths[level].append(int(puzzle.answer))
    assert max(lengths[1]) < max(lengths[2]) < max(lengths[3])
    assert all(12 <= length <= 60 for level in LEVELS for length in lengths[level])


def test_every_maze_is_a_forest_with_one_tree_for_each_opening() -> None:
    for level in LEVELS:
        for seed in range(10):
            structure = make(maze, seed, level).structure
            passages = sum(row.count("1") for row in structure["right"] + structure["down"])
            assert passages == len(structure["right"]) ** 2 - len(structure["openings"])


def test_a_wall_torn_down_between_two_trees_is_refused() -> None:
    puzzle = next(make(maze, seed, 1) for seed in range(20) if make(maze, seed, 1).options)
    size = len(puzzle.structure["right"])
    everything_open = puzzle.structure | {
        "right": ["1" * (size - 1) + "0"] * size,
        "down": ["1" * size] * (size - 1) + ["0" * size],
    }
    with pytest.raises(ValueError, match="4 openings reach the centre"):
        maze.solve(dataclasses.replace(puzzle, structure=everything_open))


@pytest.mark.slow
def test_the_pixel_solver_beats_blind_guessing(tmp_path: Path) -> None:
    assert min(pixel_shares(maze, pixel_solver, tmp_path, seeds=15).values()) > BLIND_LIMIT
