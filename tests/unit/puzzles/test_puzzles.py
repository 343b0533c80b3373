"""Quality gates that every subtype keeps: few seeds in the fast suite, what needs a batch of sixty in the slow one."""

import functools
import hashlib
import io
import re
import subprocess
import sys
from collections import Counter

import pytest
from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS, AnswerKind, Puzzle, puzzle_rng
from benchmarks.visual_puzzles_opencode.puzzles.registry import SUBTYPES

FEW = range(4)
MANY = range(20)
BABYVISION_CATEGORIES = {
    "Fine-grained Discrimination",
    "Visual Tracking",
    "Spatial Perception",
    "Visual Pattern Recognition",
}
FORMS = {
    AnswerKind.INT: r"\d+",
    AnswerKind.LETTER: r"[A-H]",
    AnswerKind.COORD: r"\(\d+,\d+\)",
    AnswerKind.SEQUENCE: r"\w+(,\w+)*",
    AnswerKind.SET: r"\w+(,\w+)*",
    AnswerKind.PAIRS: r"\w+-\w+(,\w+-\w+)*",
}
FIRST_DRAWN = {
    "Find the different": "be321e0724070ca0",
    "Count Same Patterns": "b1922fc0b1cc7f15",
    "Count Clusters": "7508768ceb7ec7f5",
    "Maze": "b3bb3b5901249e81",
    "Connect the lines": "420c118a9fb2c42f",
    "Lines Observation": "f3bc3420fba9acb8",
    "Metro map": "8e7f53b08081dd4c",
    "Mirroring Patterns": "2c9f90d2f80ecc6b",
}
"""Fingerprints: a change here gives every user other puzzles under the same ids and needs another GENERATOR_VERSION."""
STRATEGY = re.compile(r"\b(hint|crop|zoom|python|code|pixel|trace|first look|scan|step by step)\b", re.IGNORECASE)

every_subtype = pytest.mark.parametrize("subtype", SUBTYPES)


@functools.cache
def batch(subtype: str, seeds: range = FEW) -> dict[tuple[int, int], Puzzle]:
    """Puzzles by (seed, level)."""
    return {(seed, level): make(subtype, seed, level) for seed in seeds for level in LEVELS}


def make(subtype: str, seed: int, level: int) -> Puzzle:
    return SUBTYPES[subtype].generate(puzzle_rng(subtype, seed, level), level)


def fingerprint(puzzle: Puzzle) -> str:
    content = puzzle.image.tobytes() + f"{puzzle.question}|{puzzle.answer}|{puzzle.options}".encode()
    return hashlib.sha256(content).hexdigest()


@every_subtype
@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"])
def test_a_second_solver_finds_the_same_gold(subtype: str, seeds: range) -> None:
    puzzles = batch(subtype, seeds)
    wrong = [key for key, puzzle in puzzles.items() if SUBTYPES[subtype].solve(puzzle) != puzzle.answer]
    assert not wrong


@every_subtype
def test_the_gold_has_the_form_of_its_kind(subtype: str) -> None:
    for puzzle in batch(subtype).values():
        assert re.fullmatch(FORMS[puzzle.answer_kind], puzzle.answer)


@every_subtype
def test_the_answer_to_a_choice_is_the_letter_of_an_option(subtype: str) -> None:
    for puzzle in batch(subtype).values():
        assert len(set(puzzle.options)) == len(puzzle.options)
        if puzzle.options:
            assert puzzle.answer_kind is AnswerKind.LETTER
            assert ord(puzzle.answer) - ord("A") < len(puzzle.options)


@pytest.mark.slow
@every_subtype
def test_a_blind_majority_answer_earns_less_than_two_fifths(subtype: str) -> None:
    answers = Counter(puzzle.answer for puzzle in batch(subtype, MANY).values())
    [(_, most)] = answers.most_common(1)
    assert most < 0.4 * answers.total()


@pytest.mark.slow
@every_subtype
def test_right_options_are_spread_over_the_positions(subtype: str) -> None:
    for level in LEVELS:
        puzzles = [batch(subtype, MANY)[seed, level] for seed in MANY]
        if puzzles[0].options:
            positions = Counter(puzzle.answer for puzzle in puzzles)
            assert len(positions) >= len(puzzles[0].options) - 1
            assert max(positions.values()) <= len(puzzles) // 2


@every_subtype
def test_the_question_states_the_format_and_gives_no_strategy(subtype: str) -> None:
    for puzzle in batch(subtype).values():
        assert re.search(r"\b[Aa]nswer (with|as|by)\b", puzzle.question)
        assert not STRATEGY.search(puzzle.question)
        assert len(puzzle.answer) < 3 or puzzle.answer not in puzzle.question
        if puzzle.answer_kind is AnswerKind.COORD:
            assert "counted from 1" in puzzle.question


@every_subtype
def test_the_same_seed_draws_the_same_puzzle_and_another_seed_another(subtype: str) -> None:
    prints = {key: fingerprint(puzzle) for key, puzzle in batch(subtype).items()}
    assert fingerprint(make(subtype, 0, 1)) == prints[0, 1]
    assert len(set(prints.values())) == len(prints)


@pytest.mark.slow
def test_another_process_with_another_hash_seed_draws_the_same_puzzles() -> None:
    program = (
        "from tests.unit.puzzles.test_puzzles import SUBTYPES, fingerprint, make\n"
        "print([fingerprint(make(name, 3, 2)) for name in SUBTYPES])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "77"}, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == str([fingerprint(make(name, 3, 2)) for name in SUBTYPES])


@every_subtype
def test_the_picture_file_carries_nothing_but_pixels(subtype: str) -> None:
    for level in LEVELS:
        image = batch(subtype)[0, level].image
        png = io.BytesIO()
        image.save(png, "PNG")
        with Image.open(png) as reopened:
            assert reopened.info == {}
            assert not reopened.getexif()
            assert reopened.tobytes() == image.tobytes()


@every_subtype
def test_pictures_are_of_a_size_that_a_model_sees_whole(subtype: str) -> None:
    for puzzle in batch(subtype).values():
        assert puzzle.image.mode == "RGB"
        assert 300 <= max(puzzle.image.size) <= 1600


@every_subtype
def test_the_deciding_evidence_lies_inside_the_picture(subtype: str) -> None:
    for puzzle in batch(subtype).values():
        assert puzzle.roi
        for left, top, right, bottom in puzzle.roi:
            assert 0 <= left < right <= puzzle.image.width
            assert 0 <= top < bottom <= puzzle.image.height


@every_subtype
def test_subtypes_keep_babyvisions_words(subtype: str) -> None:
    assert SUBTYPES[subtype].CATEGORY in BABYVISION_CATEGORIES


@pytest.mark.parametrize("subtype", FIRST_DRAWN)
def test_the_subtypes_of_the_demo_draw_what_they_always_drew(subtype: str) -> None:
    prints = "".join(fingerprint(make(subtype, seed, level)) for seed in (0, 1) for level in LEVELS)
    assert hashlib.sha256(prints.encode()).hexdigest()[:16] == FIRST_DRAWN[subtype]
