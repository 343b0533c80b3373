"""Find the shadow: coloured figures put together from simple shapes, and their black outlines in another order."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageChops

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
    draw_frame,
    draw_polygon,
    draw_rect,
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

SUBTYPE = "Find the shadow"
CATEGORY = "Fine-grained Discrimination"

_SIDE_PX = 148
_REACH_PX = 64
"""How far a figure reaches from the middle of its panel."""
_SAMPLE_PX = 4
"""From one sample to the next. Samples lie at odd pixels and sides of boxes at even ones, so no sample is on a side."""
_LEAST_DIFFERENCE_PX = 260
"""Of two shadows, in pixels."""


@dataclass(frozen=True)
class _Level:
    figures: int
    families: int
    """Figures that have nothing to do with each other; all others are near-copies of them."""
    per_row: int
    is_turned: bool


_LEVELS = {1: _Level(4, 4, 4, False), 2: _Level(6, 3, 6, False), 3: _Level(8, 3, 4, True)}


@dataclass(frozen=True)
class _Part:
    """A polygon around the middle of a panel, or with a radius a disc around its one point."""

    points: tuple[Point, ...]
    radius: int = 0

    def turned(self, quarters: int) -> "_Part":
        """Clockwise."""
        points = self.points
        for _ in range(quarters):
            points = tuple((-y, x) for x, y in points)
        return _Part(points, self.radius)

    def mirrored(self) -> "_Part":
        return _Part(tuple((-x, y) for x, y in self.points), self.radius)

    def moved(self, across: int, down: int) -> "_Part":
        return _Part(tuple((x + across, y + down) for x, y in self.points), self.radius)

    def is_inside(self) -> bool:
        reach = _REACH_PX - self.radius
        return all(-reach <= x <= reach and -reach <= y <= reach for x, y in self.points)


_Figure = tuple[_Part, ...]


def generate(rng: random.Random, level: int) -> Puzzle:
    """Level 1 shows unlike figures, level 2 near-copies, level 3 turns the shadows too."""
    shape = _LEVELS[level]
    figures = _figures(rng, shape)
    order = rng.sample(range(shape.figures), shape.figures)
    shadows = [_turned(figures[index], rng.randrange(4) if shape.is_turned else 0) for index in order]

    panels = Panels(shape.figures, _SIDE_PX, _SIDE_PX, per_row=shape.per_row)
    shadows_top = panels.size[1] + 2 * MARGIN_PX + GAP_PX
    img = new_canvas(panels.size[0] + 2 * MARGIN_PX, shadows_top + panels.size[1])
    draw_rect(img, (MARGIN_PX, shadows_top - GAP_PX, img.width - MARGIN_PX, shadows_top - GAP_PX + 2), RULE)
    boxes, shadow_boxes = panels.boxes((MARGIN_PX, MARGIN_PX)), panels.boxes((MARGIN_PX, shadows_top))
    for box, figure in zip(boxes, figures, strict=True):
        _draw_figure(img, box, figure, [PALETTE[name] for name in rng.sample(sorted(PALETTE), len(figure))])
    for box, shadow in zip(shadow_boxes, shadows, strict=True):
        _draw_figure(img, box, shadow, [INK] * len(shadow))
    draw_captions(img, boxes, numbers(shape.figures))
    draw_captions(img, shadow_boxes, letters(shape.figures))
    names = [letters(shape.figures)[order.index(index)] for index in range(shape.figures)]
    turned = (
        " A shadow may be turned by a quarter, a half or three quarters of a circle, but is never mirrored."
        if shape.is_turned
        else " Shadows are neither turned nor mirrored."
    )
    return Puzzle(
        image=img,
        question=(
            f"Above the line are {shape.figures} numbered figures, below it their black shadows in another order, of "
            f"the same size.{turned} Which shadow belongs to each figure? Answer with one pair for every figure, in "
            "ascending order of the numbers, in the form 1-X,2-Y,3-Z."
        ),
        answer=",".join(f"{number}-{name}" for number, name in enumerate(names, start=1)),
        answer_kind=AnswerKind.PAIRS,
        roi=tuple(shadow_boxes),
        structure={
            "figures": [[[[list(p) for p in part.points], part.radius] for part in figure] for figure in figures],
            "shadows": [_sampled(img, box) for box in shadow_boxes],
            "is_turned": shape.is_turned,
        },
    )


def solve(puzzle: Puzzle) -> str:
    """Work out by geometry which samples each figure covers, and find the shadow that has the same ones."""
    figures = [
        tuple(_Part(tuple((x, y) for x, y in points), radius) for points, radius in figure)
        for figure in puzzle.structure["figures"]
    ]
    shadows = puzzle.structure["shadows"]
    turns = range(4) if puzzle.structure["is_turned"] else range(1)
    pairs = []
    for number, figure in enumerate(figures, start=1):
        covers = [_covered(_turned(figure, turn)) for turn in turns]
        nearest = min(
            range(len(shadows)), key=lambda index: min(_difference(cover, shadows[index]) for cover in covers)
        )
        pairs.append(f"{number}-{letters(nearest + 1)[-1]}")
    return ",".join(pairs)


def _figures(rng: random.Random, shape: _Level) -> list[_Figure]:
    """Figures whose shadows all differ, however they may be turned."""
    turns = range(4) if shape.is_turned else range(1)
    figures: list[_Figure] = []
    masks: list[Image.Image] = []
    while len(figures) < shape.figures:
        is_new = len(figures) < shape.families
        figure = _random_figure(rng) if is_new else _near_copy(rng, figures[len(figures) % shape.families])
        if not all(part.is_inside() for part in figure):
            continue
        turned = [_mask(_turned(figure, turn)) for turn in turns]
        if all(_pixel_difference(mask, known) >= _LEAST_DIFFERENCE_PX for mask in turned for known in masks):
            figures.append(figure)
            masks.append(turned[0])
    return figures


def _mask(figure: _Figure) -> Image.Image:
    """The shadow as it is drawn, in grey levels."""
    img = new_canvas(_SIDE_PX, _SIDE_PX)
    _draw_figure(img, (0, 0, _SIDE_PX, _SIDE_PX), figure, [INK] * len(figure))
    return img.convert("L")


def _pixel_difference(one: Image.Image, other: Image.Image) -> int:
    return _SIDE_PX**2 - ImageChops.difference(one, other).histogram()[0]


def _random_figure(rng: random.Random) -> _Figure:
    """A body, and three parts around it."""
    wide, high = 2 * rng.randint(7, 16), 2 * rng.randint(7, 16)
    parts = [_box(0, 0, wide, high)]
    for side in rng.sample(((1, 0), (-1, 0), (0, 1), (0, -1)), 3):
        x, y = side[0] * wide + 2 * rng.randint(-4, 4), side[1] * high + 2 * rng.randint(-4, 4)
        kind = rng.choice(("disc", "box", "triangle"))
        if kind == "disc":
            parts.append(_Part(((x, y),), rng.randint(12, 24)))
        elif kind == "box":
            parts.append(_box(x, y, 2 * rng.randint(4, 13), 2 * rng.randint(4, 13)))
        else:
            reach, spread = 2 * rng.randint(9, 15), 2 * rng.randint(5, 12)
            across, down = side
            tip = (x + across * reach, y + down * reach)
            parts.append(
                _Part((tip, (x + down * spread, y + across * spread), (x - down * spread, y - across * spread)))
            )
    return tuple(parts)


def _box(x: int, y: int, half_width: int, half_height: int) -> _Part:
    left, top, right, bottom = x - half_width, y - half_height, x + half_width, y + half_height
    return _Part(((left, top), (right, top), (right, bottom), (left, bottom)))


def _near_copy(rng: random.Random, figure: _Figure) -> _Figure:
    """The mirror image, or one part moved."""
    if rng.random() < 0.3:
        return tuple(part.mirrored() for part in figure)
    changed = rng.randrange(1, len(figure))
    across, down = 2 * rng.choice((-1, 1)) * rng.randint(5, 10), 2 * rng.choice((-1, 0, 1)) * rng.randint(5, 10)
    return tuple(part.moved(across, down) if index == changed else part for index, part in enumerate(figure))


def _turned(figure: _Figure, quarters: int) -> _Figure:
    return tuple(part.turned(quarters) for part in figure)


def _covered(figure: _Figure) -> list[str]:
    """The samples of a panel that the figure covers, row by row: "#" in, "." out."""
    half = _SIDE_PX // 2
    places = range(1 - half, half, _SAMPLE_PX)
    return ["".join("#" if any(_has(part, (x, y)) for part in figure) else "." for x in places) for y in places]


def _has(part: _Part, point: Point) -> bool:
    (x, y), points = point, part.points
    if part.radius:
        return (x - points[0][0]) ** 2 + (y - points[0][1]) ** 2 <= part.radius * (part.radius + 1)
    is_inside = False
    for (x1, y1), (x2, y2) in zip(points, points[1:] + points[:1], strict=True):
        if (y1 > y) != (y2 > y):
            # Where the side crosses the height of the point, without division.
            cross = (x - x1) * (y2 - y1) - (y - y1) * (x2 - x1)
            is_inside ^= (cross < 0) == (y2 > y1)
    return is_inside


def _sampled(img: Image.Image, box: Box) -> list[str]:
    """The samples of a drawn shadow."""
    places = range(1, _SIDE_PX, _SAMPLE_PX)
    return [
        "".join("#" if 5 < x < _SIDE_PX - 5 and img.getpixel((box[0] + x, box[1] + y)) == INK else "." for x in places)
        if 5 < y < _SIDE_PX - 5
        else "." * len(places)
        for y in places
    ]


def _difference(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(a != b for row_a, row_b in zip(one, other, strict=True) for a, b in zip(row_a, row_b, strict=True))


def _draw_figure(img: Image.Image, box: Box, figure: _Figure, colors: Sequence[Color]) -> None:
    draw_rect(img, box, PAPER)
    draw_frame(img, box, RULE, width=2)
    middle_x, middle_y = box[0] + _SIDE_PX // 2, box[1] + _SIDE_PX // 2
    for part, color in zip(figure, colors, strict=True):
        points = [(middle_x + x, middle_y + y) for x, y in part.points]
        if part.radius:
            draw_disc(img, points[0], part.radius, color)
        else:
            draw_polygon(img, points, color)
