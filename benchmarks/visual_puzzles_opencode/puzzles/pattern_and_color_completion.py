"""Pattern and Color Completion: a grid coloured by a rule has a hole; which numbered piece fills it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.cells import Pattern, draw_pattern, with_near_copies
from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    PAPER,
    RULE,
    Box,
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

SUBTYPE = "Pattern and Color Completion"
CATEGORY = "Fine-grained Discrimination"

Cell = tuple[int, int]
"""Row and column, from 0."""

_CELL_PX = 34


@dataclass(frozen=True)
class _Level:
    cells: int
    """Along each side."""
    hole: int
    colors: int
    options: int
    rules: tuple[str, ...]


_LEVELS = {
    1: _Level(6, 2, 3, 4, ("stripes", "left and right")),
    2: _Level(8, 2, 4, 5, ("stripes", "left and right", "top and bottom")),
    3: _Level(10, 3, 4, 6, ("stripes", "left and right", "top and bottom", "half turn", "diagonal")),
}
_IMAGES: dict[str, Callable[[Cell, int], Cell]] = {
    "left and right": lambda cell, last: (cell[0], last - cell[1]),
    "top and bottom": lambda cell, last: (last - cell[0], cell[1]),
    "half turn": lambda cell, last: (last - cell[0], last - cell[1]),
    "diagonal": lambda cell, last: (cell[1], cell[0]),
}
"""Which cell has the same colour under a symmetry; its own inverse."""


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in size, colours, the rules there are, and in how many options are near-copies."""
    shape = _LEVELS[level]
    rule = rng.choice(shape.rules)
    grid = _striped(rng, shape) if rule == "stripes" else _symmetric(rng, shape, rule)
    row, column = _hole_corner(rng, shape, rule)
    right = _cut(grid, row, column, shape.hole)
    turned = tuple("".join(cells) for cells in zip(*reversed(right), strict=True))
    near = [tuple(line[::-1] for line in right), right[::-1], turned]
    candidates = with_near_copies(rng, [right, *near[: 2 if level > 1 else 1]], shape.options, shape.colors)
    rng.shuffle(candidates)

    colors = [PALETTE[name] for name in rng.sample(sorted(PALETTE), shape.colors)]
    side, piece = shape.cells * _CELL_PX + 1, shape.hole * _CELL_PX + 1
    panels = Panels(shape.options, piece, piece, per_row=6)
    width = max(side, panels.size[0]) + 2 * MARGIN_PX
    options_top = 3 * MARGIN_PX + side
    img = new_canvas(width, options_top + panels.size[1])
    left = (width - side) // 2
    draw_pattern(img, (left, MARGIN_PX), grid, colors, _CELL_PX)
    hole_left, hole_top = left + column * _CELL_PX, MARGIN_PX + row * _CELL_PX
    _draw_hole(img, (hole_left, hole_top, hole_left + piece, hole_top + piece))
    draw_rect(img, (MARGIN_PX, options_top - GAP_PX, width - MARGIN_PX, options_top - GAP_PX + 2), RULE)
    boxes = panels.boxes(((width - panels.size[0]) // 2, options_top))
    for box, candidate in zip(boxes, candidates, strict=True):
        draw_pattern(img, box[:2], candidate, colors, _CELL_PX)
    draw_captions(img, boxes, numbers(shape.options))
    place = candidates.index(right)
    seen = [
        "".join("?" if r - row in range(shape.hole) and c - column in range(shape.hole) else cell for c, cell in line)
        for r, line in enumerate(map(enumerate, grid))
    ]
    return Puzzle(
        image=img,
        question=(
            f"The grid of {shape.cells} by {shape.cells} cells at the top is coloured by a rule and has a white hole "
            f"of {shape.hole} by {shape.hole} cells. Which of the numbered pieces below fills the hole so that the "
            "rule holds for the whole grid? Pieces are not turned. Answer with the letter of the option."
        ),
        answer=letters(shape.options)[place],
        answer_kind=AnswerKind.LETTER,
        options=tuple(f"Piece {number}" for number in numbers(shape.options)),
        roi=(boxes[place],),
        structure={
            "grid": seen,
            "hole": [row, column],
            "candidates": [list(candidate) for candidate in candidates],
        },
    )


def solve(puzzle: Puzzle) -> str:
    """Find every regularity that all seen cells keep, and the one piece with which the whole grid keeps them."""
    grid: list[str] = puzzle.structure["grid"]
    row, column = puzzle.structure["hole"]
    kept = [pairs for pairs in _regularities(len(grid)) if _is_kept(grid, pairs)]
    fitting = []
    for index, piece in enumerate(puzzle.structure["candidates"]):
        filled = [list(line) for line in grid]
        for r, line in enumerate(piece):
            filled[row + r][column : column + len(line)] = line
        if all(_is_kept(["".join(line) for line in filled], pairs) for pairs in kept):
            fitting.append(index)
    [right] = fitting
    return letters(right + 1)[-1]


def _regularities(size: int) -> list[list[tuple[Cell, Cell]]]:
    """Pairs of cells that have one colour, for each symmetry and for each short shift."""
    cells = [(r, c) for r in range(size) for c in range(size)]
    found = [[(cell, image(cell, size - 1)) for cell in cells] for image in _IMAGES.values()]
    for down, across in ((0, 3), (0, 4), (3, 0), (4, 0), (1, 1), (1, -1), (1, 2), (1, -2), (2, 1), (2, -1)):
        found.append([((r, c), (r + down, c + across)) for r, c in cells if r + down < size and 0 <= c + across < size])
    return found


def _is_kept(grid: Sequence[str], pairs: Sequence[tuple[Cell, Cell]]) -> bool:
    return all("?" in (a, b) or a == b for a, b in ((grid[r][c], grid[s][d]) for (r, c), (s, d) in pairs))


def _striped(rng: random.Random, shape: _Level) -> Pattern:
    """Slanting stripes: along a row and along a column the colours come in one cycle."""
    cycle = rng.sample(range(shape.colors), shape.colors)
    slope = rng.choice((1, -1, 2, -2)) if shape.cells > 6 else rng.choice((1, -1))
    rows = range(shape.cells)
    return tuple("".join(str(cycle[(c + slope * r) % shape.colors]) for c in rows) for r in rows)


def _symmetric(rng: random.Random, shape: _Level, rule: str) -> Pattern:
    last = shape.cells - 1
    colors: dict[Cell, str] = {}
    for r in range(shape.cells):
        for c in range(shape.cells):
            image = _IMAGES[rule]((r, c), last)
            colors[r, c] = colors[image] if image in colors else str(rng.randrange(shape.colors))
    return tuple("".join(colors[r, c] for c in range(shape.cells)) for r in range(shape.cells))


def _hole_corner(rng: random.Random, shape: _Level, rule: str) -> Cell:
    """Where no cell of the hole has its image in the hole."""
    last = shape.cells - 1
    while True:
        row, column = (rng.randint(1, last - shape.hole) for _ in range(2))
        hole = {(row + r, column + c) for r in range(shape.hole) for c in range(shape.hole)}
        if rule == "stripes" or not hole & {_IMAGES[rule](cell, last) for cell in hole}:
            return row, column


def _cut(grid: Pattern, row: int, column: int, size: int) -> Pattern:
    return tuple(line[column : column + size] for line in grid[row : row + size])


def _draw_hole(img: Image.Image, box: Box) -> None:
    draw_rect(img, box, PAPER)
    draw_frame(img, box, INK, width=2)
    draw_text_centered(img, ((box[0] + box[2]) // 2, (box[1] + box[3]) // 2), "?", 5)
