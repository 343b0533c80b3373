"""Rotation Patterns: a lopsided figure turns by the same angle from panel to panel; which panel comes next."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import atan2, degrees

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    RULE,
    Box,
    Color,
    Point,
    draw_frame,
    draw_polygon,
    draw_rect,
    draw_text_centered,
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
from gym_core.types.wire import JsonObject

SUBTYPE = "Rotation Patterns"
CATEGORY = "Visual Pattern Recognition"

Figure = tuple[tuple[Point, ...], ...]
"""Polygons around the middle of a panel."""

_COSINES = {0: 10000, 15: 9659, 30: 8660, 45: 7071, 60: 5000, 75: 2588, 90: 0}
"""Times 10000: turning takes no floats, so a puzzle is the same pixels everywhere."""
_POLE = ((-5, -52), (5, -52), (5, 36), (-5, 36))
_FLAGS = (
    ((0, -52), (44, -36), (0, -20)),
    ((0, -52), (38, -52), (38, -22), (0, -22)),
    ((0, -52), (42, -52), (26, -36), (42, -20), (0, -20)),
)
"""To the right of the pole's top."""
_FEET = (
    ((0, 12), (-26, 36), (0, 36)),
    ((0, 20), (-24, 20), (-24, 36), (0, 36)),
    ((0, 20), (24, 28), (0, 36)),
)
_SIDE_PX = 148
_SHOWN = 4
"""Panels before the one with the question mark."""
_TOLERANCE_DEG = 4
"""Of an angle read from whole pixels; half the smallest step is more."""


@dataclass(frozen=True)
class _Level:
    steps: tuple[int, ...]
    """Degrees, to either side."""
    wrong_turns: tuple[int, ...]
    """By how many degrees an option of the right hand may be off."""
    mirrored: int
    """Options that are mirror images."""
    options: int


_LEVELS = {
    1: _Level((45, 90, 135), (45, 90, 135, 180, 225, 270, 315), 0, 4),
    2: _Level((30, 60, 120, 150), (30, 60, 90, 180, 270, 300, 330), 1, 5),
    3: _Level((15, 30, 75, 105, 150, 165), (15, 30, 330, 345, 180), 2, 6),
}


