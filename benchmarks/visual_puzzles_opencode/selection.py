"""Which puzzles a dataset holds: the arguments of `prepare`, and the tasks that they ask for."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS, Puzzle, puzzle_rng
from benchmarks.visual_puzzles_opencode.puzzles.registry import BABYVISION_ROWS, DEMO_SUBTYPES, SUBTYPES
from gym_core.config.nearest import hint
from gym_core.types.wire import Wire

FIRST_TASK_ID = 900_000
"""Far above BabyVision's ids, so that rows of both can lie in one file."""
FIRST_LATER_ID = 100_000_000
"""Of the subtypes outside the demo; the demo's ids end far below."""

_SEED_STRIDE = 1_000_000
"""Rounds per seed: two seeds share no puzzle."""


class Proportions(StrEnum):
    """How many puzzles of each subtype."""

    DEMO = "demo"
    """`per_level` at each level, of the demo's eight subtypes."""
    EVEN = "even"
    """`per_level` at each level, of every subtype."""
    BABYVISION = "babyvision"
    """As many as BabyVision has, the levels in turn: 388 of all 22 subtypes."""
    MINI = "mini"
    """Two of each subtype, an easy and a hard one: 44 of all 22."""


def _known_subtype(name: str) -> str:
    if name not in SUBTYPES:
        raise ValueError(f"unknown subtype {name!r}{hint(name, SUBTYPES)}")
    return name


class PrepareArgs(Wire):
    """What to draw; `prepare_args` of the benchmark's config."""

    seed: Annotated[int, Field(ge=0)] = 0
    proportions: Proportions = Proportions.DEMO
    per_level: Annotated[int, Field(gt=0, le=_SEED_STRIDE)] = 1
    """Puzzles of each subtype at each level, where the proportions are `demo` or `even`."""
    subtypes: tuple[Annotated[str, AfterValidator(_known_subtype)], ...] | None = None
    """Only these; None for all that the proportions have."""
    levels: Annotated[tuple[Annotated[int, Field(ge=min(LEVELS), le=max(LEVELS))], ...], Field(min_length=1)] = LEVELS
    instruction: Annotated[str, Field(max_length=10_000)] = ""
    """Put before each question."""

    @model_validator(mode="after")
    def _counts_once(self) -> Self:
        if self.per_level > 1 and self.proportions in (Proportions.BABYVISION, Proportions.MINI):
            raise ValueError(f"per_level does not go with proportions {self.proportions.value!r}, which say how many")
        return self

    @property
    def chosen_subtypes(self) -> tuple[str, ...]:
        """In the order of the registry."""
        usual = DEMO_SUBTYPES if self.proportions is Proportions.DEMO else tuple(SUBTYPES)
        return tuple(name for name in SUBTYPES if name in (usual if self.subtypes is None else self.subtypes))

    @property
    def chosen_levels(self) -> tuple[int, ...]:
        return tuple(level for level in LEVELS if level in self.levels)


@dataclass(frozen=True)
class PuzzleTask:
    """A puzzle with what names it."""

    task_id: int
    subtype: str
    level: int
    seed: int
    """Of this puzzle: `puzzle_rng(subtype, seed, level)` draws it again."""
    puzzle: Puzzle


def puzzle_tasks(args: PrepareArgs) -> Iterator[PuzzleTask]:
    """Round by round through the subtypes and levels, so that the first rows of a file are a fair sample of it.

    A puzzle's id depends on its round, subtype and level alone: filters and proportions leave out ids, they do not
    move them.
    """
    for round_index, subtype, level in _cells(args):
        seed = args.seed * _SEED_STRIDE + round_index
        yield PuzzleTask(
            task_id=_task_id(round_index, subtype, level),
            subtype=subtype,
            level=level,
            seed=seed,
            puzzle=SUBTYPES[subtype].generate(puzzle_rng(subtype, seed, level), level),
        )


def _cells(args: PrepareArgs) -> Iterator[tuple[int, str, int]]:
    """Round, subtype and level of each puzzle, in the order of the file."""
    subtypes, levels = args.chosen_subtypes, args.chosen_levels
    if args.proportions is Proportions.BABYVISION:
        for turn in range(max(BABYVISION_ROWS.values())):
            for subtype in (name for name in subtypes if turn < BABYVISION_ROWS[name]):
                yield turn // len(levels), subtype, levels[turn % len(levels)]
    elif args.proportions is Proportions.MINI:
        is_one_level = len(levels) == 1
        for subtype in subtypes:
            yield 0, subtype, levels[0]
            yield int(is_one_level), subtype, levels[-1]
    else:
        for round_index in range(args.per_level):
            yield from ((round_index, subtype, level) for subtype in subtypes for level in levels)


def _task_id(round_index: int, subtype: str, level: int) -> int:
    names = tuple(BABYVISION_ROWS)
    is_later = subtype not in DEMO_SUBTYPES
    family = names[len(DEMO_SUBTYPES) :] if is_later else DEMO_SUBTYPES
    cell = family.index(subtype) * len(LEVELS) + LEVELS.index(level)
    return (FIRST_LATER_ID if is_later else FIRST_TASK_ID) + round_index * len(family) * len(LEVELS) + cell
