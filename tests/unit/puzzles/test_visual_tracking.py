"""Gates of the four visual-tracking subtypes beyond those that every subtype keeps (`test_puzzles`)."""

import dataclasses
import importlib
import json
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS, Puzzle, puzzle_rng
from benchmarks.visual_puzzles_opencode.puzzles.registry import SUBTYPES

TRACKING = ("Maze", "Connect the lines", "Lines Observation", "Metro map")

every_subtype = pytest.mark.parametrize("subtype", TRACKING)


def make(subtype: str, seed: int, level: int) -> Puzzle:
    return SUBTYPES[subtype].generate(puzzle_rng(subtype, seed, level), level)


@pytest.mark.slow
@every_subtype
def test_the_second_solver_needs_neither_picture_nor_gold(subtype: str) -> None:
    """Only a structure that survived a file."""
    for level in LEVELS:
        for seed in range(5):
            puzzle = make(subtype, seed, level)
            structure = json.loads(json.dumps(puzzle.structure))
            bare = dataclasses.replace(puzzle, image=Image.new("RGB", (1, 1)), answer="", structure=structure)
            assert SUBTYPES[subtype].solve(bare) == puzzle.answer


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@every_subtype
def test_no_constant_answer_pays_at_any_level(subtype: str, level: int) -> None:
    answers = Counter(make(subtype, seed, level).answer for seed in range(60))
    assert answers.most_common(1)[0][1] < 0.4 * 60


@every_subtype
def test_a_solver_can_show_what_it_found(subtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture that differs from the puzzle, and the same answer as without one."""
    solver = importlib.import_module(f"model_servers.scripted_model.solvers.{subtype.lower().replace(' ', '_')}")
    puzzle = make(subtype, 0, 1)
    puzzle.image.save(tmp_path / "image.png")
    silent = solver.solve(str(tmp_path / "image.png"), puzzle.question)
    monkeypatch.setattr(solver, "PICTURE", str(tmp_path / "finding.png"))
    assert solver.solve(str(tmp_path / "image.png"), puzzle.question) == silent
    with Image.open(tmp_path / "finding.png") as finding:
        assert finding.convert("RGB").resize(puzzle.image.size).tobytes() != puzzle.image.tobytes()