@dataclass(frozen=True)
class _Pose:
    angle: int
    """Degrees clockwise, a multiple of 15."""
    is_mirrored: bool = False

    def place(self, point: Point) -> Point:
        x, y = (-point[0] if self.is_mirrored else point[0]), point[1]
        cos, sin = _cosine(self.angle), _cosine(self.angle - 90)
        return ((x * cos - y * sin + 5000) // 10000, (x * sin + y * cos + 5000) // 10000)

    def landmarks(self, figure: Figure) -> JsonObject:
        """Top of the pole and tip of the flag, from the middle of the panel."""
        return {"top": list(self.place((0, -52))), "tip": list(self.place(figure[1][1]))}


def generate(rng: random.Random, level: int) -> Puzzle:
    """Levels differ in the step, in how little options differ, and in whether some are mirror images."""
    shape = _LEVELS[level]
    figure = (_POLE, rng.choice(_FLAGS), rng.choice(_FEET))
    step = rng.choice(shape.steps) * rng.choice((1, -1))
    start = 15 * rng.randrange(24)
    shown = [_Pose((start + index * step) % 360) for index in range(_SHOWN)]
    right = _Pose((start + _SHOWN * step) % 360)
    candidates = [right, *_distractors(rng, shape, right)]
    rng.shuffle(candidates)

    color = PALETTE[rng.choice(sorted(PALETTE))]
    series = Panels(_SHOWN + 1, _SIDE_PX, _SIDE_PX, per_row=_SHOWN + 1)
    panels = Panels(shape.options, _SIDE_PX, _SIDE_PX, per_row=4 if shape.options < 5 else 3)
    width = series.size[0] + 2 * MARGIN_PX
    options_top = 3 * MARGIN_PX + _SIDE_PX
    img = new_canvas(width, options_top + panels.size[1])
    for box, pose in zip(series.boxes((MARGIN_PX, MARGIN_PX)), [*shown, None], strict=True):
        _draw_panel(img, box, figure, pose, color)
    draw_rect(img, (MARGIN_PX, options_top - GAP_PX, width - MARGIN_PX, options_top - GAP_PX + 2), RULE)
    boxes = panels.boxes(((width - panels.size[0]) // 2, options_top))
    for box, candidate in zip(boxes, candidates, strict=True):
        _draw_panel(img, box, figure, candidate, color)
    draw_captions(img, boxes, numbers(shape.options))
    place = candidates.index(right)
    return Puzzle(
        image=img,
        question=(
            "In the top row a figure is turned, from each panel to the next, by the same angle in the same direction. "
            "Which of the numbered panels below belongs in the panel with the question mark? Answer with the letter of "
            "the option."
        ),
        answer=letters(shape.options)[place],
        answer_kind=AnswerKind.LETTER,
        options=tuple(f"Panel {number}" for number in numbers(shape.options)),
        roi=(boxes[place],),
        structure={
            "shown": [pose.landmarks(figure) for pose in shown],
            "candidates": [pose.landmarks(figure) for pose in candidates],
        },
    )


def solve(puzzle: Puzzle) -> str:
    """Measure angles between landmarks; the hand of a figure is the side of its pole on which the flag is."""
    shown, candidates = puzzle.structure["shown"], puzzle.structure["candidates"]
    turns = [_turn(before["top"], after["top"]) for before, after in zip(shown, shown[1:], strict=False)]
    if any(_apart(turn, turns[0]) > _TOLERANCE_DEG for turn in turns):
        raise ValueError("rotation patterns: the figure does not turn evenly")
    [right] = [
        index
        for index, panel in enumerate(candidates)
        if _apart(_turn(shown[-1]["top"], panel["top"]), turns[0]) <= _TOLERANCE_DEG
        and _is_right_handed(panel) == _is_right_handed(shown[-1])
    ]
    return letters(right + 1)[-1]


def _turn(before: Sequence[int], after: Sequence[int]) -> float:
    return degrees(atan2(after[1], after[0]) - atan2(before[1], before[0]))


def _apart(one: float, other: float) -> float:
    """Degrees between two directions, 0 to 180."""
    return abs((one - other + 180) % 360 - 180)


def _is_right_handed(panel: JsonObject) -> bool:
    (x, y), (tip_x, tip_y) = panel["top"], panel["tip"]
    return bool(x * tip_y - y * tip_x > 0)


def _cosine(angle: int) -> int:
    angle = min(angle % 360, -angle % 360)
    return _COSINES[angle] if angle <= 90 else -_COSINES[180 - angle]


def _distractors(rng: random.Random, shape: _Level, right: _Pose) -> list[_Pose]:
    """The figure at wrong angles, and its mirror image at the right one and near it."""
    mirrored = [_Pose((right.angle + turn) % 360, is_mirrored=True) for turn in (0, *shape.wrong_turns)]
    turned = rng.sample(shape.wrong_turns, shape.options - 1 - shape.mirrored)
    return [*mirrored[: shape.mirrored], *(_Pose((right.angle + turn) % 360) for turn in turned)]


def _draw_panel(img: Image.Image, box: Box, figure: Figure, pose: _Pose | None, color: Color) -> None:
    """The figure in a frame, or a question mark for no pose."""
    draw_frame(img, box, INK)
    x, y = (box[0] + box[2]) // 2, (box[1] + box[3]) // 2
    if pose is None:
        draw_text_centered(img, (x, y), "?", 6)
        return
    for polygon in figure:
        draw_polygon(img, [(x + dx, y + dy) for dx, dy in map(pose.place, polygon)], color)
