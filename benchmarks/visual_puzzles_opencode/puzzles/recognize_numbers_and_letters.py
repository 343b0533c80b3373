"""Recognize numbers and letters: the outlines of several characters lie over each other; which characters are they."""

import random
from collections.abc import Collection
from itertools import combinations

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    FONT,
    GLYPH_HEIGHT,
    GLYPH_WIDTH,
    INK,
    Glyph,
    Point,
    draw_rect,
    new_canvas,
)

SUBTYPE = "Recognize numbers and letters"
CATEGORY = "Visual Tracking"

Edge = tuple[int, int, bool]
"""One side of a dot: its upper or left end (x, y) on the lattice of dot corners, and whether it goes down."""
Placed = tuple[str, frozenset[Edge]]
"""A character, and the edges of its outline where it lies."""

_CHARACTERS = {1: "0123456789", 2: "0123456789", 3: "0123456789ACEHKLPTXZ"}
_COUNT = {1: 2, 2: 3, 3: 4}
_REACH: dict[int, Point] = {1: (3, 3), 2: (4, 3), 3: (4, 4)}
"""Columns and rows over which the characters are moved against each other."""
_DOT_PX = 40
_MARGIN_PX = 40
_STROKE_PX = 3


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in how many characters there are, and in whether letters are among them."""
    count, characters = _COUNT[level], _CHARACTERS[level]
    while True:
        chosen = sorted(rng.sample(characters, count))
        edges: set[Edge] = set()
        for character in chosen:
            column, row = rng.randint(0, _REACH[level][0]), rng.randint(0, _REACH[level][1])
            edges |= _moved(_outline(FONT[character]), column, row)
        if _readings(edges, characters, count) == {tuple(chosen)}:
            break

    columns, rows = GLYPH_WIDTH + _REACH[level][0], GLYPH_HEIGHT + _REACH[level][1]
    img = new_canvas(columns * _DOT_PX + 2 * _MARGIN_PX, rows * _DOT_PX + 2 * _MARGIN_PX)
    for edge in sorted(edges):
        _draw_edge(img, edge)
    what = "a digit" if level < 3 else "a digit or a capital letter"
    order = "in ascending order" if level < 3 else "digits in ascending order first, then letters in alphabetical order"
    xs = [x for x, _, _ in edges] + [x + 1 for x, _, down in edges if not down]
    ys = [y for _, y, _ in edges] + [y + 1 for _, y, down in edges if down]
    return Puzzle(
        image=img,
        question=(
            f"The outlines of {count} different characters, each {what} built of square dots, are drawn over each "
            f"other. All are upright and of one size. Which characters are they? Answer with the {count} characters, "
            f"{order}, separated by commas."
        ),
        answer=",".join(chosen),
        answer_kind=AnswerKind.SET,
        roi=(
            (
                _MARGIN_PX + min(xs) * _DOT_PX - _STROKE_PX,
                _MARGIN_PX + min(ys) * _DOT_PX - _STROKE_PX,
                _MARGIN_PX + max(xs) * _DOT_PX + _STROKE_PX,
                _MARGIN_PX + max(ys) * _DOT_PX + _STROKE_PX,
            ),
        ),
        structure={"edges": [list(edge) for edge in sorted(edges)], "characters": characters, "count": count},
    )


def solve(puzzle: Puzzle) -> str:
    """The one set of characters whose outlines, somewhere on the lattice, are exactly the lines drawn."""
    edges = {(x, y, bool(down)) for x, y, down in puzzle.structure["edges"]}
    [reading] = _readings(edges, puzzle.structure["characters"], puzzle.structure["count"])
    return ",".join(reading)


def _readings(edges: Collection[Edge], characters: str, count: int) -> set[tuple[str, ...]]:
    """Every set of `count` characters that can be placed so that their outlines are together the given edges."""
    whole = frozenset(edges)
    right, bottom = (max(edge[axis] for edge in edges) for axis in (0, 1))
    placed: list[Placed] = []
    for character in characters:
        outline = _outline(FONT[character])
        for column in range(-1, right):  # a narrow character such as 1 leaves its first column free
            for row in range(bottom):
                if (moved := _moved(outline, column, row)) <= whole:
                    placed.append((character, moved))
    found = set()
    for group in combinations(placed, count):
        names = tuple(sorted(name for name, _ in group))
        if len(set(names)) == count and frozenset().union(*(outline for _, outline in group)) == whole:
            found.add(names)
    return found


def _outline(glyph: Glyph) -> frozenset[Edge]:
    """The edges that part a set dot from a free one or from the outside."""

    def is_set(row: int, column: int) -> bool:
        return 0 <= row < GLYPH_HEIGHT and 0 <= column < GLYPH_WIDTH and glyph[row][column] == "#"

    edges: set[Edge] = set()
    for row in range(GLYPH_HEIGHT + 1):
        for column in range(GLYPH_WIDTH + 1):
            if is_set(row, column) != is_set(row - 1, column):
                edges.add((column, row, False))
            if is_set(row, column) != is_set(row, column - 1):
                edges.add((column, row, True))
    return frozenset(edges)


def _moved(outline: Collection[Edge], column: int, row: int) -> frozenset[Edge]:
    return frozenset((x + column, y + row, down) for x, y, down in outline)


def _draw_edge(img: Image.Image, edge: Edge) -> None:
    x, y, down = edge
    left, top = _MARGIN_PX + x * _DOT_PX, _MARGIN_PX + y * _DOT_PX
    right, bottom = (left, top + _DOT_PX) if down else (left + _DOT_PX, top)
    half = _STROKE_PX // 2
    draw_rect(img, (left - half, top - half, right + half + 1, bottom + half + 1), INK)
