"""2D Pattern Completion: a texture that repeats has a hole; which numbered patch continues it."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.cells import Pattern, with_near_copies
from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    PAPER,
    RULE,
    Box,
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

SUBTYPE = "2D Pattern Completion"
CATEGORY = "Fine-grained Discrimination"

_COLUMNS, _ROWS = 36, 22
"""Dots of the texture."""
_DOT_PX = 16
_BORDER_PX = 3


@dataclass(frozen=True)
class _Level:
    tile: Point
    """Least and greatest side of the tile that repeats, in dots."""
    is_staggered: bool
    """Whether each row of tiles is moved against the one above."""
    hole: int
    colors: int
    options: int


_LEVELS = {
    1: _Level((3, 4), False, 6, 2, 4),
    2: _Level((4, 6), True, 6, 2, 5),
    3: _Level((5, 7), True, 7, 3, 6),
}


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in the tile's size and stagger, in colours, and in how many patches are one dot off."""
    shape = _LEVELS[level]
    while True:
        texture = _texture(rng, shape)
        column = rng.randint(2, _COLUMNS - shape.hole - 2)
        row = rng.randint(2, _ROWS - shape.hole - 2)
        right = _cut(texture, row, column, shape.hole)
        known = [right, *_distractors(rng, texture, (row, column), shape.hole)]
        if len(set(known)) == len(known):
            break
    candidates = with_near_copies(rng, known[: 4 if level == 1 else 3], shape.options, shape.colors)
    rng.shuffle(candidates)

    colors = [PAPER, *(PALETTE[name] for name in rng.sample(sorted(PALETTE), shape.colors - 1))]
    width, height = (side * _DOT_PX + 2 * _BORDER_PX for side in (_COLUMNS, _ROWS))
    piece = shape.hole * _DOT_PX + 2 * _BORDER_PX
    panels = Panels(shape.options, piece, piece, per_row=4 if shape.options < 5 else 3)
    options_top = 3 * MARGIN_PX + height
    img = new_canvas(width + 2 * MARGIN_PX, options_top + panels.size[1])
    whole = (MARGIN_PX, MARGIN_PX, MARGIN_PX + width, MARGIN_PX + height)
    _draw_texture(img, whole, texture, colors)
    hole_left, hole_top = MARGIN_PX + column * _DOT_PX, MARGIN_PX + row * _DOT_PX
    _draw_hole(img, (hole_left, hole_top, hole_left + piece, hole_top + piece))
    rule = options_top - GAP_PX
    draw_rect(img, (MARGIN_PX, rule, img.width - MARGIN_PX, rule + 2), RULE)
    boxes = panels.boxes(((img.width - panels.size[0]) // 2, options_top))
    for box, candidate in zip(boxes, candidates, strict=True):
        _draw_texture(img, box, candidate, colors)
    draw_captions(img, boxes, numbers(shape.options))
    place = candidates.index(right)
    seen = [
        "".join("?" if r - row in range(shape.hole) and c - column in range(shape.hole) else dot for c, dot in line)
        for r, line in enumerate(map(enumerate, texture))
    ]
    return Puzzle(
        image=img,
        question=(
            "The texture at the top repeats the same tile again and again, but a square part of it is missing. Which "
            "of the numbered patches below fits in the hole so that the texture goes on without a break? Patches are "
            "not turned. Answer with the letter of the option."
        ),
        answer=letters(shape.options)[place],
        answer_kind=AnswerKind.LETTER,
        options=tuple(f"Patch {number}" for number in numbers(shape.options)),
        roi=(boxes[place],),
        structure={"texture": seen, "candidates": [list(candidate) for candidate in candidates]},
    )


def solve(puzzle: Puzzle) -> str:
    """Find the shifts under which the seen part repeats, copy seen dots into the hole by them, and compare."""
    texture: list[str] = puzzle.structure["texture"]
    hole = [(r, c) for r, line in enumerate(texture) for c, dot in enumerate(line) if dot == "?"]
    filled: dict[Point, str] = {}
    for down, across in _repeats(texture):
        for r, c in hole:
            for sign in (1, -1):
                y, x = r + sign * down, c + sign * across
                if 0 <= y < len(texture) and 0 <= x < len(texture[0]) and texture[y][x] != "?":
                    dot = texture[y][x]
                    if filled.setdefault((r, c), dot) != dot:
                        raise ValueError("2d pattern completion: two repeats disagree")
    row, column = hole[0]
    [right] = [
        index
        for index, patch in enumerate(puzzle.structure["candidates"])
        if all(patch[r - row][c - column] == filled[r, c] for r, c in hole)
    ]
    return letters(right + 1)[-1]


def _repeats(texture: Sequence[str]) -> Iterator[Point]:
    """Shifts by at most half the texture that take every seen dot to a like one."""
    rows, columns = len(texture), len(texture[0])
    for down in range(rows // 2):
        for across in range(-(columns // 2), columns // 2 + 1):
            start, stop = max(0, -across), columns - max(0, across)
            if (down, across) > (0, 0) and all(
                "?" in (a, b) or a == b
                for r in range(rows - down)
                for a, b in zip(texture[r][start:stop], texture[r + down][start + across :], strict=False)
            ):
                yield down, across


def _texture(rng: random.Random, shape: _Level) -> Pattern:
    """Tiles of every colour, with no two like rows or columns."""
    while True:
        width, height = rng.randint(*shape.tile), rng.randint(*shape.tile)
        tile = ["".join(rng.choice("0012"[: shape.colors + 1]) for _ in range(width)) for _ in range(height)]
        columns = ["".join(column) for column in zip(*tile, strict=True)]
        if len(set(tile)) == height and len(set(columns)) == width and len(set("".join(tile))) == shape.colors:
            break
    stagger = rng.randint(1, width - 1) if shape.is_staggered else 0
    return tuple(
        "".join(tile[r % height][(c - r // height * stagger) % width] for c in range(_COLUMNS)) for r in range(_ROWS)
    )


def _distractors(rng: random.Random, texture: Pattern, corner: Point, size: int) -> list[Pattern]:
    """Patches from beside the hole, and the right one mirrored."""
    row, column = corner
    right = _cut(texture, row, column, size)
    moved = [_cut(texture, row + down, column + across, size) for down, across in ((0, 1), (1, 0), (-1, 0), (0, -1))]
    mirrored = rng.choice([right[::-1], tuple(line[::-1] for line in right)])
    return [rng.choice(moved[:2]), mirrored, rng.choice(moved[2:])]


def _cut(grid: Pattern, row: int, column: int, size: int) -> Pattern:
    return tuple(line[column : column + size] for line in grid[row : row + size])


def _draw_texture(img: Image.Image, box: Box, dots: Pattern, colors: Sequence[Color]) -> None:
    """Dots without lines between them, in a frame."""
    left, top = box[0] + _BORDER_PX, box[1] + _BORDER_PX
    for r, line in enumerate(dots):
        for c, dot in enumerate(line):
            x, y = left + c * _DOT_PX, top + r * _DOT_PX
            draw_rect(img, (x, y, x + _DOT_PX, y + _DOT_PX), colors[int(dot)])
    draw_frame(img, box, INK, width=_BORDER_PX)


def _draw_hole(img: Image.Image, box: Box) -> None:
    draw_rect(img, box, PAPER)
    draw_frame(img, box, INK, width=_BORDER_PX)
    draw_text_centered(img, ((box[0] + box[2]) // 2, (box[1] + box[3]) // 2), "?", 7)
