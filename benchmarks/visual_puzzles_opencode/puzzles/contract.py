"""What a puzzle is, and what a subtype's module offers.

Every subtype module defines SUBTYPE, CATEGORY, `generate(rng, level) -> Puzzle` and `solve(puzzle) -> str`. The
generator computes the gold from its parameters; `solve` recomputes it another way from `puzzle.structure`, and a test
holds the two together. Drawing is deterministic: integer coordinates, no anti-aliasing, no system font, randomness only
from the `random.Random` handed in.
"""

import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from PIL import Image

from gym_core.types.wire import JsonObject

GENERATOR_VERSION = "1"
LEVELS = (1, 2, 3)


class AnswerKind(StrEnum):
    """How a gold answer is to be compared."""

    LETTER = "letter"
    INT = "int"
    COORD = "coord"
    SEQUENCE = "seq"
    SET = "set"
    PAIRS = "pairs"
    RELATION = "relation"
    TEXT = "text"


@dataclass(frozen=True)
class Puzzle:
    image: Image.Image
    question: str
    """States index base, order and the answer's format; gives no strategy."""
    answer: str
    """Gold. For a choice puzzle the letter of the right option."""
    answer_kind: AnswerKind
    options: tuple[str, ...] = ()
    """Labels of a choice puzzle, in order; empty for a blank one."""
    roi: tuple[tuple[int, int, int, int], ...] = ()
    """Boxes (left, top, right, bottom) in pixels that hold the deciding evidence."""
    structure: JsonObject = field(default_factory=dict)
    """What the picture was drawn from, enough to solve it without the gold."""


class Subtype(Protocol):
    """The module itself; its functions take no `self`."""

    SUBTYPE: str
    """BabyVision's spelling, such as "Find the different"."""
    CATEGORY: str

    def generate(self, rng: random.Random, level: int) -> Puzzle: ...

    def solve(self, puzzle: Puzzle) -> str: ...


def puzzle_rng(subtype: str, seed: int, level: int) -> random.Random:
    """The one source of randomness of a puzzle: string seeding is stable across Python versions and machines."""
    return random.Random(f"{GENERATOR_VERSION}:{subtype}:{seed}:{level}")
