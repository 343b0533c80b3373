"""Find the same: numbered figures, of which some come in identical pairs among near-copies."""

import random
from collections import defaultdict
from dataclasses import dataclass

from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    RULE,
    Glyph,
    Point,
    draw_frame,
    draw_glyph,
    new_canvas,
)
from benchmarks.visual_puzzles_opencode.puzzles.glyphs import mirrored, upside_down, with_one_dot_moved
from benchmarks.visual_puzzles_opencode.puzzles.panels import MARGIN_PX, Panels, draw_captions, numbers

SUBTYPE = "Find the same"
CATEGORY = "Fine-grained Discrimination"

_DOTS = 7
"""Along each side of a figure."""
_DOT_PX = 13
_ROOM_PX = 18
"""Between a figure's box and its panel's frame."""


@dataclass(frozen=True)
class _Level:
    panels: int
    pairs: int
    per_row: int
    families: int
    """Figures that have nothing to do with each other; all others are changed from one of them."""


_LEVELS = {1: _Level(6, 2, 3, 6), 2: _Level(10, 3, 5, 4), 3: _Level(14, 4, 7, 2)}


def generate(rng: random.Random, level: int) -> Puzzle:
    """Level 1 shows unlike figures, level 2 mirror images too, level 3 many that differ in one dot, all in colours."""
    shape = _LEVELS[level]
    kinds = _figures(rng, shape, shape.panels - shape.pairs)
    figures = kinds + kinds[: shape.pairs]
    order = rng.sample(range(shape.panels), shape.panels)
    shown = [figures[index] for index in order]

    side = _DOTS * _DOT_PX + 2 * _ROOM_PX
    panels = Panels(shape.panels, side, side, per_row=shape.per_row)
    img = new_canvas(panels.size[0] + 2 * MARGIN_PX, panels.size[1] + 2 * MARGIN_PX)
    boxes = panels.boxes((MARGIN_PX, MARGIN_PX))
    colors = [INK] if level == 1 else list(PALETTE.values())
    for box, figure in zip(boxes, shown, strict=True):
        draw_frame(img, box, RULE, width=2)
        draw_glyph(img, (box[0] + _ROOM_PX, box[1] + _ROOM_PX), figure, _DOT_PX, rng.choice(colors))
    draw_captions(img, boxes, numbers(shape.panels))
    pairs = sorted(
        tuple(sorted((order.index(kind), order.index(shape.panels - shape.pairs + kind))))
        for kind in range(shape.pairs)
    )
    ignored = " Colour does not matter." if level > 1 else ""
    return Puzzle(
        image=img,
        question=(
            f"Of the {shape.panels} numbered figures, {2 * shape.pairs} form {shape.pairs} pairs of figures that are "
            "exactly the same, in the same orientation and not mirrored; every other figure occurs once."
            f"{ignored} Which figures are the same? Answer with the pairs of numbers, in the form X-Y,X-Y."
        ),
        answer=",".join(f"{one + 1}-{other + 1}" for one, other in pairs),
        answer_kind=AnswerKind.PAIRS,
        roi=tuple(boxes[index] for pair in pairs for index in pair),
        structure={"figures": [list(figure) for figure in shown]},
    )


def solve(puzzle: Puzzle) -> str:
    """Gather the numbers under which each figure is shown."""
    places: dict[str, list[int]] = defaultdict(list)
    for number, figure in enumerate(puzzle.structure["figures"], start=1):
        places["/".join(figure)].append(number)
    twice = sorted((found[0], found[1]) for found in places.values() if len(found) == 2)
    return ",".join(f"{one}-{other}" for one, other in twice)


def _figures(rng: random.Random, shape: _Level, count: int) -> list[Glyph]:
    """Figures that all differ wherever they lie in their panel; those of a family differ in one dot or by a mirror."""
    bases: list[Glyph] = []
    while len(bases) < shape.families:
        base = _random_figure(rng)
        forms = {_trimmed(form) for form in (base, mirrored(base), upside_down(base), mirrored(upside_down(base)))}
        if len(forms) == 4:
            bases.append(base)
    figures = bases[:count]
    while len(figures) < count:
        base = bases[len(figures) % len(bases)]
        is_turned = shape.families > 2 and rng.random() < 0.5
        changed = rng.choice((mirrored, upside_down))(base) if is_turned else with_one_dot_moved(rng, base)
        if _trimmed(changed) not in map(_trimmed, figures):
            figures.append(changed)
    rng.shuffle(figures)
    return figures


def _random_figure(rng: random.Random) -> Glyph:
    """Dots that hang together, as wide and high as the panel lets them be."""
    while True:
        dots: set[Point] = {(_DOTS // 2, _DOTS // 2)}
        size = rng.randint(19, 25)
        while len(dots) < size:
            row, column = rng.choice(sorted(dots))
            down, across = rng.choice(((0, 1), (0, -1), (1, 0), (-1, 0)))
            if 0 <= row + down < _DOTS and 0 <= column + across < _DOTS:
                dots.add((row + down, column + across))
        if all({dot[axis] for dot in dots} == set(range(_DOTS)) for axis in (0, 1)):
            return tuple("".join("#" if (r, c) in dots else "." for c in range(_DOTS)) for r in range(_DOTS))


def _trimmed(glyph: Glyph) -> Glyph:
    """Without empty rows and columns at the sides."""
    rows = [r for r, row in enumerate(glyph) if "#" in row]
    columns = [c for c in range(len(glyph[0])) if any(row[c] == "#" for row in glyph)]
    return tuple(row[columns[0] : columns[-1] + 1] for row in glyph[rows[0] : rows[-1] + 1])
