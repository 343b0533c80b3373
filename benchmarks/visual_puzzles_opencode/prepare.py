"""Write the dataset: puzzles drawn from a seed, as task rows with their images beside them. Needs no download.

The rows have BabyVision's fields, so the same environment, judge and prompt serve both. What only a grader or an
analysis may see (gold, level, the boxes that hold the evidence) stays outside `responses_create_params`.
"""

from pathlib import Path

from benchmarks.visual_puzzles_opencode.puzzles.contract import GENERATOR_VERSION
from benchmarks.visual_puzzles_opencode.puzzles.registry import SUBTYPES
from benchmarks.visual_puzzles_opencode.selection import PrepareArgs, PuzzleTask, puzzle_tasks
from gym_core.datasets.images import PreparedImage, png_of
from gym_core.datasets.prepare_args import read_prepare_args
from gym_core.datasets.prepared import write_dataset
from gym_core.datasets.visual_question import VisualQuestion, to_task_row
from gym_core.types.wire import JsonObject

TASKSET = "visual_puzzles"


def prepare(args: JsonObject, jsonl_fpath: Path) -> Path:
    """Draw the puzzles and write the rows; the path. The file appears whole or not at all. Raises ConfigError."""
    checked = read_prepare_args(PrepareArgs, args)
    rows = (_row_with_image(task, checked.instruction) for task in puzzle_tasks(checked))
    write_dataset(rows, jsonl_fpath)
    return jsonl_fpath


def _row_with_image(task: PuzzleTask, instruction: str) -> tuple[JsonObject, PreparedImage]:
    puzzle = task.puzzle
    question = VisualQuestion(
        source_id=str(task.task_id),
        taskset=TASKSET,
        category=SUBTYPES[task.subtype].CATEGORY,
        subtype=task.subtype,
        image=PreparedImage.from_bytes(png_of(puzzle.image), row=str(task.task_id)),
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
        "image_size": list(puzzle.image.size),
    }
    return to_task_row(question, instruction=instruction) | origin, question.image
