"""Logic Patterns: three rows of three cells, each property following its own rule along the rows; the last is open.

A cell holds a number of equal shapes in one colour, and a dot at one of eight places around them.
"""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.choice_sheet import new_choice_sheet
from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    Box,
    Color,
    Point,
    draw_disc,
    draw_frame,
    draw_polygon,
    draw_text_centered,
)
from benchmarks.visual_puzzles_opencode.puzzles.panels import Panels, letters, numbers

SUBTYPE = "Logic Patterns"
CATEGORY = "Visual Pattern Recognition"

_SIDE_PX = 128
_GAP_PX = 12
_SHAPES = ("square", "disc", "triangle", "diamond", "cross")
_MOST = 6
"""Shapes in a cell."""
_PLACES = ((0, -52), (52, -52), (52, 0), (52, 52), (0, 52), (-52, 52), (-52, 0), (-52, -52))
"""Of the dot, clockwise from the top, from the middle of the cell."""

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class _Cell:
    shape: int
    color: int
    count: int
    place: int


_PROPERTIES = ("shape", "color", "count", "place")
_VALUES = {
    "shape": range(len(_SHAPES)),
    "color": range(len(PALETTE)),
    "count": range(1, _MOST + 1),
    "place": range(len(_PLACES)),
}
_RULES = {"shape": ("once",), "color": ("once",), "count": ("once", "step", "sum"), "place": ("once", "step")}


@dataclass(frozen=True)
class _Level:
    ruled: int
    """Properties that change along the rows; each of the others is the same in all cells of a row."""
    wrong_values: tuple[int, ...]
    """Of as many properties, how many wrong values there are among the options; all are combined with each other."""
    options: int


