"""Paper Folding: a square sheet is folded up to three times and punched; what it looks like when it is opened again."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.choice_sheet import new_choice_sheet
from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    PAPER,
    RULE,
    Box,
    Color,
    Point,
    draw_disc,
    draw_line,
    draw_polygon,
    draw_rect,
)
from benchmarks.visual_puzzles_opencode.puzzles.panels import GAP_PX, Panels, letters, numbers

SUBTYPE = "Paper Folding"
CATEGORY = "Spatial Perception"

_CELLS = 8
"""Along each side of the sheet; a hole is punched in the middle of a cell."""
_CELL_PX = 18
_SIDE_PX = _CELLS * _CELL_PX
_FRAME_PX = _SIDE_PX + 1
_SHEET: Color = (250, 236, 190)
_CREASE = PALETTE["red"]
_HOLE_PX = 6

Cells = frozenset[Point]
Turned = Literal["left", "right", "top", "bottom", "top left", "top right", "bottom left", "bottom right"]
"""The part of the sheet that is turned over onto the other half."""
_HALVES: tuple[Turned, ...] = ("left", "right", "top", "bottom")
_CORNERS: tuple[Turned, ...] = ("top left", "top right", "bottom left", "bottom right")


@dataclass(frozen=True)
class _Level:
    folds: int
    punches: int
    options: int
    diagonal: float
    """Chance that the last fold is one along a diagonal."""


_LEVELS = {1: _Level(1, 2, 4, 0.3), 2: _Level(2, 2, 5, 0.0), 3: _Level(3, 2, 6, 0.5)}


@dataclass(frozen=True)
class _Region:
    """A rectangle of cells, right and bottom not included: what lies there of the sheet before a fold."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def box_px(self) -> Box:
        """From the top left corner of the sheet."""
        return (self.left * _CELL_PX, self.top * _CELL_PX, self.right * _CELL_PX, self.bottom * _CELL_PX)


