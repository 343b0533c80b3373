"""Write the dataset: puzzles drawn from a seed, as task rows with their images beside them. Needs no download.

The rows have BabyVision's fields, so the same environment, judge and prompt serve both. What only a grader or an
analysis may see (gold, level, the boxes that hold the evidence) stays outside `responses_create_params`.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from PIL import Image
from pydantic import AfterValidator, Field, ValidationError

from benchmarks.visual_puzzles_opencode.puzzles.contract import GENERATOR_VERSION, LEVELS, Puzzle, puzzle_rng
from benchmarks.visual_puzzles_opencode.puzzles.registry import SUBTYPES
from gym_core.config.nearest import hint
from gym_core.config.violations import violations
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.prepared import write_dataset
from gym_core.datasets.visual_question import VisualQuestion, to_task_row
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject, Wire

TASKSET = "visual_puzzles"
FIRST_TASK_ID = 900_000
"""Far above BabyVision's ids, so that rows of both can lie in one file."""

_SEED_STRIDE = 1_000_000
"""Rounds per seed: two seeds share no puzzle."""


def _known_subtype(name: str) -> str:
    if name not in SUBTYPES:
        raise ValueError(f"unknown subtype {name!r}{hint(name, SUBTYPES)}")
    return name


class PrepareArgs(Wire):
    """What to draw; `prepare_args` of the benchmark's config."""

    seed: Annotated[int, Field(ge=0)] = 0
    per_level: Annotated[int, Field(gt=0, le=_SEED_STRIDE)] = 1
    """Puzzles of each subtype at each level: 1 makes 24 tasks of the eight subtypes."""
    subtypes: tuple[Annotated[str, AfterValidator(_known_subtype)], ...] = tuple(SUBTYPES)
    levels: tuple[Annotated[int, Field(ge=min(LEVELS), le=max(LEVELS))], ...] = LEVELS


@dataclass(frozen=True)
class PuzzleTask:
    """A puzzle with what names it."""

    task_id: int
    subtype: str
    level: int
    seed: int
    """Of this puzzle: `puzzle_rng(subtype, seed, level)` draws it again."""
    puzzle: Puzzle


def prepare(args: JsonObject, jsonl_fpath: Path) -> Path:
    """Draw the puzzles and write the rows; the path. The file appears whole or not at all. Raises ConfigError."""
    try:
        checked = PrepareArgs.model_validate(args)
    except ValidationError as error:
        mistakes = violations(error, PrepareArgs, "prepare_args")
        raise ConfigError([f"config: {place}: {sentence}" for place, sentence in mistakes]) from error
    write_dataset(map(_row_with_image, puzzle_tasks(checked)), jsonl_fpath)
    return jsonl_fpath


def puzzle_tasks(args: PrepareArgs) -> Iterator[PuzzleTask]:
    """Round by round through all subtypes and levels, so that the first rows of a file are a fair sample of it.

    A puzzle's id depends on its round, subtype and level alone: filters leave out ids, they do not move them.
    """
    all_subtypes = list(SUBTYPES)
    for round_index in range(args.per_level):
        seed = args.seed * _SEED_STRIDE + round_index
        for subtype in (name for name in all_subtypes if name in args.subtypes):
            for level in (level for level in LEVELS if level in args.levels):
                cell = all_subtypes.index(subtype) * len(LEVELS) + LEVELS.index(level)
                yield PuzzleTask(
                    task_id=FIRST_TASK_ID + round_index * len(all_subtypes) * len(LEVELS) + cell,
                    subtype=subtype,
                    level=level,
                    seed=seed,
                    puzzle=SUBTYPES[subtype].generate(puzzle_rng(subtype, seed, level), level),
                )


def _row_with_image(task: PuzzleTask) -> tuple[JsonObject, PreparedImage]:
    puzzle = task.puzzle
    question = VisualQuestion(
        source_id=str(task.task_id),
        taskset=TASKSET,
        category=SUBTYPES[task.subtype].CATEGORY,
        subtype=task.subtype,
        image=PreparedImage.from_bytes(_png(puzzle.image), row=str(task.task_id)),
        question=puzzle.question,
        ans_type="choice" if puzzle.options else "blank",
        gold=puzzle.answer,
        options=puzzle.options,
        answer_kind=puzzle.answer_kind.value,
    )
    origin = {
        "level": task.level,
        "puzzle_seed": task.seed,
        "generator_version": GENERATOR_VERSION,
        "roi": [list(box) for box in puzzle.roi],
    }
    return to_task_row(question, instruction=None) | origin, question.image


def _png(image: Image.Image) -> bytes:
    png = io.BytesIO()
    image.save(png, "PNG")
    return png.getvalue()
