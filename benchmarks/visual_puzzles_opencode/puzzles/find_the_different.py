"""Find the different: a grid of one figure in which a single cell shows another one."""

import random
from collections import Counter

from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    FONT,
    GLYPH_HEIGHT,
    GLYPH_WIDTH,
    INK,
    PALETTE,
    RULE,
    Box,
    draw_frame,
    draw_glyph,
    new_canvas,
)
from benchmarks.visual_puzzles_opencode.puzzles.glyphs import mirrored, with_one_dot_moved

SUBTYPE = "Find the different"
CATEGORY = "Fine-grained Discrimination"

_ASYMMETRIC = "FGJKLNPQRSZ24579"
"""Figures whose mirror image is another figure."""
_SHAPE = {1: (7, 7), 2: (11, 14), 3: (15, 19)}
"""Rows and columns."""
_DOT_PX = {1: 9, 2: 6, 3: 5}
"""An altered cell differs by at least two whole dots."""
_MARGIN_PX = 24


def generate(rng: random.Random, level: int) -> Puzzle:
    """Level 1 mirrors the odd figure, level 2 moves one dot of it, level 3 does so under colours and small shifts."""
    rows, columns = _SHAPE[level]
    common = FONT[rng.choice(_ASYMMETRIC)]
    odd = mirrored(common) if level == 1 else with_one_dot_moved(rng, common)
    odd_cell = (rng.randrange(rows), rng.randrange(columns))
    glyphs = [[odd if (r, c) == odd_cell else common for c in range(columns)] for r in range(rows)]

    dot = _DOT_PX[level]
    right, bottom = _cell_box(rows - 1, columns - 1, dot)[2:]
    img = new_canvas(right + _MARGIN_PX, bottom + _MARGIN_PX)
    colors = list(PALETTE.values()) if level == 3 else [INK]
    reach = dot if level == 3 else 0
    for r in range(rows):
        for c in range(columns):
            left, top, _, _ = box = _cell_box(r, c, dot)
            draw_frame(img, box, RULE)
            x = left + (box[2] - left - GLYPH_WIDTH * dot) // 2 + rng.randint(-reach, reach)
            y = top + (box[3] - top - GLYPH_HEIGHT * dot) // 2 + rng.randint(-reach, reach)
            draw_glyph(img, (x, y), glyphs[r][c], dot, rng.choice(colors))

    ignored = " Colour and place inside a cell do not matter." if level == 3 else ""
    return Puzzle(
        image=img,
        question=(
            f"The picture is a grid of {rows} rows and {columns} columns. Every cell shows the same figure, except one "
            f"cell whose figure is different.{ignored} Which cell is it? Answer as (row,column), both counted from 1 "
            "starting at the top left."
        ),
        answer=f"({odd_cell[0] + 1},{odd_cell[1] + 1})",
        answer_kind=AnswerKind.COORD,
        roi=(_cell_box(*odd_cell, dot),),
        structure={"glyphs": [[list(glyph) for glyph in row] for row in glyphs]},
    )


def solve(puzzle: Puzzle) -> str:
    """The one cell whose figure occurs once in the grid."""
    cells = {
        (r, c): tuple(glyph)
        for r, row in enumerate(puzzle.structure["glyphs"], start=1)
        for c, glyph in enumerate(row, start=1)
    }
    counts = Counter(cells.values())
    [(row, column)] = [cell for cell, glyph in cells.items() if counts[glyph] == 1]
    return f"({row},{column})"


def _cell_box(row: int, column: int, dot: int) -> Box:
    """Neighbours share their border line."""
    width, height = (GLYPH_WIDTH + 3) * dot, (GLYPH_HEIGHT + 3) * dot
    left, top = _MARGIN_PX + column * width, _MARGIN_PX + row * height
    return (left, top, left + width + 1, top + height + 1)
