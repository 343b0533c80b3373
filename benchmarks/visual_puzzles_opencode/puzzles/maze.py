"""Maze: find the one opening that leads to the centre, or count the cells on the only way in.

The walls are grown as a forest, one tree for each opening, so that every opening looks alive and one alone owns the
centre. The generator reads its gold from the parents kept while growing; `solve` floods the finished walls from the
centre and never sees a parent.
"""

import random
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    RULE,
    Box,
    draw_disc,
    draw_polygon,
    draw_rect,
    draw_text_centered,
    new_canvas,
)

SUBTYPE = "Maze"
CATEGORY = "Visual Tracking"

Cell = tuple[int, int]
"""(row, column), from 0 at the top left."""

STEPS: dict[str, Cell] = {"N": (-1, 0), "E": (0, 1), "S": (1, 0), "W": (0, -1)}
PITCH = 28
WALL = 4
MARGIN = 58
STAR = ((0, -10), (3, -3), (10, -3), (4, 2), (6, 9), (0, 5), (-6, 9), (-4, 2), (-10, -3), (-3, -3))
"""Corners of the star in the centre, in pixels around the middle of its cell."""


@dataclass(frozen=True)
class _Level:
    size: int
    """Cells on a side; odd, so that there is a middle one."""
    openings: int
    shortest: int
    longest: int
    """Bounds of the cells on the way, both ends included."""


LEVELS = {1: _Level(9, 4, 12, 26), 2: _Level(13, 5, 22, 42), 3: _Level(19, 6, 36, 60)}


@dataclass(frozen=True)
class _Opening:
    cell: Cell
    side: str


@dataclass(frozen=True)
class _Forest:
    size: int
    parent: dict[Cell, Cell | None]
    """One root (parent None) for each opening."""

    def way(self, cell: Cell) -> list[Cell]:
        """From a cell up to its root, both included."""
        cells = [cell]
        while (parent := self.parent[cells[-1]]) is not None:
            cells.append(parent)
        return cells


