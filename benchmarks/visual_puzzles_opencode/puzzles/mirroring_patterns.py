"""Mirroring Patterns: a coloured grid beside a dashed axis; which of the numbered grids is its mirror image."""

import random
from dataclasses import dataclass

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.cells import (
    Pattern,
    cell_difference,
    draw_pattern,
    random_pattern,
    with_changed_cells,
)
from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    RULE,
    Box,
    Point,
    draw_frame,
    draw_rect,
    draw_text_centered,
    new_canvas,
)

SUBTYPE = "Mirroring Patterns"
CATEGORY = "Visual Pattern Recognition"

_MARGIN_PX = 24
_GAP_PX = 28
_CAPTION_PX = 44
_OPTIONS_PER_ROW = 4


@dataclass(frozen=True)
class _Layout:
    cells: int
    """Along each side."""
    cell_px: int
    colors: int
    options: int
    changed_cells: tuple[int, ...]
    """In how many cells the near-copies among the options differ from the right one."""


_LAYOUT = {
    1: _Layout(cells=4, cell_px=30, colors=3, options=4, changed_cells=()),
    2: _Layout(cells=5, cell_px=26, colors=4, options=6, changed_cells=(2, 2)),
    3: _Layout(cells=7, cell_px=20, colors=5, options=8, changed_cells=(1, 1, 1, 1)),
}


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in size, colours and options, and in how few cells the near-copies differ."""
    layout = _LAYOUT[level]
    colors = [PALETTE[name] for name in rng.sample(list(PALETTE), layout.colors)]
    axis = rng.choice(("vertical", "horizontal"))
    source_first = rng.random() < 0.5
    source = _lopsided_pattern(rng, layout)
    image = _reflected(source, axis)
    candidates = [image, *_distractors(rng, layout, source, axis)]
    rng.shuffle(candidates)

    side = layout.cells * layout.cell_px + 1
    columns = min(_OPTIONS_PER_ROW, layout.options)
    rows = -(-layout.options // columns)
    pair = 2 * side + _GAP_PX
    pair_width, pair_height = (pair, side) if axis == "vertical" else (side, pair)
    width = 2 * _MARGIN_PX + columns * side + (columns - 1) * _GAP_PX
    options_top = 2 * _MARGIN_PX + pair_height + _GAP_PX
    img = new_canvas(width, options_top + rows * (side + _CAPTION_PX))
    pair_left, pair_top = (width - pair_width) // 2, _MARGIN_PX
    far = (pair_left + pair_width - side, pair_top + pair_height - side)
    near = (pair_left, pair_top)
    draw_pattern(img, near if source_first else far, source, colors, layout.cell_px)
    _draw_unknown(img, far if source_first else near, side)
    _draw_axis(img, (pair_left, pair_top, pair_left + pair_width, pair_top + pair_height), axis)
    draw_rect(img, (_MARGIN_PX, options_top - _MARGIN_PX, width - _MARGIN_PX, options_top - _MARGIN_PX + 2), RULE)

    boxes: list[Box] = []
    for index, candidate in enumerate(candidates):
        left = _MARGIN_PX + index % columns * (side + _GAP_PX)
        top = options_top + index // columns * (side + _CAPTION_PX)
        draw_pattern(img, (left, top), candidate, colors, layout.cell_px)
        draw_text_centered(img, (left + side // 2, top + side + 18), str(index + 1), 3)
        boxes.append((left, top, left + side, top + side))
    right = candidates.index(image)
    return Puzzle(
        image=img,
        question=(
            f"The {layout.cells} by {layout.cells} grid of coloured cells at the top is reflected in the dashed line. "
            f"Which of the numbered grids below belongs in the frame with the question mark? Answer with the letter of "
            "the option."
        ),
        answer=chr(ord("A") + right),
        answer_kind=AnswerKind.LETTER,
        options=tuple(f"Grid {index + 1}" for index in range(layout.options)),
        roi=(boxes[right],),
        structure={"source": list(source), "axis": axis, "candidates": [list(candidate) for candidate in candidates]},
    )


def solve(puzzle: Puzzle) -> str:
    """Compare each option cell by cell with the cell at the same distance behind the axis."""
    source, axis = puzzle.structure["source"], puzzle.structure["axis"]
    last = len(source) - 1
    cells = [(r, c) for r in range(last + 1) for c in range(last + 1)]
    [right] = [
        index
        for index, candidate in enumerate(puzzle.structure["candidates"])
        if all(
            candidate[r][c] == (source[r][last - c] if axis == "vertical" else source[last - r][c]) for r, c in cells
        )
    ]
    return "ABCDEFGH"[right]


def _lopsided_pattern(rng: random.Random, layout: _Layout) -> Pattern:
    """A random pattern of which all turned and mirrored forms differ, and differ in more than near-copies do."""
    while True:
        pattern = random_pattern(rng, layout.cells, layout.colors)
        forms = [pattern, *_wrong_forms(pattern, "vertical"), *_wrong_forms(pattern, "horizontal")]
        if (
            all(cell_difference(a, b) >= 4 for i, a in enumerate(forms) for b in forms[:i] if a != b)
            and len({*forms}) >= 6
        ):
            return pattern


def _distractors(rng: random.Random, layout: _Layout, source: Pattern, axis: str) -> list[Pattern]:
    """Wrong options, all different: near-copies of the right one, then whole figures turned the wrong way."""
    right = _reflected(source, axis)
    near: list[Pattern] = []
    for count in layout.changed_cells:
        while (copy := with_changed_cells(rng, right, count, layout.colors)) in near:
            continue
        near.append(copy)
    return near + rng.sample(_wrong_forms(source, axis), layout.options - 1 - len(near))


def _wrong_forms(source: Pattern, axis: str) -> list[Pattern]:
    """The source as it is, mirrored the other way, and turned by a quarter, a half and three quarters."""
    quarter = tuple("".join(column) for column in zip(*reversed(source), strict=True))
    half = _reflected(_reflected(source, "vertical"), "horizontal")
    other = "horizontal" if axis == "vertical" else "vertical"
    return [source, _reflected(source, other), quarter, half, _reflected(_reflected(quarter, "vertical"), "horizontal")]


def _reflected(pattern: Pattern, axis: str) -> Pattern:
    return tuple(row[::-1] for row in pattern) if axis == "vertical" else pattern[::-1]


def _draw_unknown(img: Image.Image, corner: Point, side: int) -> None:
    draw_frame(img, (corner[0], corner[1], corner[0] + side, corner[1] + side), INK, width=2)
    draw_text_centered(img, (corner[0] + side // 2, corner[1] + side // 2), "?", 6)


def _draw_axis(img: Image.Image, pair: Box, axis: str) -> None:
    """Dashes down (or across) the middle of the two frames, a little longer than they are."""
    left, top, right, bottom = pair
    middle_x, middle_y = (left + right) // 2, (top + bottom) // 2
    start, end = (top - 12, bottom + 12) if axis == "vertical" else (left - 12, right + 12)
    for at in range(start, end, 14):
        stop = min(at + 9, end)
        box = (middle_x - 1, at, middle_x + 2, stop) if axis == "vertical" else (at, middle_y - 1, stop, middle_y + 2)
        draw_rect(img, box, INK)
