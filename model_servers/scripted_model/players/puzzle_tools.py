"""Visual puzzles by native image tools alone: what the tools tell in words decides, and no pixel is read.

Seven kinds of questions that counting, look-alikes, outlines, colours and comparisons can answer; for any other the
policy guesses. They call no more than 24 tools, in no more than 12 turns.
"""

import re
from collections.abc import Callable, Sequence

from model_servers.scripted_model.chat import ToolCall
from model_servers.scripted_model.players.contract import Player
from model_servers.scripted_model.players.plans import Plan, planned_player
from model_servers.scripted_model.players.told import (
    Found,
    boxes_in,
    colour_in,
    count_in,
    in_reading_order,
    picture_in,
    share_in,
)

PAPER_LEVEL = 250
"""Of brightness: only paper is brighter."""
RULE_LEVEL = 180
"""Pale rules and frames are brighter, figures of any colour are not."""
INK_LEVEL = 60
SAME = 0.99
"""Similarity of figures that are the same; one dot elsewhere makes less."""
MAX_ROWS = 11
"""Two calls a row, and two before."""
_CELLS = re.compile(r"grid of (\d+) rows and (\d+) columns")
_NUMBERED = re.compile(r"(\d+) (?:are )?numbered figures")
_LINES = re.compile(r"Each of the (\d+) lines starts at a number")


def _ask(tool: str, image: int = 0, **arguments: object) -> ToolCall:
    return ToolCall(tool, {"image": image, **arguments})


def _black_and_white(level: int) -> Plan:
    """Number of the picture, as text."""
    (told,) = yield [_ask("threshold", level=level)]
    return str(picture_in(told))


def _outlines(image: int, least_px: int) -> Plan:
    (told,) = yield [_ask("contours", image, min_area=least_px)]
    return told


def count_clusters(question: str) -> Plan:
    (inside,) = yield [_ask("crop", box=[0.02, 0.02, 0.98, 0.98])]
    (parted,) = yield [_ask("threshold", picture_in(inside), level=PAPER_LEVEL)]
    (told,) = yield [_ask("components", picture_in(parted))]
    return str(count_in(told))


def count_same(question: str) -> Plan:
    plain = int((yield from _black_and_white(RULE_LEVEL)))
    found = boxes_in((yield from _outlines(plain, 2000)))
    frame = min((box for box in found if box.size[0] < 0.5), key=lambda box: box.y0)
    (told,) = yield [_ask("find_template", plain, box=frame.within(0.1), similarity=0.98)]
    return str(count_in(told) - 1)


def find_different(question: str) -> Plan:
    rows, columns = (int(number) for number in _groups(_CELLS, question))
    if rows > MAX_ROWS:
        raise ValueError(f"{rows} rows are too many to look at")
    plain = int((yield from _black_and_white(PAPER_LEVEL)))
    (told,) = yield [_ask("components", plain)]
    grid = max(boxes_in(told), key=lambda box: box.size[0] * box.size[1])
    height = grid.size[1] / rows
    tops = [grid.y0 + height * row for row in range(rows)]
    cut = yield [_ask("crop", plain, box=[grid.x0, y, grid.x1, min(1.0, y + height)]) for y in tops]
    cell = Found(0.0, 0.0, 1 / columns, 1.0).within(0.08)
    alike = yield [_ask("find_template", picture_in(row), box=cell, similarity=SAME - 0.04) for row in cut]
    counts = [count_in(text) for text in alike]
    if min(counts) == columns:
        raise ValueError("all cells look alike")
    row = counts.index(min(counts))
    centres = [int(box.centre[0] * columns) for box in boxes_in(alike[row])]
    missing = [column for column in range(columns) if column not in centres]
    return f"({row + 1},{(missing[0] if min(counts) > 1 else 0) + 1})"


def find_same(question: str) -> Plan:
    number = int(_groups(_NUMBERED, question)[0])
    framed = int((yield from _black_and_white(PAPER_LEVEL)))
    frames = _frames((yield from _outlines(framed, 1500)), number)
    plain = int((yield from _black_and_white(RULE_LEVEL)))
    alike = yield [_ask("find_template", plain, box=box.within(0.04), similarity=SAME) for box in frames]
    pairs = {tuple(sorted(_held(frames, boxes_in(text)))) for text in alike}
    return ",".join("-".join(str(index + 1) for index in pair) for pair in sorted(pairs) if len(pair) == 2)


