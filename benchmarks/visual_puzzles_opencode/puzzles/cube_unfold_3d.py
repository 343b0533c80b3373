"""3D Cube Unfold: the net of a cube with a letter on each face; which of the numbered cubes can be folded from it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, product

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.choice_sheet import new_choice_sheet
from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    FONT,
    GLYPH_HEIGHT,
    GLYPH_WIDTH,
    INK,
    PALETTE,
    Color,
    Point,
    draw_frame,
    draw_glyph,
    draw_polygon,
    draw_rect,
)
from benchmarks.visual_puzzles_opencode.puzzles.isometric import Cell3, Projection, draw_outline, shaded
from benchmarks.visual_puzzles_opencode.puzzles.panels import Panels, letters, numbers

SUBTYPE = "3D Cube Unfold"
CATEGORY = "Spatial Perception"

_NETS = (
    (".#..", "####", ".#.."), ("#...", "####", "#..."), ("#...", "####", ".#.."), ("#...", "####", "..#."),
    ("#...", "####", "...#"), (".#..", "####", "..#."), ("##...", ".###.", ".#..."), ("##...", ".###.", "..#.."),
    ("##...", ".###.", "...#."), ("##..", ".##.", "..##"), ("###..", "..###", "....."),
)  # fmt: skip
"""All eleven, up to turns and mirror images."""
_LETTERS = "FGJLPRQAEK4"
"""Characters that look otherwise when they are turned, and none like another that is."""
_COLORS = ("orange", "pink", "cyan", "green")
_NET_CELL_PX = 63
_NINTHS = Projection(across_px=7, down_px=4, up_px=8)
"""Points of a cube's face are counted in ninths of its side: a letter is five wide and seven high."""
_SIDE = 9

Vector = Cell3


@dataclass(frozen=True)
class _Face:
    """A face of the cube whose middle is the origin, and how its letter stands on it."""

    letter: str
    right: Vector
    """Where the letter's right is."""
    down: Vector

    @property
    def out(self) -> Vector:
        """The side of the cube; seen from outside, `right` turns to `down` clockwise.

        The picture's axes are left-handed: x to the lower right, y to the lower left, z up.
        """
        (a, b, c), (d, e, f) = self.right, self.down
        return (b * f - c * e, c * d - a * f, a * e - b * d)


@dataclass(frozen=True)
class _Level:
    options: int
    letter_turned: int
    """Wrong cubes on which one letter is turned; the others have two letters in each other's place."""


