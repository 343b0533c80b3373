"""Grids of coloured cells: how they are changed, compared and drawn."""

import random
from collections.abc import Sequence

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.drawing import INK, Color, Point, draw_frame, draw_rect

Pattern = tuple[str, ...]
"""Rows of cells, each cell one digit: the colour's place in a list of colours."""


def random_pattern(rng: random.Random, size: int, colors: int) -> Pattern:
    return tuple("".join(str(rng.randrange(colors)) for _ in range(size)) for _ in range(size))


def with_changed_cells(rng: random.Random, pattern: Pattern, count: int, colors: int) -> Pattern:
    """Another colour in `count` cells."""
    cells = [list(row) for row in pattern]
    columns = len(cells[0])
    for place in rng.sample(range(len(cells) * columns), count):
        old = int(cells[place // columns][place % columns])
        cells[place // columns][place % columns] = str((old + rng.randint(1, colors - 1)) % colors)
    return tuple("".join(row) for row in cells)


def cell_difference(a: Sequence[str], b: Sequence[str]) -> int:
    """Number of cells that differ."""
    return sum(x != y for row_a, row_b in zip(a, b, strict=True) for x, y in zip(row_a, row_b, strict=True))


def with_near_copies(rng: random.Random, known: Sequence[Pattern], total: int, colors: int) -> list[Pattern]:
    """The known patterns without repeats, and near-copies of the first, one or two cells apart, up to `total`."""
    patterns = list(dict.fromkeys(known))[:total]
    while len(patterns) < total:
        copy = with_changed_cells(rng, known[0], rng.choice((1, 1, 2)), colors)
        if copy not in patterns:
            patterns.append(copy)
    return patterns


def draw_pattern(
    img: Image.Image, corner: Point, pattern: Sequence[str], colors: Sequence[Color], cell_px: int, line: Color = INK
) -> None:
    """Cells that share their lines: the picture is one pixel wider and higher than the cells."""
    for r, row in enumerate(pattern):
        for c, cell in enumerate(row):
            left, top = corner[0] + c * cell_px, corner[1] + r * cell_px
            draw_rect(img, (left, top, left + cell_px + 1, top + cell_px + 1), colors[int(cell)])
            draw_frame(img, (left, top, left + cell_px + 1, top + cell_px + 1), line)
