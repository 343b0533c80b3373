"""Lines Observation: bent lines run through a lattice of dots; count the dots that lie on each of them.

Lines step from lattice point to lattice point, some of which have a dot and some not. No two lines share a lattice
point, so a dot belongs to one line or to none; lines may cross between the points. The generator counts while it
strews the dots; `solve` tests every dot against every stretch of every line.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    PAPER,
    Box,
    Color,
    Point,
    draw_disc,
    draw_polyline,
    draw_text_centered,
    new_canvas,
)

SUBTYPE = "Lines Observation"
CATEGORY = "Visual Tracking"

PITCH = 44
MARGIN = 40
STROKE = 5
DOT = 6
LABEL = 12

UNIT_STEPS = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))
LONG_STEPS = ((2, 1), (1, 2), (-1, 2), (-2, 1), (-2, -1), (-1, -2), (1, -2), (2, -1))
"""Like a knight's: they pass lattice points at 0.45 of the pitch, which is far enough to see."""


@dataclass(frozen=True)
class _Level:
    columns: int
    rows: int
    lines: int
    shortest: int
    longest: int
    """Bounds of the lattice points on a line."""
    steps: tuple[Point, ...]
    may_cross: bool
    is_one_color: bool


LEVELS = {
    1: _Level(9, 7, 3, 7, 12, UNIT_STEPS, may_cross=False, is_one_color=False),
    2: _Level(12, 9, 5, 9, 15, UNIT_STEPS, may_cross=True, is_one_color=False),
    3: _Level(14, 11, 6, 10, 16, UNIT_STEPS + LONG_STEPS, may_cross=True, is_one_color=True),
}

Stretch = tuple[Point, Point]
Crossing = tuple[Fraction, Fraction]


def generate(rng: random.Random, level: int) -> Puzzle:
    shape = LEVELS[level]
    lines = _draw_up(rng, shape)
    dots: set[Point] = set()
    counts: list[int] = []
    for line in lines:
        marked = [point for point in line[1:-1] if rng.random() < 0.7]
        dots.update(marked, line[-1:])
        counts.append(len(marked) + 1)
    taken = {point for line in lines for point in line}
    dots.update(point for point in _lattice(shape) if point not in taken and rng.random() < 0.7)
    is_ranked = rng.random() < 0.5
    return Puzzle(
        image=_render(lines, sorted(dots), shape, _colors(rng, shape)),
        question=_question(shape.lines, is_ranked),
        answer=",".join(map(str, sorted(counts, reverse=True) if is_ranked else counts)),
        answer_kind=AnswerKind.SEQUENCE,
        roi=tuple(_bounds(line) for line in lines),
        structure={
            "order": "descending" if is_ranked else "alphabetical",
            "lines": {_letter(index): [list(_pixel(point)) for point in line] for index, line in enumerate(lines)},
            "dots": [list(_pixel(point)) for point in sorted(dots)],
        },
    )


def solve(puzzle: Puzzle) -> str:
    """Count the dots that lie exactly on a stretch of a line. Raises ValueError for a dot on two lines."""
    lines: dict[str, list[list[int]]] = puzzle.structure["lines"]
    counts = dict.fromkeys(sorted(lines), 0)
    for x, y in puzzle.structure["dots"]:
        owners = [name for name, line in lines.items() if any(_covers(*ends, (x, y)) for ends in pairwise(line))]
        if len(owners) > 1:
            raise ValueError(f"lines observation: the dot at {(x, y)} lies on {' and '.join(owners)}")
        for name in owners:
            counts[name] += 1
    numbers = list(counts.values())
    return ",".join(map(str, sorted(numbers, reverse=True) if puzzle.structure["order"] == "descending" else numbers))


def _covers(start: list[int], end: list[int], dot: Point) -> bool:
    (x0, y0), (x1, y1), (x, y) = start, end, dot
    is_between = min(x0, x1) <= x <= max(x0, x1) and min(y0, y1) <= y <= max(y0, y1)
    return is_between and (x1 - x0) * (y - y0) == (y1 - y0) * (x - x0)


def _question(lines: int, is_ranked: bool) -> str:
    order = "from the largest number to the smallest" if is_ranked else "in alphabetical order of the lines' letters"
    return (
        f"Each of the {lines} lines begins at a disc with its letter and goes on to its other end. Where two lines "
        "cross, both go straight on. How many of the black dots lie on each line, its last dot included? Answer with "
        f"the {lines} numbers {order}, separated by commas."
    )


def _letter(index: int) -> str:
    return chr(ord("A") + index)


def _lattice(shape: _Level) -> Iterator[Point]:
    return ((column, row) for column in range(shape.columns) for row in range(shape.rows))


def _pixel(point: Point) -> Point:
    return MARGIN + point[0] * PITCH, MARGIN + point[1] * PITCH


def _bounds(line: list[Point]) -> Box:
    pixels = [_pixel(point) for point in line]
    xs, ys = [x for x, _ in pixels], [y for _, y in pixels]
    return min(xs) - LABEL, min(ys) - LABEL, max(xs) + LABEL + 1, max(ys) + LABEL + 1