_LEVELS = {1: _Level(4, 0), 2: _Level(5, 2), 3: _Level(6, 4)}


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in the number of cubes, and in how many are wrong in how one letter stands and in nothing else."""
    shape = _LEVELS[level]
    net = rng.choice(_NETS)
    cells = [(r, c) for r, row in enumerate(net) for c, cell in enumerate(row) if cell == "#"]
    marks = dict(zip(cells, rng.sample(_LETTERS, 6), strict=True))
    faces = _folded(marks)
    right = _seen(_turned(rng, faces))
    candidates = [right, *_distractors(rng, shape, faces)]
    rng.shuffle(candidates)

    rows, columns = max(r for r, _ in cells) + 1, max(c for _, c in cells) + 1
    size = _NINTHS.size((_SIDE, _SIDE, _SIDE))
    panels = Panels(shape.options, *size, per_row=4 if shape.options < 5 else 3)
    sheet = new_choice_sheet((columns * _NET_CELL_PX + 1, rows * _NET_CELL_PX + 1), panels)
    color = PALETTE[rng.choice(_COLORS)]
    for (r, c), letter in marks.items():
        _draw_net_cell(
            sheet.image, (sheet.corner[0] + c * _NET_CELL_PX, sheet.corner[1] + r * _NET_CELL_PX), letter, color
        )
    for box, candidate in zip(sheet.boxes, candidates, strict=True):
        projection = _NINTHS.at((box[0], box[1]), (_SIDE, _SIDE, _SIDE))
        for face in candidate:
            _draw_face(sheet.image, projection, face, color)
    place = candidates.index(right)
    return Puzzle(
        image=sheet.image,
        question=(
            "The net at the top is folded to a cube, with the printed side outside. Which of the numbered cubes can it "
            "be? How the characters stand on their faces counts. Answer with the letter of the option."
        ),
        answer=letters(shape.options)[place],
        answer_kind=AnswerKind.LETTER,
        options=tuple(f"Cube {number}" for number in numbers(shape.options)),
        roi=(sheet.boxes[place],),
        structure={
            "net": [[r, c, letter] for (r, c), letter in marks.items()],
            "candidates": [[[face.letter, *_corner_names(face)] for face in candidate] for candidate in candidates],
        },
    )


def solve(puzzle: Puzzle) -> str:
    """Glue the net's corners to the corners 0 to 7 of a cube, and compare at which corners the letters meet.

    Two faces of a cube share two corners, and where those lie on either letter says how the faces lie together.
    """
    glued = _glued({(r, c): letter for r, c, letter in puzzle.structure["net"]})
    fits = [
        index
        for index, cube in enumerate(puzzle.structure["candidates"])
        if _meetings({letter: corners for letter, *corners in cube})
        == _meetings({letter: glued[letter] for letter, *_ in cube})
    ]
    [right] = fits
    return letters(right + 1)[-1]


def _meetings(faces: dict[str, Sequence[int]]) -> set[tuple[tuple[str, int], ...]]:
    """For each corner of the cube the letters there, each with which of its four corners that is."""
    return {
        tuple(sorted((letter, own.index(corner)) for letter, own in faces.items() if corner in own))
        for corner in range(8)
    }


def _glued(marks: dict[Point, str]) -> dict[str, list[int]]:
    """By letter the names of its corners: top left, top right, bottom right, bottom left.

    Bits of a name say on which side it lies; an edge's two ends, followed to the opposite face, differ in one bit.
    """
    start = next(iter(marks))
    corners = {start: [0, 1, 3, 2]}
    front = [start]
    while front:
        r, c = front.pop()
        top_left, top_right, bottom_right, bottom_left = corners[r, c]
        deep = top_left ^ top_right ^ bottom_left  # the corner beyond the diagonal is bottom_right
        away = 7 ^ (top_left ^ top_right) ^ (top_left ^ bottom_left)
        if deep != bottom_right:
            raise ValueError("cube unfold: a face of the net does not close")
        beyond = {
            (r, c + 1): [top_right, top_right ^ away, bottom_right ^ away, bottom_right],
            (r, c - 1): [top_left ^ away, top_left, bottom_left, bottom_left ^ away],
            (r + 1, c): [bottom_left, bottom_right, bottom_right ^ away, bottom_left ^ away],
            (r - 1, c): [top_left ^ away, top_right ^ away, top_right, top_left],
        }
        for cell in beyond.keys() & marks.keys() - corners.keys():
            corners[cell] = beyond[cell]
            front.append(cell)
    return {letter: corners[cell] for cell, letter in marks.items()}


def _folded(marks: dict[Point, str]) -> list[_Face]:
    """Roll over the net: to the right, what was right becomes outside."""
    start = next(iter(marks))
    frames = {start: _Face(marks[start], (1, 0, 0), (0, 1, 0))}
    front = [start]
    while front:
        r, c = front.pop()
        here = frames[r, c]
        out, right, down = here.out, here.right, here.down
        beside = {
            (r, c + 1): (_negative(out), down),
            (r, c - 1): (out, down),
            (r + 1, c): (right, _negative(out)),
            (r - 1, c): (right, out),
        }
        for cell in sorted(beside.keys() & marks.keys() - frames.keys()):
            frames[cell] = _Face(marks[cell], *beside[cell])
            front.append(cell)
    return list(frames.values())


def _negative(vector: Vector) -> Vector:
    return (-vector[0], -vector[1], -vector[2])


def _turned(rng: random.Random, faces: Sequence[_Face]) -> list[_Face]:
    """The cube in one of its 24 positions."""
    order, signs = rng.choice(_ROTATIONS)

    def turn(vector: Vector) -> Vector:
        x, y, z = (sign * vector[axis] for axis, sign in zip(order, signs, strict=True))
        return (x, y, z)

    return [_Face(face.letter, turn(face.right), turn(face.down)) for face in faces]


def _is_rotation(order: tuple[int, ...], signs: tuple[int, ...]) -> bool:
    swaps = sum(order[i] > order[j] for i in range(3) for j in range(i + 1, 3))
    return signs[0] * signs[1] * signs[2] == 1 - 2 * (swaps % 2)


_ROTATIONS = [
    (order, signs)
    for order in permutations(range(3))
    for signs in product((1, -1), repeat=3)
    if _is_rotation(order, signs)
]


def _seen(faces: Sequence[_Face]) -> tuple[_Face, ...]:
    """The three faces that the picture shows, that along x first."""
    sides: tuple[Vector, ...] = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    return tuple(face for side in sides for face in faces if face.out == side)


def _distractors(rng: random.Random, shape: _Level, faces: Sequence[_Face]) -> list[tuple[_Face, ...]]:
    """Wrong cubes: one letter turned, or two letters exchanged."""
    found: list[tuple[_Face, ...]] = []
    while len(found) < shape.options - 1:
        seen = list(_seen(_turned(rng, faces)))
        a, b = rng.sample(range(3), 2)
        if len(found) < shape.letter_turned:
            turns = ((seen[a].down, _negative(seen[a].right)), (_negative(seen[a].right), _negative(seen[a].down)))
            seen[a] = _Face(seen[a].letter, *rng.choice(turns))
        else:
            first, second = seen[a], seen[b]
            seen[a] = _Face(second.letter, first.right, first.down)
            seen[b] = _Face(first.letter, second.right, second.down)
        if tuple(seen) not in found:
            found.append(tuple(seen))
    return found


def _corner_names(face: _Face) -> list[int]:
    """Top left, top right, bottom right, bottom left of the letter; bits of a name say on which side it lies."""
    names = []
    for on_right, on_down in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
        point = [o + on_right * r + on_down * d for o, r, d in zip(face.out, face.right, face.down, strict=True)]
        names.append(sum(1 << axis for axis in range(3) if point[axis] > 0))
    return names


def _draw_net_cell(img: Image.Image, corner: Point, letter: str, color: Color) -> None:
    x, y = corner
    box = (x, y, x + _NET_CELL_PX + 1, y + _NET_CELL_PX + 1)
    draw_rect(img, box, shaded(color, 2))
    draw_frame(img, box, INK)
    ninth = _NET_CELL_PX // _SIDE
    draw_glyph(img, (x + 2 * ninth, y + ninth), FONT[letter], ninth)


def _draw_face(img: Image.Image, projection: Projection, face: _Face, color: Color) -> None:
    """The face with its letter, dot by dot."""

    def place(column: int, row: int) -> Point:
        """A point of the face, in ninths from the letter's top left."""
        x, y, z = (
            (_SIDE * (1 + o) + (2 * column - _SIDE) * r + (2 * row - _SIDE) * d) // 2
            for o, r, d in zip(face.out, face.right, face.down, strict=True)
        )
        return projection.place((x, y, z))

    def corners(column: int, row: int, width: int, height: int) -> list[Point]:
        right, bottom = column + width, row + height
        return [place(column, row), place(right, row), place(right, bottom), place(column, bottom)]

    whole = corners(0, 0, _SIDE, _SIDE)
    draw_polygon(img, whole, shaded(color, face.out.index(1)))
    draw_outline(img, whole, INK)
    for row, column in product(range(GLYPH_HEIGHT), range(GLYPH_WIDTH)):
        if FONT[face.letter][row][column] == "#":
            draw_polygon(img, corners(column + 2, row + 1, 1, 1), INK)
