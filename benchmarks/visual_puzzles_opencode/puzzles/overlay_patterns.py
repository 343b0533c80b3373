"""Overlay Patterns: two black and white grids are laid over each other by a rule that two examples show."""

import random
from dataclasses import dataclass

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.cells import (
    Pattern,
    draw_pattern,
    random_pattern,
    with_near_copies,
)
from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PAPER,
    RULE,
    Color,
    Point,
    draw_frame,
    draw_rect,
    draw_text_centered,
    new_canvas,
)
from benchmarks.visual_puzzles_opencode.puzzles.panels import (
    GAP_PX,
    MARGIN_PX,
    Panels,
    draw_captions,
    letters,
    numbers,
)

SUBTYPE = "Overlay Patterns"
CATEGORY = "Visual Pattern Recognition"

Rule = tuple[str, str, str, str]
"""What becomes of a cell that is white in both grids, black in the second only, in the first only, in both."""

_RULES: dict[str, Rule] = {
    "or": ("0", "1", "1", "1"),
    "xor": ("0", "1", "1", "0"),
    "and": ("0", "0", "0", "1"),
    "first only": ("0", "0", "1", "0"),
    "second only": ("0", "1", "0", "0"),
    "same": ("1", "0", "0", "1"),
}
_COLORS: list[Color] = [PAPER, INK]
_SIGN_PX = 40
"""Free space between the grids of a row, where their sign stands."""
_ROW_GAP_PX = 20


@dataclass(frozen=True)
class _Level:
    cells: int
    """Along each side."""
    cell_px: int
    options: int
    rules: tuple[str, ...]


_LEVELS = {
    1: _Level(4, 26, 4, ("or", "xor", "and")),
    2: _Level(5, 22, 5, ("or", "xor", "and", "first only")),
    3: _Level(6, 20, 6, tuple(_RULES)),
}


@dataclass(frozen=True)
class _Row:
    first: Pattern
    second: Pattern
    result: Pattern


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in size, in the rules there are, and in how many options are near-copies of the right one."""
    shape = _LEVELS[level]
    rule = rng.choice(shape.rules)
    rows = _rows(rng, shape, rule)
    right = rows[-1].result
    others = [_overlaid(rows[-1].first, rows[-1].second, _RULES[name]) for name in rng.sample(sorted(_RULES), 6)]
    candidates = with_near_copies(rng, [right, *others[: 3 if level == 1 else 2]], shape.options, 2)
    rng.shuffle(candidates)

    side = shape.cells * shape.cell_px + 1
    panels = Panels(shape.options, side, side, per_row=3 if shape.options > 4 else 4)
    width = max(3 * side + 2 * _SIGN_PX, panels.size[0]) + 2 * MARGIN_PX
    options_top = 2 * MARGIN_PX + 3 * (side + _ROW_GAP_PX)
    img = new_canvas(width, options_top + panels.size[1])
    left = (width - 3 * side - 2 * _SIGN_PX) // 2
    for index, row in enumerate(rows):
        _draw_row(img, (left, MARGIN_PX + index * (side + _ROW_GAP_PX)), row, shape, is_open=index == len(rows) - 1)
    draw_rect(img, (MARGIN_PX, options_top - GAP_PX, width - MARGIN_PX, options_top - GAP_PX + 2), RULE)
    boxes = panels.boxes(((width - panels.size[0]) // 2, options_top))
    for box, candidate in zip(boxes, candidates, strict=True):
        draw_pattern(img, box[:2], candidate, _COLORS, shape.cell_px, RULE)
        draw_frame(img, box, INK)
    draw_captions(img, boxes, numbers(shape.options))
    place = candidates.index(right)
    return Puzzle(
        image=img,
        question=(
            "In each of the first two rows the two grids on the left are laid over each other and give the grid on the "
            "right, cell by cell and by one rule, which is the same in all rows. Which of the numbered grids belongs "
            f"in the frame with the question mark, at the end of row {len(rows)}? Answer with the letter of the option."
        ),
        answer=letters(shape.options)[place],
        answer_kind=AnswerKind.LETTER,
        options=tuple(f"Grid {number}" for number in numbers(shape.options)),
        roi=(boxes[place],),
        structure={
            "examples": [[list(row.first), list(row.second), list(row.result)] for row in rows[:-1]],
            "open": [list(rows[-1].first), list(rows[-1].second)],
            "candidates": [list(candidate) for candidate in candidates],
        },
    )


def solve(puzzle: Puzzle) -> str:
    """Read the rule off the examples and strike out every option with a cell that breaks it."""
    outcome: dict[tuple[str, str], str] = {}
    for first, second, result in puzzle.structure["examples"]:
        for pair, cell in _cell_triples(first, second, result):
            if outcome.setdefault(pair, cell) != cell:
                raise ValueError("overlay patterns: the examples follow no one rule")
    first, second = puzzle.structure["open"]
    [right] = [
        index
        for index, candidate in enumerate(puzzle.structure["candidates"])
        if all(outcome[pair] == cell for pair, cell in _cell_triples(first, second, candidate))
    ]
    return letters(right + 1)[-1]


def _cell_triples(first: list[str], second: list[str], result: list[str]) -> list[tuple[tuple[str, str], str]]:
    flat = ("".join(grid) for grid in (first, second, result))
    return [((a, b), c) for a, b, c in zip(*flat, strict=True)]


def _rows(rng: random.Random, shape: _Level, rule: str) -> list[_Row]:
    """Two examples and the open row; every row has each of the four pairs of cells at least twice."""
    rows: list[_Row] = []
    while len(rows) < 3:
        first, second = (random_pattern(rng, shape.cells, 2) for _ in range(2))
        pairs = list(zip("".join(first), "".join(second), strict=True))
        if min(pairs.count(pair) for pair in (("0", "0"), ("0", "1"), ("1", "0"), ("1", "1"))) >= 2:
            rows.append(_Row(first, second, _overlaid(first, second, _RULES[rule])))
    return rows


def _overlaid(first: Pattern, second: Pattern, rule: Rule) -> Pattern:
    return tuple(
        "".join(rule[2 * int(a) + int(b)] for a, b in zip(row_a, row_b, strict=True))
        for row_a, row_b in zip(first, second, strict=True)
    )


def _draw_row(img: Image.Image, corner: Point, row: _Row, shape: _Level, *, is_open: bool) -> None:
    side = shape.cells * shape.cell_px + 1
    left, top = corner
    for index, pattern in enumerate((row.first, row.second, row.result)):
        x = left + index * (side + _SIGN_PX)
        if index:
            draw_text_centered(img, (x - _SIGN_PX // 2, top + side // 2), " +="[index], 3)
        if index < 2 or not is_open:
            draw_pattern(img, (x, top), pattern, _COLORS, shape.cell_px, RULE)
        else:
            draw_text_centered(img, (x + side // 2, top + side // 2), "?", 6)
        draw_frame(img, (x, top, x + side, top + side), INK)