def find_shadow(question: str) -> Plan:
    number = int(_groups(_NUMBERED, question)[0])
    framed = int((yield from _black_and_white(PAPER_LEVEL)))
    frames = _frames((yield from _outlines(framed, 3000)), 2 * number)
    plain = int((yield from _black_and_white(RULE_LEVEL)))
    parts = boxes_in((yield from _outlines(plain, 100)))
    shapes = [_shape([part for part in parts if frame.holds(part.centre)]) for frame in frames]
    figures, shadows = shapes[:number], shapes[number:]
    costs = sorted((abs(f - s), i, j) for i, f in enumerate(figures) for j, s in enumerate(shadows))
    taken: dict[int, int] = {}
    for _, figure, shadow in costs:
        if figure not in taken and shadow not in taken.values():
            taken[figure] = shadow
    return ",".join(f"{i + 1}-{chr(ord('A') + taken[i])}" for i in range(number))


def mirror(question: str) -> Plan:
    framed = int((yield from _black_and_white(PAPER_LEVEL)))
    grids = in_reading_order([b for b in boxes_in((yield from _outlines(framed, 3000))) if b.size[1] > 0.05])
    first, second, *options = grids
    x0, y0, _, _ = first.within(0.06)
    (told,) = yield [_ask("color_at", point=[x0, y0])]
    pattern = second if min(colour_in(told)) > PAPER_LEVEL else first
    across = "left_right" if abs(first.centre[1] - second.centre[1]) < first.size[1] / 2 else "top_bottom"
    cut = yield [_ask("crop", box=grid.within(0)) for grid in (pattern, *options)]
    (turned,) = yield [_ask("flip", picture_in(cut[0]), direction=across)]
    compared = yield [
        ToolCall("compare", {"image": picture_in(turned), "other_image": picture_in(text)}) for text in cut[1:]
    ]
    shares = [share_in(text) for text in compared]
    return chr(ord("A") + shares.index(min(shares)))


def connect(question: str) -> Plan:
    """By the colours of both ends: lines of one colour it cannot follow."""
    number = int(_groups(_LINES, question)[0])
    inked = int((yield from _black_and_white(INK_LEVEL)))
    (told,) = yield [_ask("components", inked)]
    labels = sorted(boxes_in(told), key=lambda box: box.centre[1])
    left, right = [b for b in labels if b.x1 < 0.2], [b for b in labels if b.x0 > 0.8]
    if not len(left) == len(right) == number:
        raise ValueError(f"{len(left)} and {len(right)} labels of {number} lines")
    points = [(b.x1 + 0.04, b.centre[1]) for b in left] + [(b.x0 - 0.04, b.centre[1]) for b in right]
    seen = [colour_in(text) for text in (yield [_ask("color_at", point=list(point)) for point in points])]
    starts, ends = seen[:number], seen[number:]
    if len(set(starts)) < number or set(starts) != set(ends):
        raise ValueError("the colours do not tell the lines apart")
    return ",".join(f"{i + 1}-{chr(ord('A') + ends.index(colour))}" for i, colour in enumerate(starts))


def _groups(pattern: re.Pattern[str], question: str) -> Sequence[str]:
    found = pattern.search(question)
    if found is None:
        raise ValueError(f"the question has no {pattern.pattern!r}")
    return found.groups()


def _frames(text: str, number: int) -> list[Found]:
    """The so many largest outlines that a tool told of, in reading order."""
    found = boxes_in(text)[:number]
    if len(found) < number:
        raise ValueError(f"{len(found)} frames of {number}")
    return in_reading_order(found)


def _held(frames: Sequence[Found], places: Sequence[Found]) -> set[int]:
    """Indices of the frames in which places lie."""
    return {i for place in places for i, frame in enumerate(frames) if frame.holds(place.centre)}


def _shape(parts: Sequence[Found]) -> float:
    """A number that a turn leaves as it is: the area of all parts."""
    return float(sum(part.area_px for part in parts))


def _player(name: str, question: str, plan: Callable[[str], Plan], *tools: str) -> Player:
    return planned_player(name, question, plan, frozenset(tools))


PUZZLE_TOOLS = (
    _player("count_clusters", "separate clusters of discs", count_clusters, "crop", "threshold", "components"),
    _player("count_same", "exactly the same as it", count_same, "threshold", "contours", "find_template"),
    _player(
        *("find_different", "Every cell shows the same figure, except one", find_different),
        *("threshold", "components", "crop", "find_template"),
    ),
    _player("find_same", "Which figures are the same?", find_same, "threshold", "contours", "find_template"),
    _player("find_shadow", "Which shadow belongs to each figure?", find_shadow, "threshold", "contours"),
    _player(
        *("mirror", "is reflected in the dashed line", mirror),
        *("threshold", "contours", "color_at", "crop", "flip", "compare"),
    ),
    _player("connect", "Which letter does each number lead to?", connect, "threshold", "components", "color_at"),
)
