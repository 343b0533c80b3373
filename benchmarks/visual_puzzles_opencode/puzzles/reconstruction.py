"""Reconstruction: which of the numbered parts, laid beside each other, make up the target figure."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    RULE,
    Box,
    Color,
    Point,
    draw_frame,
    draw_rect,
    new_canvas,
)
from benchmarks.visual_puzzles_opencode.puzzles.panels import (
    GAP_PX,
    MARGIN_PX,
    Panels,
    draw_captions,
    numbers,
)

SUBTYPE = "Reconstruction"
CATEGORY = "Fine-grained Discrimination"

Shape = frozenset[Point]
"""Cells (row, column); moved so that the least of each is 0 where the place does not count."""

_CELL_PX = 26
_BORDER_PX = 2
_NEIGHBOURS = ((0, 1), (1, 0), (0, -1), (-1, 0))


@dataclass(frozen=True)
class _Level:
    used: int
    shown: int
    cells: int
    """Of each part."""
    part_side: int
    """The longest side that a part may have."""
    target_side: int


_LEVELS = {1: _Level(3, 5, 4, 3, 6), 2: _Level(4, 7, 5, 4, 7), 3: _Level(5, 8, 6, 4, 8)}


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in the number and size of the parts, which all have as many cells as each other."""
    shape = _LEVELS[level]
    while True:
        target, used = _figure(rng, shape)
        parts = _with_others(rng, shape, used)
        rng.shuffle(parts)
        if len(list(_covers(target, parts))) == 1:
            break
    answer = ",".join(str(index + 1) for index, part in enumerate(parts) if part in used)

    panel = shape.part_side * _CELL_PX + 2 * MARGIN_PX
    panels = Panels(shape.shown, panel, panel, per_row=shape.shown if shape.shown < 7 else 4)
    side = shape.target_side * _CELL_PX + 2 * MARGIN_PX
    parts_top = side + 2 * MARGIN_PX + GAP_PX
    img = new_canvas(max(side, panels.size[0]) + 2 * MARGIN_PX, parts_top + panels.size[1])
    left = (img.width - side) // 2
    whole = (left, MARGIN_PX, left + side, MARGIN_PX + side)
    _draw_shape(img, whole, target, INK)
    draw_rect(img, (MARGIN_PX, parts_top - GAP_PX, img.width - MARGIN_PX, parts_top - GAP_PX + 2), RULE)
    boxes = panels.boxes(((img.width - panels.size[0]) // 2, parts_top))
    colors = list(PALETTE.values())
    rng.shuffle(colors)
    for box, part, color in zip(boxes, parts, colors, strict=False):
        _draw_shape(img, box, part, color)
    draw_captions(img, boxes, numbers(shape.shown))
    return Puzzle(
        image=img,
        question=(
            f"The black figure at the top can be put together from {shape.used} of the {shape.shown} numbered parts "
            "below, each used once, without overlap and without gaps. Parts are only moved: they are not turned, "
            "mirrored or resized, and their colours do not matter. Which parts are used? Answer with their numbers in "
            "ascending order, separated by commas."
        ),
        answer=answer,
        answer_kind=AnswerKind.SET,
        roi=(whole, *(box for box, part in zip(boxes, parts, strict=True) if part in used)),
        structure={"target": _rows(target), "parts": [_rows(part) for part in parts]},
    )


def solve(puzzle: Puzzle) -> str:
    """The one set of parts that covers the target exactly."""
    parts = [_cells(rows) for rows in puzzle.structure["parts"]]
    [cover] = {*_covers(_cells(puzzle.structure["target"]), parts)}
    return ",".join(str(index + 1) for index in sorted(cover))


def _figure(rng: random.Random, shape: _Level) -> tuple[Shape, list[Shape]]:
    """A figure that fits in its panel, and the different parts that it grew from."""
    while True:
        filled: set[Point] = set()
        parts: list[Shape] = []
        while len(parts) < shape.used:
            part = _grown(rng, filled, shape)
            if part is None or _normal(part) in parts:
                break
            parts.append(_normal(part))
            filled |= part
        if len(parts) == shape.used and _is_within(_normal(frozenset(filled)), shape.target_side):
            return _normal(frozenset(filled)), parts


def _grown(rng: random.Random, filled: set[Point], shape: _Level) -> Shape | None:
    """A part that touches what is filled, or None when this try found no room."""
    edge = sorted({(r + down, c + across) for r, c in filled for down, across in _NEIGHBOURS} - filled) or [(0, 0)]
    part = {rng.choice(edge)}
    while len(part) < shape.cells:
        free = {(r + down, c + across) for r, c in part for down, across in _NEIGHBOURS} - filled - part
        if not free:
            return None
        # Cells with many neighbours come first now and then, which keeps figures and parts compact.
        cell = max(
            rng.sample(sorted(free), min(2, len(free))),
            key=lambda cell: sum((cell[0] + down, cell[1] + across) in filled for down, across in _NEIGHBOURS),
        )
        part.add(cell)
    return frozenset(part) if _is_within(_normal(frozenset(part)), shape.part_side) else None


def _with_others(rng: random.Random, shape: _Level, used: Sequence[Shape]) -> list[Shape]:
    """The parts used and as many others as are shown: one cell of a used part moved, or a part mirrored."""
    parts = list(used)
    while len(parts) < shape.shown:
        source = rng.choice(used)
        other = _normal(frozenset((r, -c) for r, c in source)) if rng.random() < 0.3 else _with_moved_cell(rng, source)
        if other not in parts and _is_within(other, shape.part_side):
            parts.append(other)
    return parts


def _with_moved_cell(rng: random.Random, part: Shape) -> Shape:
    """Another part in one piece that shares all cells but one."""
    while True:
        rest = part - {rng.choice(sorted(part))}
        free = {(r + down, c + across) for r, c in rest for down, across in _NEIGHBOURS} - part
        moved = rest | {rng.choice(sorted(free))}
        if _is_in_one_piece(moved):
            return _normal(moved)


def _is_in_one_piece(cells: Shape) -> bool:
    seen: set[Point] = set()
    front = [min(cells)]
    while front:
        r, c = front.pop()
        if (r, c) in cells and (r, c) not in seen:
            seen.add((r, c))
            front += [(r + down, c + across) for down, across in _NEIGHBOURS]
    return len(seen) == len(cells)


def _covers(target: Shape, parts: Sequence[Shape], used: frozenset[int] = frozenset()) -> Iterator[frozenset[int]]:
    """The sets of parts that fill the target, once for each way to lay them: the first free cell is filled next."""
    if not target:
        yield used
        return
    row, column = min(target)
    for index, part in enumerate(parts):
        if index not in used:
            # The least cell of the part has to lie on the least free cell, or that one would stay free.
            top, left = min(part)
            moved = frozenset((r - top + row, c - left + column) for r, c in part)
            if moved <= target:
                yield from _covers(target - moved, parts, used | {index})


def _normal(cells: Shape) -> Shape:
    top, left = (min(cell[axis] for cell in cells) for axis in (0, 1))
    return frozenset((r - top, c - left) for r, c in cells)


def _is_within(cells: Shape, side: int) -> bool:
    return max(max(cell) for cell in cells) < side


def _rows(cells: Shape) -> list[str]:
    height, width = (max(cell[axis] for cell in cells) + 1 for axis in (0, 1))
    return ["".join("#" if (r, c) in cells else "." for c in range(width)) for r in range(height)]


def _cells(rows: Sequence[str]) -> Shape:
    return frozenset((r, c) for r, row in enumerate(rows) for c, cell in enumerate(row) if cell == "#")


def _draw_shape(img: Image.Image, box: Box, cells: Shape, color: Color) -> None:
    """Centred in a frame, with the lines between its cells."""
    draw_frame(img, box, RULE, width=_BORDER_PX)
    height, width = (max(cell[axis] for cell in cells) + 1 for axis in (0, 1))
    left = (box[0] + box[2] - width * _CELL_PX) // 2
    top = (box[1] + box[3] - height * _CELL_PX) // 2
    for r, c in sorted(cells):
        x, y = left + c * _CELL_PX, top + r * _CELL_PX
        draw_rect(img, (x, y, x + _CELL_PX, y + _CELL_PX), color)
        draw_frame(img, (x, y, x + _CELL_PX, y + _CELL_PX), RULE)
