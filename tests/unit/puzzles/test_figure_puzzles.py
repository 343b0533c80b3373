"""What the puzzles with numbered figures and options promise: all differ, visibly so, and one answer is right."""

import dataclasses
import importlib
import json
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles import (
    find_the_same,
    find_the_shadow,
    overlay_patterns,
    pattern_and_color_completion,
    pattern_completion_2d,
    recognize_numbers_and_letters,
    reconstruction,
    rotation_patterns,
)
from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS, Puzzle, Subtype, puzzle_rng

MODULES: tuple[Subtype, ...] = (
    find_the_same,
    find_the_shadow,
    overlay_patterns,
    pattern_and_color_completion,
    pattern_completion_2d,
    recognize_numbers_and_letters,
    reconstruction,
    rotation_patterns,
)

every_level = pytest.mark.parametrize("level", LEVELS)
every_subtype = pytest.mark.parametrize("subtype", MODULES, ids=[module.SUBTYPE for module in MODULES])


def some(subtype: Subtype, level: int) -> list[Puzzle]:
    return [subtype.generate(puzzle_rng(subtype.SUBTYPE, seed, level), level) for seed in range(3)]


@pytest.mark.slow
@every_subtype
def test_the_second_solver_needs_neither_picture_nor_gold(subtype: Subtype) -> None:
    """Only a structure that survived a file."""
    for puzzle in (some(subtype, level)[0] for level in LEVELS):
        structure = json.loads(json.dumps(puzzle.structure))
        bare = dataclasses.replace(puzzle, image=Image.new("RGB", (1, 1)), answer="", structure=structure)
        assert subtype.solve(bare) == puzzle.answer


@every_level
@pytest.mark.parametrize(
    "subtype",
    [overlay_patterns, pattern_and_color_completion, pattern_completion_2d, rotation_patterns],
    ids=lambda module: module.SUBTYPE,
)
def test_all_options_differ(subtype: Subtype, level: int) -> None:
    for puzzle in some(subtype, level):
        candidates = [json.dumps(candidate) for candidate in puzzle.structure["candidates"]]
        assert len(set(candidates)) == len(candidates) == len(puzzle.options)


@every_level
def test_the_examples_of_an_overlay_show_what_becomes_of_every_pair_of_cells(level: int) -> None:
    for puzzle in some(overlay_patterns, level):
        for first, second, _ in puzzle.structure["examples"]:
            pairs = Counter(zip("".join(first), "".join(second), strict=True))
            assert len(pairs) == 4
            assert min(pairs.values()) >= 2


def test_a_figure_turns_evenly_all_the_way_round_and_mirror_images_are_told_apart() -> None:
    [puzzle, *_] = some(rotation_patterns, 3)
    shown = puzzle.structure["shown"]
    crooked = {**puzzle.structure, "shown": [shown[0], shown[1], shown[0], shown[1]]}
    with pytest.raises(ValueError, match="does not turn evenly"):
        rotation_patterns.solve(dataclasses.replace(puzzle, structure=crooked))


@every_level
def test_figures_occur_once_or_in_the_pairs_that_the_answer_names(level: int) -> None:
    for puzzle in some(find_the_same, level):
        counts = Counter("/".join(figure) for figure in puzzle.structure["figures"])
        assert set(counts.values()) == {1, 2}
        assert list(counts.values()).count(2) == len(puzzle.answer.split(","))


@every_level
def test_shadows_differ_in_more_than_a_few_samples(level: int) -> None:
    for puzzle in some(find_the_shadow, level):
        for one, other in combinations(puzzle.structure["shadows"], 2):
            assert sum(a != b for a, b in zip("".join(one), "".join(other), strict=True)) >= 8


@every_level
def test_the_size_of_a_part_does_not_tell_whether_it_is_used(level: int) -> None:
    for puzzle in some(reconstruction, level):
        parts = ["/".join(part) for part in puzzle.structure["parts"]]
        assert len(set(parts)) == len(parts)
        [cells] = {part.count("#") for part in parts}
        used = len(puzzle.answer.split(","))
        assert used < len(parts)
        assert "".join(puzzle.structure["target"]).count("#") == used * cells


def test_lines_that_no_characters_make_have_no_reading() -> None:
    [puzzle, *_] = some(recognize_numbers_and_letters, 1)
    fewer = {**puzzle.structure, "edges": puzzle.structure["edges"][1:]}
    with pytest.raises(ValueError, match="not enough values"):
        recognize_numbers_and_letters.solve(dataclasses.replace(puzzle, structure=fewer))


@every_subtype
def test_a_solver_that_shows_what_it_found_answers_the_same(
    subtype: Subtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = subtype.SUBTYPE.lower().replace(" ", "_")
    solver = importlib.import_module(f"model_servers.scripted_model.solvers.{name}")
    if not hasattr(solver, "PICTURE"):
        return
    puzzle = some(subtype, 1)[0]
    puzzle.image.save(tmp_path / "image.png")
    monkeypatch.setattr(solver, "PICTURE", str(tmp_path / "finding.png"))
    assert solver.solve(str(tmp_path / "image.png"), puzzle.question) == puzzle.answer
    with Image.open(tmp_path / "finding.png") as finding:
        assert finding.convert("RGB").resize(puzzle.image.size).tobytes() != puzzle.image.tobytes()
