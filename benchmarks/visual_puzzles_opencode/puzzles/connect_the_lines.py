"""Connect the lines: follow smooth curves that cross over and under each other from a number to a letter.

The picture is a braid. Between two columns every curve runs from its height at the one to its height at the other on
the same S-shaped profile, so two curves cross exactly once where their order changes and nowhere else. The generator
composes the changes of order; `solve` gets the loose pieces and joins them end to end.
"""

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    PAPER,
    Color,
    Point,
    draw_disc,
    draw_polyline,
    draw_text_centered,
    new_canvas,
)

SUBTYPE = "Connect the lines"
CATEGORY = "Visual Tracking"

STRETCH = 112
"""Pixels from one column to the next."""
SPACING = 62
"""Pixels from one height to the next, before each is moved a little."""
JITTER = 10
MARGIN = 76
STROKE = 5
GAP = 7
"""Half of the paper left free around the upper curve at a crossing, from its middle."""
CLEAR = 34
"""Least distance of two crossings, so that every curve shows its direction between two gaps."""


@dataclass(frozen=True)
class _Level:
    lines: int
    stretches: int
    colors: int


LEVELS = {1: _Level(4, 4, 4), 2: _Level(6, 6, 3), 3: _Level(7, 7, 1)}


@dataclass(frozen=True)
class _Braid:
    orders: list[list[int]]
    """For every column the lines from top to bottom; a line is named by its place in the first column."""
    heights: list[list[int]]
    """For every column the y of its places from top to bottom."""

    def ends(self, line: int) -> list[Point]:
        """Where the line passes each column."""
        return [
            (MARGIN + column * STRETCH, self.heights[column][order.index(line)])
            for column, order in enumerate(self.orders)
        ]


@dataclass(frozen=True)
class _Meeting:
    lines: tuple[int, int]
    point: Point


def generate(rng: random.Random, level: int) -> Puzzle:
    shape = LEVELS[level]
    braid, meetings = _draw_up(rng, shape)
    last = braid.orders[-1]
    pieces = sorted([*start, *end] for line in last for start, end in pairwise(braid.ends(line)))
    numbers = {str(line + 1): list(braid.ends(line)[0]) for line in range(shape.lines)}
    letters = {_letter(place): list(braid.ends(line)[-1]) for place, line in enumerate(last)}
    reach = GAP + STROKE
    return Puzzle(
        image=_render(rng, shape, braid, meetings),
        question=_question(shape.lines),
        answer=",".join(f"{line + 1}-{_letter(last.index(line))}" for line in range(shape.lines)),
        answer_kind=AnswerKind.PAIRS,
        roi=tuple((x - reach, y - reach, x + reach, y + reach) for x, y in (meeting.point for meeting in meetings)),
        structure={"pieces": pieces, "numbers": numbers, "letters": letters},
    )


def solve(puzzle: Puzzle) -> str:
    """Join the pieces end to end. Raises ValueError where two pieces start at one point, KeyError where one is lost."""
    onward: dict[Point, Point] = {}
    for x, y, x_end, y_end in puzzle.structure["pieces"]:
        if (x, y) in onward:
            raise ValueError(f"connect the lines: the line forks at {(x, y)}")
        onward[x, y] = (x_end, y_end)
    letters: dict[Point, str] = {(x, y): letter for letter, (x, y) in puzzle.structure["letters"].items()}
    pairs: list[tuple[int, str]] = []
    for number, (x, y) in puzzle.structure["numbers"].items():
        point = (x, y)
        while point not in letters:
            point = onward[point]
        pairs.append((int(number), letters[point]))
    return ",".join(f"{number}-{letter}" for number, letter in sorted(pairs))


def _letter(place: int) -> str:
    return chr(ord("A") + place)


def _question(lines: int) -> str:
    return (
        f"Each of the {lines} lines starts at a number on the left and ends at a letter on the right. Where two lines "
        "cross, the lower one has a small gap and goes on behind the upper one; lines never fork or join. Which letter "
        "does each number lead to? Answer with one pair for every number, in ascending order of the numbers, in the "
        "form 1-X,2-Y,3-Z."
    )