def generate(rng: random.Random, level: int) -> Puzzle:
    shape = LEVELS[level]
    is_count = rng.random() < 0.5
    openings, forest = _draw_up(rng, shape, 1 if is_count else shape.openings)
    goal = (shape.size // 2, shape.size // 2)
    way = forest.way(goal)
    labels = [] if is_count else [chr(ord("A") + index) for index in range(len(openings))]
    winner = next(index for index, opening in enumerate(openings) if opening.cell == way[-1])
    return Puzzle(
        image=_render(forest, openings, labels),
        question=_count_question() if is_count else _opening_question(labels),
        answer=str(len(way)) if is_count else labels[winner],
        answer_kind=AnswerKind.INT if is_count else AnswerKind.LETTER,
        options=tuple(labels) if level == 1 else (),
        roi=(_bounds(way),),
        structure={
            "asks": "cells" if is_count else "opening",
            "right": _passages(forest, "E"),
            "down": _passages(forest, "S"),
            "openings": [[*opening.cell] for opening in openings],
            "labels": labels,
            "goal": list(goal),
        },
    )


def solve(puzzle: Puzzle) -> str:
    """Flood the passages from the centre. Raises ValueError unless exactly one opening is reached."""
    right, down = puzzle.structure["right"], puzzle.structure["down"]
    goal = (puzzle.structure["goal"][0], puzzle.structure["goal"][1])
    distance = {goal: 1}
    queue = deque([goal])
    while queue:
        row, column = queue.popleft()
        neighbours = {
            (row, column + 1): right[row][column] == "1",
            (row, column - 1): column > 0 and right[row][column - 1] == "1",
            (row + 1, column): down[row][column] == "1",
            (row - 1, column): row > 0 and down[row - 1][column] == "1",
        }
        for cell, is_open in neighbours.items():
            if is_open and cell not in distance:
                distance[cell] = distance[row, column] + 1
                queue.append(cell)
    openings: list[Cell] = [(row, column) for row, column in puzzle.structure["openings"]]
    reached = [index for index, cell in enumerate(openings) if cell in distance]
    if len(reached) != 1:
        raise ValueError(f"maze: {len(reached)} openings reach the centre, not 1")
    if puzzle.structure["asks"] == "cells":
        return str(distance[openings[reached[0]]])
    return str(puzzle.structure["labels"][reached[0]])


def _opening_question(labels: list[str]) -> str:
    return (
        f"The outer wall of this maze has openings marked {', '.join(labels[:-1])} and {labels[-1]}. Exactly one of "
        "them leads to the star in the centre without crossing a wall. Which one? Answer with its letter."
    )


def _count_question() -> str:
    return (
        "The maze is made of square cells, each with a small dot or the star in its middle. Exactly one way leads from "
        "the opening at the arrow to the star without crossing a wall or entering a cell twice. How many cells does it "
        "pass, counting both the cell behind the opening and the cell with the star? Answer with an integer."
    )


def _draw_up(rng: random.Random, shape: _Level, count: int) -> tuple[list[_Opening], _Forest]:
    """Openings, clockwise from the top left, and walls in which the way in has a length of this level."""
    goal = (shape.size // 2, shape.size // 2)
    while True:
        openings = _place_openings(rng, shape.size, count)
        forest = _grow(rng, shape.size, [opening.cell for opening in openings])
        is_right_length = shape.shortest <= len(forest.way(goal)) <= shape.longest
        if is_right_length and _smallest_tree(forest) * 3 * count >= shape.size**2:
            return openings, forest


def _place_openings(rng: random.Random, size: int, count: int) -> list[_Opening]:
    """Far enough apart, and from the corners, that no letter could belong to another opening."""
    span = size - 2
    inner = range(1, size - 1)
    border = [_Opening((0, column), "N") for column in inner]
    border += [_Opening((row, size - 1), "E") for row in inner]
    border += [_Opening((size - 1, column), "S") for column in reversed(inner)]
    border += [_Opening((row, 0), "W") for row in reversed(inner)]
    while True:
        chosen = sorted(rng.sample(range(4 * span), count))
        gaps = [b - a for a, b in pairwise([*chosen, chosen[0] + 4 * span])]
        if count == 1 or min(gaps) >= span // 2:
            return [border[index] for index in chosen]


def _grow(rng: random.Random, size: int, roots: list[Cell]) -> _Forest:
    """Depth-first growth from every root, one cell in turn, until all cells are taken."""
    parent: dict[Cell, Cell | None] = dict.fromkeys(roots)
    stacks = [[root] for root in roots]
    while any(stacks):
        for stack in stacks:
            while stack:
                row, column = stack[-1]
                free = [
                    (row + down, column + right)
                    for down, right in STEPS.values()
                    if 0 <= row + down < size
                    and 0 <= column + right < size
                    and (row + down, column + right) not in parent
                ]
                if not free:
                    stack.pop()
                    continue
                cell = rng.choice(free)
                parent[cell] = stack[-1]
                stack.append(cell)
                break
    return _Forest(size, parent)


def _smallest_tree(forest: _Forest) -> int:
    roots = [forest.way(cell)[-1] for cell in forest.parent]
    return min(roots.count(root) for root in set(roots))


def _passages(forest: _Forest, side: str) -> list[str]:
    """For every cell "1" where no wall stands on that side, a string a row."""
    down, right = STEPS[side]
    return [
        "".join("1" if _is_joined(forest, (row, column), (row + down, column + right)) else "0" for column in columns)
        for row, columns in enumerate([range(forest.size)] * forest.size)
    ]


def _is_joined(forest: _Forest, cell: Cell, other: Cell) -> bool:
    return other in forest.parent and (forest.parent[cell] == other or forest.parent[other] == cell)


def _middle(cell: Cell) -> tuple[int, int]:
    return MARGIN + cell[1] * PITCH + PITCH // 2, MARGIN + cell[0] * PITCH + PITCH // 2


def _bounds(cells: list[Cell]) -> Box:
    rows, columns = [row for row, _ in cells], [column for _, column in cells]
    left, top = _middle((min(rows), min(columns)))
    right, bottom = _middle((max(rows), max(columns)))
    reach = PITCH // 2 + WALL
    return left - reach, top - reach, right + reach, bottom + reach


def _render(forest: _Forest, openings: list[_Opening], labels: list[str]) -> Image.Image:
    """Without labels the opening has an arrow alone and the cells have their dots."""
    side = forest.size * PITCH + 2 * MARGIN
    img = new_canvas(side, side)
    outer = {(opening.cell, opening.side) for opening in openings}
    for cell in forest.parent:
        for name, (down, right) in STEPS.items():
            if (cell, name) not in outer and not _is_joined(forest, cell, (cell[0] + down, cell[1] + right)):
                _draw_wall(img, cell, name)
        if not labels:
            draw_disc(img, _middle(cell), 2, RULE)
    x, y = _middle((forest.size // 2, forest.size // 2))
    draw_polygon(img, [(x + dx, y + dy) for dx, dy in STAR], PALETTE["red"])
    for index, opening in enumerate(openings):
        _draw_arrow(img, opening)
        if labels:
            down, right = STEPS[opening.side]
            x, y = _middle(opening.cell)
            draw_text_centered(img, (x + 48 * right, y + 48 * down), labels[index], 3, PALETTE["blue"])
    return img


def _draw_wall(img: Image.Image, cell: Cell, side: str) -> None:
    """A wall lies on the border of two cells, half its width in each."""
    down, right = STEPS[side]
    x, y = _middle(cell)
    x, y = x + right * PITCH // 2, y + down * PITCH // 2
    half_x = (PITCH if down else 0) // 2 + WALL // 2
    half_y = (PITCH if right else 0) // 2 + WALL // 2
    draw_rect(img, (x - half_x, y - half_y, x + half_x, y + half_y), INK)


def _draw_arrow(img: Image.Image, opening: _Opening) -> None:
    """A triangle outside the wall that points in through the opening."""
    down, right = STEPS[opening.side]
    x, y = _middle(opening.cell)
    near, far, half = PITCH // 2 + 4, PITCH // 2 + 14, 7
    corners = [
        (x + right * near, y + down * near),
        (x + right * far + down * half, y + down * far + right * half),
        (x + right * far - down * half, y + down * far - right * half),
    ]
    draw_polygon(img, corners, PALETTE["green"])
