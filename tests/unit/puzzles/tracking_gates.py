"""What every visual-tracking puzzle must pass: gold twice, same bytes everywhere, no constant that pays."""

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS, Puzzle, puzzle_rng

BLIND_LIMIT = 0.4
"""No constant answer may score this much; a solver that sees must score more."""

FINGERPRINTS = """
import importlib, json, sys
from tests.unit.puzzles.tracking_gates import fingerprints
json.dump(fingerprints(importlib.import_module(sys.argv[1])), sys.stdout)
"""


def make(module: ModuleType, seed: int, level: int) -> Puzzle:
    puzzle: Puzzle = module.generate(puzzle_rng(module.SUBTYPE, seed, level), level)
    return puzzle


def check_gold(module: ModuleType, seeds: int) -> None:
    """The second solver agrees, from a structure that survives JSON and does not hold the answer."""
    for level in LEVELS:
        for seed in range(seeds):
            puzzle = make(module, seed, level)
            carried = Puzzle(
                image=puzzle.image,
                question=puzzle.question,
                answer="",
                answer_kind=puzzle.answer_kind,
                structure=json.loads(json.dumps(puzzle.structure)),
            )
            assert module.solve(carried) == puzzle.answer, (level, seed)


def check_frame(module: ModuleType, seeds: int) -> None:
    """The picture is RGB of a sensible size, the evidence lies in it, the question holds no gold."""
    for level in LEVELS:
        for seed in range(seeds):
            puzzle = make(module, seed, level)
            width, height = puzzle.image.size
            assert puzzle.image.mode == "RGB"
            assert 200 <= min(width, height) <= max(width, height) <= 1400
            assert puzzle.roi
            for left, top, right, bottom in puzzle.roi:
                assert 0 <= left < right <= width, (level, seed)
                assert 0 <= top < bottom <= height, (level, seed)
            if puzzle.options:
                assert puzzle.answer in puzzle.options


def fingerprints(module: ModuleType) -> list[list[str]]:
    puzzles = [make(module, seed, level) for level in LEVELS for seed in range(3)]
    return [[hashlib.sha256(puzzle.image.tobytes()).hexdigest(), puzzle.question, puzzle.answer] for puzzle in puzzles]


def check_determinism(module: ModuleType) -> None:
    here = fingerprints(module)
    assert fingerprints(module) == here
    command = [sys.executable, "-c", FINGERPRINTS, module.__name__]
    elsewhere = subprocess.run(command, capture_output=True, check=True, timeout=120, cwd=Path(__file__).parents[3])
    assert json.loads(elsewhere.stdout) == here


def blind_share(module: ModuleType, seeds: int) -> float:
    """What the commonest answer of a level would score, in the level where it scores best."""
    shares = []
    for level in LEVELS:
        answers = Counter(make(module, seed, level).answer for seed in range(seeds))
        shares.append(answers.most_common(1)[0][1] / seeds)
    return max(shares)


def pixel_shares(module: ModuleType, solver: ModuleType, folder: Path, seeds: int) -> dict[int, float]:
    """Right answers of the pixel solver per level; it gets the file and the question and nothing else."""
    shares = {}
    for level in LEVELS:
        right = 0
        for seed in range(seeds):
            puzzle = make(module, seed, level)
            assert re.search(solver.QUESTION, puzzle.question), puzzle.question
            path = folder / "puzzle.png"
            puzzle.image.save(path)
            try:
                right += solver.solve(str(path), puzzle.question) == puzzle.answer
            except (ValueError, IndexError, KeyError):
                continue  # a picture it cannot read is a wrong answer
        shares[level] = right / seeds
    return shares