def _draw_up(rng: random.Random, shape: _Level) -> list[list[Point]]:
    """Lines of this level, from the labelled end to the other; begun anew when one finds no room."""
    while True:
        board = _Board(shape)
        lines = [line for _ in range(shape.lines) if (line := _walk(rng, board)) is not None]
        if len(lines) == shape.lines and (not shape.may_cross or len(board.crossings) >= shape.lines - 2):
            return lines


def _walk(rng: random.Random, board: "_Board") -> list[Point] | None:
    """A line laid on the board, or None when the try ran into a corner too early."""
    for _ in range(60):
        length = rng.randint(board.shape.shortest, board.shape.longest)
        line = [rng.choice([point for point in _lattice(board.shape) if point not in board.taken])]
        while len(line) < length:
            ahead = [point for point in board.next_points(line) if board.has_room(line, point)]
            if not ahead:
                break
            line.append(rng.choice(ahead))
        if len(line) == length:
            board.lay(line)
            return line
    return None


class _Board:
    """What is laid already, and whether a further stretch would still be easy to tell apart from it."""

    def __init__(self, shape: _Level) -> None:
        self.shape = shape
        self.taken: set[Point] = set()
        self.stretches: list[Stretch] = []
        self.crossings: set[Crossing] = set()

    def next_points(self, line: list[Point]) -> list[Point]:
        """Free points one step on, without turning by more than a right angle."""
        x, y = line[-1]
        run, rise = (x - line[-2][0], y - line[-2][1]) if len(line) > 1 else (0, 0)
        return [
            (x + dx, y + dy)
            for dx, dy in self.shape.steps
            if dx * run + dy * rise >= 0
            and 0 <= x + dx < self.shape.columns
            and 0 <= y + dy < self.shape.rows
            and (x + dx, y + dy) not in self.taken
            and (x + dx, y + dy) not in line
        ]

    def has_room(self, line: list[Point], point: Point) -> bool:
        """No crossing with the line itself; with others only openly, and never three at one point."""
        stretch = (line[-1], point)
        if any(_crossing(stretch, own) for own in pairwise(line[:-1])):
            return False
        met = [(other, at) for other in self.stretches if (at := _crossing(stretch, other))]
        if not self.shape.may_cross:
            return not met
        return all(at not in self.crossings and _is_clear(stretch, other, at) for other, at in met)

    def lay(self, line: list[Point]) -> None:
        for stretch in pairwise(line):
            self.crossings.update(at for other in self.stretches if (at := _crossing(stretch, other)))
        self.taken.update(line)
        self.stretches.extend(pairwise(line))


def _crossing(one: Stretch, other: Stretch) -> Crossing | None:
    """Where two stretches without a common end cross; None where they do not."""
    (ax, ay), (bx, by) = one
    (cx, cy), (dx, dy) = other
    turn = (bx - ax) * (dy - cy) - (by - ay) * (dx - cx)
    if turn == 0:
        return None
    along = Fraction((cx - ax) * (dy - cy) - (cy - ay) * (dx - cx), turn)
    across = Fraction((cx - ax) * (by - ay) - (cy - ay) * (bx - ax), turn)
    if not (0 <= along <= 1 and 0 <= across <= 1):
        return None
    return ax + along * (bx - ax), ay + along * (by - ay)


def _is_clear(one: Stretch, other: Stretch, at: Crossing) -> bool:
    """They cross at 33 degrees or more (squared sine of at least 0.3), 0.35 of the pitch or more from their ends."""
    (ax, ay), (bx, by) = one
    (cx, cy), (dx, dy) = other
    run, rise, run_other, rise_other = bx - ax, by - ay, dx - cx, dy - cy
    sine = run * rise_other - rise * run_other
    lengths = (run * run + rise * rise) * (run_other * run_other + rise_other * rise_other)
    is_far = all((at[0] - x) ** 2 + (at[1] - y) ** 2 >= Fraction(12, 100) for x, y in (*one, *other))
    return is_far and 10 * sine * sine >= 3 * lengths


def _colors(rng: random.Random, shape: _Level) -> list[Color]:
    names = rng.sample(sorted(PALETTE), shape.lines)
    return [PALETTE[names[0] if shape.is_one_color else name] for name in names]


def _render(lines: list[list[Point]], dots: list[Point], shape: _Level, colors: list[Color]) -> Image.Image:
    img = new_canvas(2 * MARGIN + (shape.columns - 1) * PITCH, 2 * MARGIN + (shape.rows - 1) * PITCH)
    for line, color in zip(lines, colors, strict=True):
        draw_polyline(img, [_pixel(point) for point in line], STROKE, color)
    for dot in dots:
        draw_disc(img, _pixel(dot), DOT, INK)
    for index, (line, color) in enumerate(zip(lines, colors, strict=True)):
        x, y = _pixel(line[0])
        draw_disc(img, (x, y), LABEL, color)
        draw_text_centered(img, (x, y), _letter(index), 2, PAPER)
    return img