@dataclass(frozen=True)
class _Fold:
    region: _Region
    turned: Turned

    def mirrored(self, cell: Point) -> Point:
        """Where a cell comes to lie when it is turned over."""
        x, y = cell
        left, top, right, bottom = self.region.left, self.region.top, self.region.right, self.region.bottom
        if self.turned in ("left", "right"):
            return (left + right - 1 - x, y)
        if self.turned in ("top", "bottom"):
            return (x, top + bottom - 1 - y)
        if self.turned in ("top right", "bottom left"):
            return (left + y - top, top + x - left)
        return (left + bottom - 1 - y, top + right - 1 - x)

    def is_turned(self, cell: Point) -> bool:
        x, y = cell
        right, down = 2 * x + 1 - self.region.left - self.region.right, 2 * y + 1 - self.region.top - self.region.bottom
        push = {"left": -right, "right": right, "top": -down, "bottom": down}
        return sum(push[word] for word in self.turned.split()) > 0

    @property
    def crease_px(self) -> tuple[Point, Point]:
        """Ends of the line along which the sheet is folded."""
        left, top, right, bottom = self.region.box_px
        x, y = (left + right) // 2, (top + bottom) // 2
        if self.turned in ("left", "right"):
            return (x, top), (x, bottom)
        if self.turned in ("top", "bottom"):
            return (left, y), (right, y)
        if self.turned in ("top right", "bottom left"):
            return (left, top), (right, bottom)
        return (right, top), (left, bottom)

    @property
    def outline_px(self) -> tuple[Point, ...]:
        """Corners of what is left when the part is turned over."""
        left, top, right, bottom = self.region.box_px
        x, y = (left + right) // 2, (top + bottom) // 2
        corners = {"top left": (left, top), "top right": (right, top)}
        corners |= {"bottom right": (right, bottom), "bottom left": (left, bottom)}
        if self.turned in corners:
            return tuple(corner for name, corner in corners.items() if name != self.turned)
        box = {"left": (x, top, right, bottom), "right": (left, top, x, bottom)}
        box |= {"top": (left, y, right, bottom), "bottom": (left, top, right, y)}
        return _corners(box[self.turned])


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in the number of folds and options; diagonal folds come at the first and the third."""
    shape = _LEVELS[level]
    folds = _folds(rng, shape)
    layers = _layers(folds)
    punches = frozenset(rng.sample(sorted(layers), shape.punches))
    right = _opened(layers, punches)
    candidates = [right, *_distractors(rng, shape, layers, punches)]
    rng.shuffle(candidates)

    steps = Panels(shape.folds + 1, _FRAME_PX, _FRAME_PX)
    panels = Panels(shape.options, _FRAME_PX, _FRAME_PX, per_row=4 if shape.options < 5 else 3)
    sheet = new_choice_sheet((steps.size[0], _FRAME_PX), panels)
    whole = _corners(_Region(0, 0, _CELLS, _CELLS).box_px)
    outlines = [whole, *(fold.outline_px for fold in folds)]
    for box, outline, fold in zip(steps.boxes(sheet.corner), outlines, [*folds, None], strict=True):
        _draw_polygon_outlined(sheet.image, box[:2], whole, PAPER, RULE)
        _draw_polygon_outlined(sheet.image, box[:2], outline, _SHEET, INK)
        if fold:
            _draw_crease(sheet.image, box[:2], fold)
            _draw_next(sheet.image, (box[2] + GAP_PX // 2, (box[1] + box[3]) // 2))
        else:
            _draw_holes(sheet.image, box[:2], punches)
    for box, candidate in zip(sheet.boxes, candidates, strict=True):
        _draw_polygon_outlined(sheet.image, box[:2], whole, _SHEET, INK)
        _draw_holes(sheet.image, box[:2], candidate)
    place = candidates.index(right)
    return Puzzle(
        image=sheet.image,
        question=(
            "A square sheet of paper is folded along the dashed red lines, from left to right in the top row; each "
            "time the part with the blue dot is turned over onto the rest. In the last picture of the row the folded "
            "sheet is punched through all its layers at the black holes. Which of the numbered sheets shows it opened "
            "again? Answer with the letter of the option."
        ),
        answer=letters(shape.options)[place],
        answer_kind=AnswerKind.LETTER,
        options=tuple(f"Sheet {number}" for number in numbers(shape.options)),
        roi=(sheet.boxes[place],),
        structure={
            "creases": [[list(end) for end in fold.crease_px] for fold in folds],
            "cell_px": _CELL_PX,
            "punches": sorted(map(list, punches)),
            "candidates": [sorted(map(list, candidate)) for candidate in candidates],
        },
    )


def solve(puzzle: Puzzle) -> str:
    """Open the sheet fold by fold: every hole gets its mirror image in the crease. No layers are followed."""
    cell_px = puzzle.structure["cell_px"]
    # In doubled pixels the middles of cells are whole numbers.
    holes = {((2 * x + 1) * cell_px, (2 * y + 1) * cell_px) for x, y in puzzle.structure["punches"]}
    for (x1, y1), (x2, y2) in reversed(puzzle.structure["creases"]):
        along_x, along_y = x2 - x1, y2 - y1
        length = along_x**2 + along_y**2
        for x, y in list(holes):
            off = along_x * (y - 2 * y1) - along_y * (x - 2 * x1)
            holes.add((x + 2 * off * along_y // length, y - 2 * off * along_x // length))
    wanted = sorted([(x // cell_px - 1) // 2, (y // cell_px - 1) // 2] for x, y in holes)
    [right] = [index for index, candidate in enumerate(puzzle.structure["candidates"]) if candidate == wanted]
    return letters(right + 1)[-1]


def _folds(rng: random.Random, shape: _Level) -> list[_Fold]:
    """Into halves, twice in no direction but to a strip of two cells; a diagonal one only last, on a square."""
    while True:
        region, folds = _Region(0, 0, _CELLS, _CELLS), list[_Fold]()
        for index in range(shape.folds):
            is_square = region.right - region.left == region.bottom - region.top
            is_diagonal = index == shape.folds - 1 and is_square and rng.random() < shape.diagonal
            folds.append(_Fold(region, rng.choice(_CORNERS if is_diagonal else _HALVES)))
            region = _kept(folds[-1])
        if min(region.right - region.left, region.bottom - region.top) >= 2:
            return folds


def _kept(fold: _Fold) -> _Region:
    """The region after a fold; the whole square after a diagonal one."""
    xs, ys = [x // _CELL_PX for x, _ in fold.outline_px], [y // _CELL_PX for _, y in fold.outline_px]
    return _Region(min(xs), min(ys), max(xs), max(ys))


def _layers(folds: Iterable[_Fold]) -> dict[Point, list[Point]]:
    """For each cell of the folded sheet the cells of the open one that lie there. None are cut by a crease."""
    layers = {(x, y): [(x, y)] for x in range(_CELLS) for y in range(_CELLS)}
    for fold in folds:
        for cell in [cell for cell in layers if fold.is_turned(cell)]:
            layers[fold.mirrored(cell)] = layers[fold.mirrored(cell)] + layers.pop(cell)
    most = max(map(len, layers.values()))
    return {cell: below for cell, below in layers.items() if len(below) == most}


def _opened(layers: dict[Point, list[Point]], punches: Iterable[Point]) -> Cells:
    return frozenset(cell for punch in punches for cell in layers[punch])


def _distractors(rng: random.Random, shape: _Level, layers: dict[Point, list[Point]], punches: Cells) -> list[Cells]:
    """As many holes as the right one has: punched beside the right place, or with one hole away from its place."""
    right = _opened(layers, punches)
    everywhere = {(x, y) for x in range(_CELLS) for y in range(_CELLS)}
    found = [right]
    while len(found) < shape.options:
        # By chance, not by count: a small folded sheet has too few places to punch elsewhere.
        if rng.random() < 0.6:
            candidate = _opened(layers, _with_one_moved(rng, punches, set(layers)))
        else:
            candidate = _with_one_moved(rng, right, everywhere)
        if candidate not in found:
            found.append(candidate)
    return found[1:]


def _with_one_moved(rng: random.Random, cells: Cells, allowed: set[Point]) -> Cells:
    """One cell goes to a free place beside it, if there is one."""
    x, y = rng.choice(sorted(cells))
    beside = {(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)} & allowed - cells
    return cells - {(x, y)} | {rng.choice(sorted(beside))} if beside else cells


def _corners(box: Box) -> tuple[Point, ...]:
    left, top, right, bottom = box
    return ((left, top), (right, top), (right, bottom), (left, bottom))


def _draw_polygon_outlined(
    img: Image.Image, corner: Point, outline: tuple[Point, ...], fill: Color, line: Color
) -> None:
    points = [(corner[0] + x, corner[1] + y) for x, y in outline]
    draw_polygon(img, points, fill)
    for start, end in zip(points, [*points[1:], points[0]], strict=True):
        draw_line(img, start, end, 1, line)


def _draw_crease(img: Image.Image, corner: Point, fold: _Fold) -> None:
    """Dashes along the crease, and a blue dot in the middle of the part that is turned over."""
    (x1, y1), (x2, y2) = fold.crease_px
    length = max(abs(x2 - x1), abs(y2 - y1))
    step_x, step_y = (x2 - x1) // length, (y2 - y1) // length
    for at in range(0, length, 12):
        end = min(at + 7, length)
        ends = [(corner[0] + x1 + step_x * t, corner[1] + y1 + step_y * t) for t in (at, end)]
        draw_line(img, ends[0], ends[1], 3, _CREASE)
    left, top, right, bottom = fold.region.box_px
    quarter = (right - left) // 4, (bottom - top) // 4
    side = {"left": (-1, 0), "right": (1, 0), "top": (0, -1), "bottom": (0, 1)}
    words = fold.turned.split()
    dx, dy = (sum(side[word][axis] for word in words) * quarter[axis] for axis in (0, 1))
    draw_disc(img, (corner[0] + (left + right) // 2 + dx, corner[1] + (top + bottom) // 2 + dy), 7, PALETTE["blue"])


def _draw_holes(img: Image.Image, corner: Point, holes: Iterable[Point]) -> None:
    for x, y in holes:
        center = (corner[0] + x * _CELL_PX + _CELL_PX // 2, corner[1] + y * _CELL_PX + _CELL_PX // 2)
        draw_disc(img, center, _HOLE_PX, INK)


def _draw_next(img: Image.Image, center: Point) -> None:
    """A small arrow to the right."""
    x, y = center
    draw_rect(img, (x - 8, y - 1, x + 2, y + 2), INK)
    draw_polygon(img, [(x + 1, y - 6), (x + 8, y), (x + 1, y + 6)], INK)
