"""3D Pattern Completion: a cuboid of cubes with a corner missing; which of the numbered pieces fills the gap."""

import random
from dataclasses import dataclass
from itertools import permutations, product

from benchmarks.visual_puzzles_opencode.puzzles.choice_sheet import new_choice_sheet
from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import PALETTE, RULE
from benchmarks.visual_puzzles_opencode.puzzles.isometric import (
    Cell3,
    Heights,
    Projection,
    cubes_of,
    draw_cubes,
    draw_outline,
    face_corners,
)
from benchmarks.visual_puzzles_opencode.puzzles.panels import Panels, letters, numbers

SUBTYPE = "3D Pattern Completion"
CATEGORY = "Spatial Perception"

_SMALL = Projection(across_px=21, down_px=12, up_px=27)
"""Of the pieces."""

Cubes = frozenset[Cell3]


@dataclass(frozen=True)
class _Level:
    side: int
    """Cubes of the cuboid along x and y."""
    high: int
    least: int
    """Cubes that are missing."""
    most: int
    options: int


_LEVELS = {1: _Level(3, 2, 4, 7, 4), 2: _Level(3, 3, 6, 12, 5), 3: _Level(4, 3, 9, 16, 6)}


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in the size of the cuboid and of the gap, and in the number of pieces."""
    shape = _LEVELS[level]
    right = _piece(rng, shape)
    candidates = [right, *_distractors(rng, shape, right)]
    rng.shuffle(candidates)
    remaining = _remaining(right, shape)

    extent = (shape.side, shape.side, shape.high)
    projection = Projection()
    panels = Panels(shape.options, *_SMALL.size(extent), per_row=4 if shape.options < 5 else 3)
    sheet = new_choice_sheet(projection.size(extent), panels)
    projection = projection.at(sheet.corner, extent)
    for axis in range(3):
        corners = face_corners((0, 0, 0), axis)
        outer = [(x * shape.side, y * shape.side, z * shape.high) for x, y, z in corners]
        draw_outline(sheet.image, [projection.place(corner) for corner in outer], RULE)
    whole, pieces = (PALETTE[name] for name in rng.sample(("orange", "pink", "cyan", "green"), 2))
    draw_cubes(sheet.image, projection, cubes_of(remaining), whole)
    for box, candidate in zip(sheet.boxes, candidates, strict=True):
        draw_cubes(sheet.image, _SMALL.at((box[0], box[1]), extent), cubes_of(candidate), pieces)
    place = candidates.index(right)
    return Puzzle(
        image=sheet.image,
        question=(
            f"The figure at the top is a block of {shape.side} by {shape.side} by {shape.high} cubes from which one "
            "piece at the corner nearest to the viewer was taken; the grey lines show the whole block, and nothing is "
            "missing where it cannot be seen. Which of the numbered pieces fills the gap exactly? A piece may be "
            "turned in space, but not mirrored, and it stands on its floor without gaps below. Answer with the letter "
            "of the option."
        ),
        answer=letters(shape.options)[place],
        answer_kind=AnswerKind.LETTER,
        options=tuple(f"Piece {number}" for number in numbers(shape.options)),
        roi=(sheet.boxes[place],),
        structure={
            "extent": list(extent),
            "remaining": sorted(map(list, cubes_of(remaining))),
            "candidates": [sorted(map(list, cubes_of(candidate))) for candidate in candidates],
        },
    )


def solve(puzzle: Puzzle) -> str:
    """Put each piece, in each of its 24 positions, into the gap."""
    width, depth, high = puzzle.structure["extent"]
    whole = frozenset(product(range(width), range(depth), range(high)))
    gap = _at_origin(whole - {(x, y, z) for x, y, z in puzzle.structure["remaining"]})
    pieces = [frozenset((x, y, z) for x, y, z in piece) for piece in puzzle.structure["candidates"]]
    [right] = [index for index, piece in enumerate(pieces) if gap in positions(piece)]
    return letters(right + 1)[-1]


def positions(cubes: Cubes) -> set[Cubes]:
    """The piece in all its turned positions, moved to the origin."""
    found = set()
    for order in permutations(range(3)):
        swaps = sum(order[i] > order[j] for i in range(3) for j in range(i + 1, 3))
        for a, b in product((1, -1), repeat=2):
            # The third sign makes it a turn and no mirror image.
            signs = (a, b, a * b * (1 - 2 * (swaps % 2)))
            found.add(_at_origin(frozenset(_turned(cube, order, signs) for cube in cubes)))
    return found


def _turned(cube: Cell3, order: tuple[int, ...], signs: Cell3) -> Cell3:
    x, y, z = (sign * cube[axis] for axis, sign in zip(order, signs, strict=True))
    return (x, y, z)


def _at_origin(cubes: Cubes) -> Cubes:
    low = [min(cube[axis] for cube in cubes) for axis in range(3)]
    return frozenset((x - low[0], y - low[1], z - low[2]) for x, y, z in cubes)


def _piece(rng: random.Random, shape: _Level) -> Heights:
    """A pile that falls towards the viewer, so that all of it is known from its picture, and is not its own mirror."""
    while True:
        piece = _pile(rng, shape)
        size = sum(map(sum, piece))
        if shape.least <= size <= shape.most and cubes_of(_mirrored(piece)) not in positions(cubes_of(piece)):
            return piece


def _pile(rng: random.Random, shape: _Level) -> Heights:
    """Neither along x nor along y does a stack stand before a lower one."""
    rows: list[tuple[int, ...]] = []
    above = (shape.high,) * shape.side
    for _ in range(shape.side):
        row, most = [], shape.high
        for limit in above:
            most = rng.randint(0, min(most, limit))
            row.append(most)
        above = tuple(row)
        rows.append(above)
    return tuple(rows)


def _mirrored(piece: Heights) -> Heights:
    return tuple(zip(*piece, strict=True))


def _remaining(piece: Heights, shape: _Level) -> Heights:
    """What the piece leaves of the block when it is put in upside down, its high corner nearest to the viewer.

    Turned by half a turn about x, then by a quarter about z: in sum x and y are exchanged and z is reversed, and both
    floors begin at the far end.
    """
    last = shape.side - 1
    return tuple(tuple(shape.high - piece[last - y][last - x] for y in range(shape.side)) for x in range(shape.side))


def _distractors(rng: random.Random, shape: _Level, right: Heights) -> list[Heights]:
    """The mirror image, then near-copies of either with one cube elsewhere; as many cubes, and never the same piece."""
    found = [right, _mirrored(right)]
    while len(found) < shape.options:
        copy = [list(row) for row in rng.choice(found[:2])]
        (x1, y1), (x2, y2) = rng.sample(sorted(product(range(shape.side), repeat=2)), 2)
        copy[x1][y1] -= 1
        copy[x2][y2] += 1
        pile = tuple(map(tuple, copy))
        if _is_pile(pile, shape) and not any(cubes_of(pile) in positions(cubes_of(piece)) for piece in found):
            found.append(pile)
    return found[1:]


def _is_pile(heights: Heights, shape: _Level) -> bool:
    lines = [*heights, *zip(*heights, strict=True)]
    return all(min(line) >= 0 and max(line) <= shape.high for line in lines) and all(
        list(line) == sorted(line, reverse=True) for line in lines
    )
