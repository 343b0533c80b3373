"""3D Views: stacks of cubes drawn in space; which of the numbered grids is their outline from the arrow's side."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.cells import draw_pattern
from benchmarks.visual_puzzles_opencode.puzzles.choice_sheet import new_choice_sheet
from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    PAPER,
    RULE,
    Point,
    draw_frame,
    draw_polygon,
)
from benchmarks.visual_puzzles_opencode.puzzles.isometric import (
    Heights,
    Projection,
    cubes_of,
    draw_cubes,
    draw_floor,
    with_all_tops_seen,
)
from benchmarks.visual_puzzles_opencode.puzzles.panels import Panels, letters, numbers

SUBTYPE = "3D Views"
CATEGORY = "Spatial Perception"

_CELL_PX = 30
_ARROW_PX = 46
"""Room below the cubes."""
_COLORS = ("orange", "pink", "cyan", "green")

View = tuple[int, ...]
"""Heights of an outline from left to right."""


@dataclass(frozen=True)
class _Level:
    side: int
    most_high: int
    options: int
    sides: tuple[str, ...]
    """From which the cubes may be looked at; "x" and "y" are seen in the picture, "-x" and "-y" lie behind."""


_LEVELS = {
    1: _Level(3, 3, 4, ("x", "y")),
    2: _Level(3, 3, 5, ("x", "y", "-x", "-y")),
    3: _Level(4, 4, 6, ("x", "y", "-x", "-y")),
}


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in size and options, and in whether the cubes are looked at from behind."""
    shape = _LEVELS[level]
    look_from = rng.choice(shape.sides)
    heights = _heights(rng, shape, look_from)
    right = _view(heights, look_from)
    candidates = [right, *_distractors(rng, shape, heights, look_from)]
    rng.shuffle(candidates)

    extent = (shape.side, shape.side, shape.most_high)
    projection = Projection()
    width, height = projection.size(extent)
    panel = (shape.side * _CELL_PX + 1, shape.most_high * _CELL_PX + 1)
    panels = Panels(shape.options, *panel, per_row=4 if shape.options < 5 else 3)
    sheet = new_choice_sheet((width + 2 * _ARROW_PX, height + 2 * _ARROW_PX), panels)
    projection = projection.at((sheet.corner[0] + _ARROW_PX, sheet.corner[1] + _ARROW_PX), extent)
    draw_floor(sheet.image, projection, shape.side, shape.side)
    draw_cubes(sheet.image, projection, cubes_of(heights), PALETTE[rng.choice(_COLORS)])
    _draw_arrow(sheet.image, projection, shape.side, look_from)
    for box, candidate in zip(sheet.boxes, candidates, strict=True):
        draw_pattern(sheet.image, box[:2], _filled(candidate, shape.most_high), (PAPER, INK), _CELL_PX, RULE)
        draw_frame(sheet.image, box, INK)
    place = candidates.index(right)
    return Puzzle(
        image=sheet.image,
        question=(
            f"Equal cubes are stacked on a floor of {shape.side} by {shape.side} cells; no cube floats, and the top of "
            "every stack can be seen, at least in part. Somebody looks at them level with the floor, in the direction "
            "of the blue arrow. Which of the numbered grids shows the outline seen from there, black where there are "
            "cubes, with the floor at the lower edge? Answer with the letter of the option."
        ),
        answer=letters(shape.options)[place],
        answer_kind=AnswerKind.LETTER,
        options=tuple(f"Grid {number}" for number in numbers(shape.options)),
        roi=(sheet.boxes[place],),
        structure={
            "cubes": sorted(map(list, cubes_of(heights))),
            "side": shape.side,
            "look_from": look_from,
            "candidates": [list(_filled(candidate, shape.most_high)) for candidate in candidates],
        },
    )


def solve(puzzle: Puzzle) -> str:
    """Turn the cubes until they are looked at from y, and mark the cell of the outline before each cube."""
    side, cubes = puzzle.structure["side"], puzzle.structure["cubes"]
    for _ in range(("y", "x", "-y", "-x").index(puzzle.structure["look_from"])):
        cubes = [[side - 1 - y, x, z] for x, y, z in cubes]
    marked = {(x, z) for x, _, z in cubes}
    [right] = [
        index
        for index, rows in enumerate(puzzle.structure["candidates"])
        if {(x, len(rows) - 1 - r) for r, row in enumerate(rows) for x, cell in enumerate(row) if cell == "1"} == marked
    ]
    return letters(right + 1)[-1]


def _view(heights: Heights, look_from: str) -> View:
    """From y the left of the outline is at the least x, from x it is at the greatest y; from behind the reverse."""
    if look_from.endswith("y"):
        view = tuple(max(row) for row in heights)
        return view if look_from == "y" else view[::-1]
    view = tuple(max(column) for column in zip(*heights, strict=True))
    return view[::-1] if look_from == "x" else view


def _heights(rng: random.Random, shape: _Level, look_from: str) -> Heights:
    """Stacks whose outline is not its own mirror image, and is another than that from the side beside it."""
    places = range(shape.side)
    while True:
        drawn = tuple(tuple(rng.randint(0, max(1, shape.most_high - (x + y) // 2)) for y in places) for x in places)
        right = _view(drawn, look_from)
        if right == right[::-1] or max(right) < 2:
            continue
        heights = with_all_tops_seen(drawn, most_high=shape.most_high)
        views = {_view(heights, side) for side in ("x", "-x", "y", "-y")}
        if len(views) == 4:
            return heights


def _distractors(rng: random.Random, shape: _Level, heights: Heights, look_from: str) -> list[View]:
    """The mirror image, the outline from another side, and near-copies, one stack a cube higher or lower."""
    right = _view(heights, look_from)
    others = [_view(heights, side) for side in ("x", "-x", "y", "-y") if side != look_from]
    found = [right, right[::-1], rng.choice([view for view in others if view != right[::-1]])]
    while len(found) < shape.options:
        copy = list(rng.choice(found))
        copy[rng.randrange(shape.side)] += rng.choice((-1, 1))
        if all(0 <= height <= shape.most_high for height in copy) and tuple(copy) not in found:
            found.append(tuple(copy))
    return found[1:]


def _filled(view: View, most_high: int) -> tuple[str, ...]:
    """Rows of cells from the top, "1" where there are cubes."""
    return tuple("".join("1" if height > z else "0" for height in view) for z in reversed(range(most_high)))


def _draw_arrow(img: Image.Image, projection: Projection, side: int, look_from: str) -> None:
    """On the floor's level, towards the middle of that side; from behind so far out that no cube is before it."""
    (x1, y1), (x2, y2) = projection.place((side, side, 0)), projection.place((0, 0, 0))
    across = projection.across_px if look_from.endswith("x") else -projection.across_px
    away = (across, projection.down_px)
    tip = 4 * side + 2
    if look_from.startswith("-"):
        away, tip = (-away[0], -away[1]), 8 * side + 2
    draw_polygon(img, _arrow(((x1 + x2) // 2, (y1 + y2) // 2), away, tip), PALETTE["blue"])


def _arrow(center: Point, away: Point, tip: int) -> Sequence[Point]:
    """Corners of an arrow; `away` is the step of a cell from the middle of the floor, `tip` in eighths of it."""
    (ux, uy), (vx, vy) = away, (-away[0], away[1])
    shape = ((0, 0), (4, 4), (4, 1), (10, 1), (10, -1), (4, -1), (4, -4))
    return [(center[0] + ((tip + a) * ux + b * vx) // 8, center[1] + ((tip + a) * uy + b * vy) // 8) for a, b in shape]
