"""Questions about a figure, of five kinds, with their golds and where the evidence lies. Pure."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.chart_focus.figures import Data, Drawn
from benchmarks.chart_focus.parts import Box

GOLD_SEPARATOR = "|||"
_WIDE_GAP = 6
"""A threshold in it can be told from the values beside it by eye."""


@dataclass(frozen=True)
class Asked:
    kind: str
    text: str
    golds: tuple[str, ...]
    roi: tuple[Box, ...]
    """Boxes in pixels that hold the evidence: whole slots of a chart, cells of a table."""

    @property
    def gold(self) -> str:
        return GOLD_SEPARATOR.join(self.golds)


def ask(kind: str, drawn: Drawn, rng: random.Random) -> Asked:
    """A question of this kind, a word of `KINDS`."""
    return KINDS[kind](_Subject(drawn, rng.choice(drawn.data.columns)), rng)


@dataclass(frozen=True)
class _Subject:
    """The column that is asked about."""

    drawn: Drawn
    column: str

    @property
    def data(self) -> Data:
        return self.drawn.data

    @property
    def what(self) -> str:
        """The number of a row, in words."""
        return f"number of {self.column}" if self.drawn.figure_type == "table" else "value"

    def of(self, row: str) -> int:
        return self.data.of(row, self.column)

    def roi(self, *rows: str) -> tuple[Box, ...]:
        boxes = self.drawn.boxes
        if self.drawn.figure_type != "table":
            (slots,) = boxes.values()
            return tuple(slots[row] for row in rows)
        x1, _, x2, _ = boxes["columns"][self.column]
        return tuple((x1, boxes["rows"][row][1], x2, boxes["rows"][row][3]) for row in rows)

    def threshold(self, rng: random.Random, *, least_above: int = 1) -> int:
        """A number between two neighbouring values, in a wide gap where there is one; so many lie above it."""
        numbers = sorted(self.of(row) for row in self.data.rows)
        gaps = list(zip(numbers[:-least_above], numbers[1:], strict=False))
        wide = [(low, high) for low, high in gaps if high - low >= _WIDE_GAP]
        low, high = rng.choice(wide or gaps)
        return (low + high) // 2

    def above(self, threshold: int) -> tuple[str, ...]:
        return tuple(row for row in self.data.rows if self.of(row) > threshold)


def _lookup(subject: _Subject, rng: random.Random) -> Asked:
    row = rng.choice(subject.data.rows)
    return Asked("lookup", f"What is the {subject.what} of {row}?", (str(subject.of(row)),), subject.roi(row))


def _difference(subject: _Subject, rng: random.Random) -> Asked:
    one, other = rng.sample(subject.data.rows, 2)
    text = f"What is the difference between the {subject.what} of {one} and that of {other}?"
    return Asked("difference", text, (str(abs(subject.of(one) - subject.of(other))),), subject.roi(one, other))


def _count_above(subject: _Subject, rng: random.Random) -> Asked:
    threshold = subject.threshold(rng)
    text = f"How many have a {subject.what} of more than {threshold}?"
    return Asked("count_above", text, (str(len(subject.above(threshold))),), subject.roi(*subject.data.rows))


def _highest(subject: _Subject, rng: random.Random) -> Asked:
    row = max(subject.data.rows, key=subject.of)
    return Asked("highest", f"Which one has the highest {subject.what}?", (row,), subject.roi(*subject.data.rows))


def _which_above(subject: _Subject, rng: random.Random) -> Asked:
    threshold = subject.threshold(rng, least_above=2)
    text = f"Which ones have a {subject.what} of more than {threshold}? Name all of them."
    return Asked("which_above", text, subject.above(threshold), subject.roi(*subject.data.rows))


KINDS: dict[str, Callable[[_Subject, random.Random], Asked]] = {
    "lookup": _lookup,
    "difference": _difference,
    "count_above": _count_above,
    "highest": _highest,
    "which_above": _which_above,
}