_LEVELS = {1: _Level(1, (1, 1), 4), 2: _Level(2, (2, 1), 5), 3: _Level(4, (1, 1, 1), 6)}


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in how many properties change along a row, and in how many options look plausible."""
    shape = _LEVELS[level]
    ruled = rng.sample(_PROPERTIES, shape.ruled)
    columns = {
        name: _rows_of_property(rng, name, rng.choice(_RULES[name]) if name in ruled else "same")
        for name in _PROPERTIES
    }
    grid = [[_Cell(**{name: columns[name][r][c] for name in _PROPERTIES}) for c in range(3)] for r in range(3)]
    right = grid[2][2]
    candidates = [right, *_distractors(rng, shape, grid, ruled)]
    rng.shuffle(candidates)

    figure_px = 3 * _SIDE_PX + 2 * _GAP_PX
    panels = Panels(shape.options, _SIDE_PX, _SIDE_PX, per_row=4 if shape.options < 5 else 3)
    sheet = new_choice_sheet((figure_px, figure_px), panels)
    for r, c in product(range(3), range(3)):
        left, top = (at + index * (_SIDE_PX + _GAP_PX) for at, index in zip(sheet.corner, (c, r), strict=True))
        _draw_cell(sheet.image, (left, top, left + _SIDE_PX, top + _SIDE_PX), None if (r, c) == (2, 2) else grid[r][c])
    for box, candidate in zip(sheet.boxes, candidates, strict=True):
        _draw_cell(sheet.image, box, candidate)
    place = candidates.index(right)
    return Puzzle(
        image=sheet.image,
        question=(
            "The cells of the three rows at the top follow rules that are the same in every row, read from left to "
            "right: one rule each for the shape, the colour, the number of shapes and the place of the black dot. "
            "Which of the numbered cells below belongs in the place of the question mark? Answer with the letter of "
            "the option."
        ),
        answer=letters(shape.options)[place],
        answer_kind=AnswerKind.LETTER,
        options=tuple(f"Cell {number}" for number in numbers(shape.options)),
        roi=(sheet.boxes[place],),
        structure={
            "shown": [[asdict(cell) for cell in row[: 2 if r == 2 else 3]] for r, row in enumerate(grid)],
            "candidates": [asdict(cell) for cell in candidates],
        },
    )


def solve(puzzle: Puzzle) -> str:
    """The one option whose every property ends the last row by a rule that the first two rows keep as well."""
    first, second, last = puzzle.structure["shown"]
    fits = [
        index
        for index, candidate in enumerate(puzzle.structure["candidates"])
        if all(
            _share_a_rule([[cell[name] for cell in row] for row in (first, second, [*last, candidate])], name)
            for name in _PROPERTIES
        )
    ]
    [right] = fits
    return letters(right + 1)[-1]


def _share_a_rule(rows: Sequence[Sequence[int]], name: str) -> bool:
    """Whether some rule that this property may have holds in all three rows."""
    turn = len(_PLACES) if name == "place" else 1000
    steps = {(b - a) % turn for row in rows for a, b in zip(row, row[1:], strict=False)}
    holds = {
        "same": all(len(set(row)) == 1 for row in rows),
        "once": len({frozenset(row) for row in rows}) == 1 and all(len(set(row)) == 3 for row in rows),
        "step": len(steps) == 1 and steps != {0},
        "sum": all(a + b == c for a, b, c in rows),
    }
    return any(holds[rule] for rule in ("same", *_RULES[name]))


def _rows_of_property(rng: random.Random, name: str, rule: str) -> list[Triple]:
    """Three different rows by the rule, such that the first two and the begun third allow one end only."""
    values = _VALUES[name]
    while True:
        rows = _drawn_rows(rng, name, rule)
        ends = [value for value in values if _share_a_rule([*rows[:2], (*rows[2][:2], value)], name)]
        if len(set(rows)) == 3 and all(value in values for row in rows for value in row) and ends == [rows[2][2]]:
            return rows


def _drawn_rows(rng: random.Random, name: str, rule: str) -> list[Triple]:
    values = _VALUES[name]
    if rule == "same":
        return [(value, value, value) for value in rng.sample(values, 3)]
    if rule == "once":
        a, b, c = rng.sample(values, 3)
        rows = [(a, b, c), (b, c, a), (c, a, b)]
        return rng.sample(rows, 3)
    starts = [rng.choice(values) for _ in range(3)]
    if rule == "sum":
        return [(a, b, a + b) for a, b in ((start, rng.randint(1, 3)) for start in starts)]
    if name == "place":
        step, turn = rng.choice((1, 2, 3, -1, -2, -3)), len(_PLACES)
        return [(start, (start + step) % turn, (start + 2 * step) % turn) for start in starts]
    step = rng.choice((1, 2, -1, -2))
    return [(start, start + step, start + 2 * step) for start in starts]


def _distractors(
    rng: random.Random, shape: _Level, grid: Sequence[Sequence[_Cell]], ruled: Sequence[str]
) -> list[_Cell]:
    """Wrong cells with values that other cells of the grid have.

    Right and wrong values are combined, so that the right cell is not the one most like the other options.
    """
    right = grid[-1][-1]
    others = [name for name in _PROPERTIES if name not in ruled]
    mixed = [*rng.sample(list(ruled), len(ruled)), *rng.sample(others, len(others))][: len(shape.wrong_values)]
    choices = []
    for name, wrong in zip(mixed, shape.wrong_values, strict=True):
        known = getattr(right, name)
        seen = {getattr(cell, name) for row in grid for cell in row}
        choices.append([known, *rng.sample(sorted(seen - {known}), wrong)])
    cells = [replace(right, **dict(zip(mixed, values, strict=True))) for values in product(*choices)]
    return rng.sample(cells[1:], shape.options - 1)


def _draw_cell(img: Image.Image, box: Box, cell: _Cell | None) -> None:
    """A framed cell, with a question mark for None."""
    draw_frame(img, box, INK, width=2)
    x, y = (box[0] + box[2]) // 2, (box[1] + box[3]) // 2
    if cell is None:
        draw_text_centered(img, (x, y), "?", 6)
        return
    color = list(PALETTE.values())[cell.color]
    for index in range(cell.count):
        row, column = divmod(index, 2)
        _draw_shape(img, (x - 16 + 32 * column, y - 30 + 30 * row), _SHAPES[cell.shape], color)
    dx, dy = _PLACES[cell.place]
    draw_disc(img, (x + dx, y + dy), 5, INK)


def _draw_shape(img: Image.Image, center: Point, shape: str, color: Color) -> None:
    x, y = center
    if shape == "disc":
        draw_disc(img, center, 11, color)
        return
    outlines = {
        "square": ((-10, -10), (10, -10), (10, 10), (-10, 10)),
        "triangle": ((0, -12), (13, 10), (-13, 10)),
        "diamond": ((0, -13), (11, 0), (0, 13), (-11, 0)),
        "cross": (
            (-4, -12), (4, -12), (4, -4), (12, -4), (12, 4), (4, 4),
            (4, 12), (-4, 12), (-4, 4), (-12, 4), (-12, -4), (-4, -4),
        ),
    }  # fmt: skip
    draw_polygon(img, [(x + dx, y + dy) for dx, dy in outlines[shape]], color)
