"""What the figure puzzles promise of their near-copies: different, visibly so, and never another right answer."""

from collections import Counter
from itertools import combinations

import pytest

from benchmarks.visual_puzzles_opencode.puzzles import (
    count_clusters,
    count_same_patterns,
    find_the_different,
    mirroring_patterns,
)
from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS, Puzzle, Subtype, puzzle_rng
from benchmarks.visual_puzzles_opencode.puzzles.drawing import PAPER
from benchmarks.visual_puzzles_opencode.puzzles.glyphs import ICONS, mirrored, upside_down

every_level = pytest.mark.parametrize("level", LEVELS)


def some(subtype: Subtype, level: int) -> list[Puzzle]:
    return [subtype.generate(puzzle_rng(subtype.SUBTYPE, seed, level), level) for seed in range(12)]


def test_no_icon_looks_like_another_however_it_is_turned_over() -> None:
    forms = [form for icon in ICONS.values() for form in (icon, mirrored(icon), mirrored(upside_down(icon)))]
    assert len(set(forms)) == len(forms)


@every_level
def test_the_different_cell_differs_in_pixels_once_trimmed(level: int) -> None:
    for puzzle in some(find_the_different, level):
        shapes = Counter(tuple(glyph) for row in puzzle.structure["glyphs"] for glyph in row)
        (usual, many), (odd, once) = shapes.most_common()
        assert once == 1 < many
        assert trimmed(usual) != trimmed(odd)


def trimmed(glyph: tuple[str, ...]) -> list[str]:
    """The figure without empty rows and columns: what is left when its place in the cell does not count."""
    rows = [row for row in glyph if "#" in row]
    columns = [column for column in zip(*rows, strict=True) if "#" in column]
    return ["".join(column) for column in columns]


@every_level
def test_figures_that_do_not_count_are_shown_too(level: int) -> None:
    for puzzle in some(count_same_patterns, level):
        same, total = int(puzzle.answer), len(puzzle.structure["figures"])
        assert 0 < same < total
        assert len(puzzle.roi) == same


@every_level
def test_counted_figures_are_free_of_each_other(level: int) -> None:
    for puzzle in some(count_same_patterns, level):
        for a, b in combinations(puzzle.roi, 2):
            assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]


@every_level
def test_clusters_keep_a_visible_distance(level: int) -> None:
    for puzzle in some(count_clusters, level):
        discs = puzzle.structure["discs"]
        for (x1, y1, r1), (x2, y2, r2) in combinations(discs, 2):
            distance = (x1 - x2) ** 2 + (y1 - y2) ** 2
            assert distance <= (r1 + r2 - 2) ** 2 or distance >= (r1 + r2) ** 2 or linked(discs, (x1, y1), (x2, y2))
        assert puzzle.image.getpixel((1, 1)) == PAPER


def linked(discs: list[list[int]], a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether a chain of clearly overlapping discs leads from one centre to the other."""
    seen, front = {a}, [a]
    radius = {(x, y): r for x, y, r in discs}
    while front:
        x, y = front.pop()
        near = {
            (u, v)
            for u, v, r in discs
            if (u, v) not in seen and (u - x) ** 2 + (v - y) ** 2 <= (r + radius[x, y] - 2) ** 2
        }
        seen |= near
        front += near
    return b in seen


@every_level
def test_options_of_a_mirror_puzzle_all_differ(level: int) -> None:
    for puzzle in some(mirroring_patterns, level):
        candidates = [tuple(candidate) for candidate in puzzle.structure["candidates"]]
        assert len(set(candidates)) == len(candidates) == len(puzzle.options)
