"""Focus on what the question names, look at the edited picture, read the numbers in the red boxes, answer.

It knows where the boxes are only from the picture that comes back. Which bar of a chart is the highest it sees without
an action. Once in a while it calls a function that there is not, as models do, and answers from the first picture.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from model_servers.scripted_model.chat import Turn
from model_servers.scripted_model.players.contract import Player, View
from model_servers.scripted_model.players.digits import Pixels, read_number, runs

_NAMES = re.compile(r"^The (columns|rows|x values|y values) of the figure: (\[.*\])\. Their boxes", re.MULTILINE)
_WHAT = r"(?:value|number of (?P<column>.+?))"
_QUESTIONS = {
    "lookup": re.compile(rf"^Question: What is the {_WHAT} of (?P<one>.+)\?$", re.MULTILINE),
    "difference": re.compile(
        rf"^Question: What is the difference between the {_WHAT} of (?P<one>.+) and that of (?P<other>.+)\?$",
        re.MULTILINE,
    ),
    "count_above": re.compile(rf"^Question: How many have a {_WHAT} of more than (?P<limit>\d+)\?$", re.MULTILINE),
    "highest": re.compile(rf"^Question: Which one has the highest {_WHAT}\?$", re.MULTILINE),
    "which_above": re.compile(rf"^Question: Which ones have a {_WHAT} of more than (?P<limit>\d+)\?", re.MULTILINE),
}
_COLORED = 60
"""Between the channels of a bar's pixel, at least; the paper and its lines are grey."""
_BESIDE_PX = 60
"""So far from a bar's end its number reaches."""


_FoundT = TypeVar("_FoundT")


@dataclass(frozen=True)
class _Figure:
    """What the prompt says."""

    kind: str
    said: Mapping[str, str]
    """The parts of the question."""
    names: Mapping[str, Sequence[str]]
    """By axis: "columns", "rows", "x_values", "y_values"."""

    @property
    def is_table(self) -> bool:
        return "rows" in self.names

    @property
    def is_upright(self) -> bool:
        return "x_values" in self.names

    @property
    def rows(self) -> list[str]:
        """Of bars or of a table, without its header."""
        found = next(names for axis, names in self.names.items() if axis != "columns")
        return list(found[1:] if self.is_table else found)

    @property
    def asked(self) -> list[str]:
        """The rows that the question is about, in their order."""
        named = {self.said[word] for word in ("one", "other") if word in self.said}
        return [row for row in self.rows if row in named] or self.rows


def _play(view: View) -> Turn:
    figure = _figure(view.question)
    if figure is None:
        return _guess(view)
    first, *edited = view.pictures()
    if not view.results:
        if figure.kind == "highest" and not figure.is_table:
            return _answered(
                figure, _measured(_bars(_pixels(first), figure), figure.rows), "ACTION 0: No action needed."
            )
        return _action(figure)
    if not edited:
        numbers = _numbers_of_bars(_pixels(first), figure, figure.rows)
        return _answered(figure, numbers, "THOUGHT 1: That did not work, so I read the figure as it is.")
    looked = _pixels(edited[-1])
    read = _numbers_of_cells if figure.is_table else _numbers_of_bars
    return _answered(figure, read(looked, figure, figure.asked), "THOUGHT 1: I read the numbers in focus.")


def _guess(view: View) -> Turn:
    return Turn("ACTION 0: No action needed.\nANSWER: I did not look, this is a guess. FINAL ANSWER: 1. TERMINATE")


def _figure(question: str) -> _Figure | None:
    names = {axis.replace(" ", "_"): json.loads(listed) for axis, listed in _NAMES.findall(question)}
    for kind, form in _QUESTIONS.items():
        if names and (found := form.search(question)):
            said = {word: part for word, part in found.groupdict().items() if part is not None}
            return _Figure(kind, said, names)
    return None


# -- the action -------------------------------------------------------------


def _action(figure: _Figure) -> Turn:
    asked = json.dumps(figure.asked)
    if figure.is_table:
        column = json.dumps([figure.said["column"]])
        lines = [
            f"focused = focus_on_columns_with_highlight(image_1, {column}, columns_bbox)",
            f"focused = focus_on_rows_with_draw(focused, {asked}, rows_bbox)",
        ]
    else:
        axis = "x_values" if figure.is_upright else "y_values"
        lines = [f"focused = focus_on_{axis}_with_{_way(figure)}(image_1, {asked}, {axis}_bbox)"]
    code = "\n".join([*lines, "display(focused)"])
    return Turn(f"THOUGHT 0: I focus on what the question is about.\nACTION 0:\n```python\n{code}\n```")


def _way(figure: _Figure) -> str:
    if figure.kind == "which_above" and not figure.is_upright:
        return "circle"  # there is no such function
    return "mask" if figure.kind == "lookup" else "draw"


# -- the answer -------------------------------------------------------------