def _draw_up(rng: random.Random, shape: _Level) -> tuple[_Braid, list[_Meeting]]:
    """A braid that mixes its lines well, with its crossings; drawn anew until both hold."""
    while True:
        orders = [list(range(shape.lines))]
        for _ in range(shape.stretches):
            orders.append(_reorder(rng, orders[-1]))
        if sum(place == line for place, line in enumerate(orders[-1])) > 1:
            continue
        braid = _Braid(orders, [_heights(rng, shape.lines) for _ in orders])
        meetings = _meetings(braid)
        partners = [
            {frozenset(meeting.lines) for meeting in meetings if line in meeting.lines} for line in range(shape.lines)
        ]
        if all(len(pairs) >= 2 for pairs in partners) and all(
            _is_apart(a.point, b.point) for a, b in combinations(meetings, 2)
        ):
            return braid, meetings


def _reorder(rng: random.Random, order: list[int]) -> list[int]:
    """Cut the order into blocks of one to three; in every block one line moves across all the others."""
    rest, changed = list(order), []
    while rest:
        size = min(rng.choice((1, 2, 2, 3, 3)), len(rest))
        block, rest = rest[:size], rest[size:]
        changed += [*block[1:], block[0]] if rng.random() < 0.5 else [block[-1], *block[:-1]]
    return changed


def _heights(rng: random.Random, lines: int) -> list[int]:
    return [MARGIN + place * SPACING + rng.randint(-JITTER, JITTER) for place in range(lines)]


def _meetings(braid: _Braid) -> list[_Meeting]:
    traces = [_trace(braid.ends(line)) for line in range(len(braid.orders[0]))]
    found = []
    for stretch, (before, after) in enumerate(pairwise(braid.orders)):
        columns = range(stretch * STRETCH, (stretch + 1) * STRETCH + 1)
        for upper, lower in combinations(before, 2):
            if after.index(upper) > after.index(lower):
                drops = [traces[upper][at][1] - traces[lower][at][1] for at in columns]
                at = columns[bisect_left(drops, 0)]
                x, y = traces[upper][at]
                found.append(_Meeting((upper, lower), (x, (y + traces[lower][at][1]) // 2)))
    return found


def _is_apart(one: Point, other: Point) -> bool:
    return (one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2 >= CLEAR**2


def _trace(ends: Sequence[Point]) -> list[Point]:
    """A point for every x, on the profile 3t^2 - 2t^3, which is level at both ends; in whole numbers."""
    points = [ends[0]]
    for (x, y), (_, y_end) in pairwise(ends):
        for step in range(1, STRETCH + 1):
            risen = (y_end - y) * step * step * (3 * STRETCH - 2 * step)
            points.append((x + step, y + (2 * risen + STRETCH**3) // (2 * STRETCH**3)))
    return points


def _render(rng: random.Random, shape: _Level, braid: _Braid, meetings: list[_Meeting]) -> Image.Image:
    img = new_canvas(2 * MARGIN + shape.stretches * STRETCH, 2 * MARGIN + (shape.lines - 1) * SPACING)
    colors = _colors(rng, shape)
    traces = [_trace(braid.ends(line)) for line in range(shape.lines)]
    for line, trace in enumerate(traces):
        draw_polyline(img, trace, STROKE, colors[line])
    for meeting in meetings:
        upper = rng.choice(meeting.lines)
        _lay_over(img, traces[upper], meeting.point, colors[upper])
    for line, trace in enumerate(traces):
        place = braid.orders[-1].index(line)
        _draw_end(img, trace[0], -1, str(line + 1), colors[line])
        _draw_end(img, trace[-1], 1, _letter(place), colors[line])
    return img


def _colors(rng: random.Random, shape: _Level) -> list[Color]:
    if shape.colors == 1:
        return [INK] * shape.lines
    chosen = rng.sample(sorted(PALETTE), shape.colors)
    names = [chosen[index % shape.colors] for index in range(shape.lines)]
    rng.shuffle(names)
    return [PALETTE[name] for name in names]


def _draw_end(img: Image.Image, point: Point, outward: int, label: str, color: Color) -> None:
    draw_disc(img, point, 6, color)
    draw_text_centered(img, (point[0] + outward * 34, point[1]), label, 4)


def _lay_over(img: Image.Image, trace: list[Point], crossing: Point, color: Color) -> None:
    """Break what the line crosses, and draw the line itself whole again as far as its halo of paper reaches."""
    draw_polyline(img, _near(trace, crossing, GAP + 2), STROKE + 2 * GAP, PAPER)
    draw_polyline(img, _near(trace, crossing, 2 * GAP + STROKE + 1), STROKE, color)


def _near(trace: list[Point], center: Point, radius: int) -> list[Point]:
    return [(x, y) for x, y in trace if (x - center[0]) ** 2 + (y - center[1]) ** 2 <= radius**2]
