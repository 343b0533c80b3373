"""Count 3D blocks: stacks of equal cubes on a floor, drawn in space; how many cubes there are, hidden ones included."""

import random
from dataclasses import dataclass

from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import PALETTE, new_canvas
from benchmarks.visual_puzzles_opencode.puzzles.isometric import (
    Heights,
    Projection,
    cubes_of,
    draw_cubes,
    draw_floor,
    with_all_tops_seen,
)
from benchmarks.visual_puzzles_opencode.puzzles.panels import MARGIN_PX

SUBTYPE = "Count 3D blocks"
CATEGORY = "Spatial Perception"

_COLORS = ("orange", "pink", "cyan", "green")
"""Bright enough for three shades."""


@dataclass(frozen=True)
class _Level:
    side: int
    """Floor cells along each side."""
    most_high: int
    least: int
    """Cubes."""
    most: int


_LEVELS = {1: _Level(3, 3, 5, 20), 2: _Level(4, 3, 14, 36), 3: _Level(5, 4, 26, 64)}


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in the size of the floor and the height of the stacks."""
    shape = _LEVELS[level]
    heights = _heights(rng, shape)
    cubes = cubes_of(heights)
    extent = (shape.side, shape.side, shape.most_high)
    projection = Projection(across_px=42, down_px=24, up_px=54)
    width, height = projection.size(extent)
    projection = projection.at((MARGIN_PX, MARGIN_PX), extent)
    img = new_canvas(width + 2 * MARGIN_PX, height + 2 * MARGIN_PX)
    draw_floor(img, projection, shape.side, shape.side)
    draw_cubes(img, projection, cubes, PALETTE[rng.choice(_COLORS)])
    return Puzzle(
        image=img,
        question=(
            f"Equal cubes are stacked on a floor of {shape.side} by {shape.side} cells. Every cube stands on the floor "
            "or on another cube, no cube floats, and the top of every stack can be seen, at least in part. How many "
            "cubes are there in all, those that are hidden included? Answer with a number."
        ),
        answer=str(len(cubes)),
        answer_kind=AnswerKind.INT,
        roi=((MARGIN_PX, MARGIN_PX, MARGIN_PX + width, MARGIN_PX + height),),
        structure={"side": shape.side, "heights": [list(row) for row in heights]},
    )


def solve(puzzle: Puzzle) -> str:
    """Slice by slice: how many stacks reach each height."""
    stacks = [height for row in puzzle.structure["heights"] for height in row]
    return str(sum(sum(height > slice_z for height in stacks) for slice_z in range(max(stacks))))


def _heights(rng: random.Random, shape: _Level) -> Heights:
    """Stacks that all show their tops, lower towards the viewer; the floor cells without one are seen as well."""
    places = range(shape.side)
    while True:
        drawn = tuple(tuple(rng.randint(0, max(1, shape.most_high - (x + y) // 2)) for y in places) for x in places)
        heights = with_all_tops_seen(drawn, most_high=shape.most_high)
        if shape.least <= sum(map(sum, heights)) <= shape.most:
            return heights