def _answered(figure: _Figure, numbers: Mapping[str, float], lead: str) -> Turn:
    answer = _ANSWERS[figure.kind](figure, {row: numbers[row] for row in figure.asked})
    return Turn(f"{lead}\nANSWER: It is {answer}. FINAL ANSWER: {answer}. TERMINATE")


def _difference(figure: _Figure, numbers: Mapping[str, float]) -> str:
    one, other = numbers.values()
    return f"{abs(one - other):g}"


def _above(figure: _Figure, numbers: Mapping[str, float]) -> list[str]:
    return [row for row, number in numbers.items() if number > int(figure.said["limit"])]


_ANSWERS: dict[str, Callable[[_Figure, Mapping[str, float]], str]] = {
    "lookup": lambda figure, numbers: f"{next(iter(numbers.values())):g}",
    "difference": _difference,
    "count_above": lambda figure, numbers: str(len(_above(figure, numbers))),
    "highest": lambda figure, numbers: max(numbers, key=lambda row: numbers[row]),
    "which_above": lambda figure, numbers: " || ".join(_above(figure, numbers)),
}


# -- the picture ------------------------------------------------------------


@dataclass(frozen=True)
class _Bar:
    top: int
    bottom: int
    left: int
    right: int


def _pixels(picture: Image.Image) -> Pixels:
    return np.asarray(picture, dtype=np.uint8)


def _bars(pixels: Pixels, figure: _Figure) -> list[_Bar]:
    """In the order of the figure."""
    levels = pixels.astype(np.int16)
    colored = ((levels.max(axis=2) - levels.min(axis=2)) > _COLORED) & ~_red(pixels)
    bars = []
    for start, end in runs(colored.any(axis=0 if figure.is_upright else 1)):
        part = colored[:, start:end] if figure.is_upright else colored[start:end].T
        along = np.flatnonzero(part.any(axis=1))
        first, last = int(along[0]), int(along[-1]) + 1
        bars.append(_Bar(first, last, start, end) if figure.is_upright else _Bar(start, end, first, last))
    return bars


def _measured(bars: Sequence[_Bar], rows: Sequence[str]) -> dict[str, float]:
    """The size of each bar in pixels, along and across: the latter is the same for all."""
    return {row: (bar.bottom - bar.top) * (bar.right - bar.left) for row, bar in _pairs(rows, bars)}


def _numbers_of_bars(pixels: Pixels, figure: _Figure, rows: Sequence[str]) -> dict[str, float]:
    """Printed at the end of each bar; the bars in red boxes where there are boxes, else all that are left."""
    bars = _bars(pixels, figure)
    if boxes := _boxes(pixels, across=figure.is_upright):
        middles = [((bar.left + bar.right) if figure.is_upright else (bar.top + bar.bottom)) / 2 for bar in bars]
        bars = [bar for bar, middle in zip(bars, middles, strict=True) if any(a < middle < b for a, b in boxes)]
    return {row: read_number(_beside(pixels, bar, figure)) for row, bar in _pairs(rows, bars)}


def _beside(pixels: Pixels, bar: _Bar, figure: _Figure) -> Pixels:
    if figure.is_upright:
        return pixels[max(0, bar.top - _BESIDE_PX // 2) : bar.top, bar.left : bar.right]
    return pixels[bar.top : bar.bottom, bar.right : bar.right + _BESIDE_PX]


def _numbers_of_cells(pixels: Pixels, figure: _Figure, rows: Sequence[str]) -> dict[str, float]:
    """Printed where the red film over the column crosses the red boxes around the rows."""
    level, film = pixels.astype(np.int16), np.zeros(pixels.shape[:2], dtype=np.bool_)
    film |= (level[:, :, 0] > 240) & (abs(level[:, :, 1] - 205) < 8) & (abs(level[:, :, 2] - 205) < 8)
    columns = np.flatnonzero(film.sum(axis=0) > film.sum(axis=0).max() / 2)
    left, right = int(columns[0]), int(columns[-1]) + 1
    cells = [pixels[top:bottom, left:right] for top, bottom in _boxes(pixels, across=False)]
    return {row: read_number(cell) for row, cell in _pairs(rows, cells)}


def _red(pixels: Pixels) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (pixels == (255, 0, 0)).all(axis=2)
    return found


def _boxes(pixels: Pixels, *, across: bool) -> list[tuple[int, int]]:
    """The inner sides of the red boxes, from left to right or from top to bottom."""
    red = _red(pixels).sum(axis=0 if across else 1)
    lines = runs(red > 0.7 * red.max()) if red.any() else []
    return [(start, end) for (_, start), (end, _) in zip(lines[::2], lines[1::2], strict=False)]


def _pairs(rows: Sequence[str], found: Sequence[_FoundT]) -> list[tuple[str, _FoundT]]:
    if len(rows) != len(found):
        raise ValueError(f"{len(found)} places are in focus, and {len(rows)} were asked for")
    return list(zip(rows, found, strict=True))


CHART_FOCUS = Player(
    "chart_focus", "and ends with display(...) of the result, which is then shown to you", _play, _guess
)
