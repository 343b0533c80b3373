"""Write the dataset: tasks of three pictures each, drawn from a seed. Needs no download.

The first picture is in the prompt. The others, and the gold, are what only the environment may see.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from benchmarks.dominant_color.tiles import PALETTE, PICTURES, Recall, draw_recall
from gym_core.capture.images import make_data_url, make_reference
from gym_core.datasets.images import PreparedImage, png_of
from gym_core.datasets.prepare_args import read_prepare_args
from gym_core.datasets.prepared import write_dataset
from gym_core.types.wire import JsonObject, Wire

TASKSET = "dominant_color"
QUESTION = (
    f"You are shown {PICTURES} pictures, one after the other; this is the first. Each is a grid of coloured tiles, and "
    "more than half of its tiles have one colour, in slightly different shades. Remember that colour. Call "
    "see_next_image to see the next picture, until you have seen all. Then answer with the most frequent colour "
    "of each picture, in the order in which you saw them, in the form \\boxed{colour, colour, colour}.\n"
    f"The colours are: {', '.join(PALETTE)}."
)


class PrepareArgs(Wire):
    """What to draw; `prepare_args` of the benchmark's config."""

    seed: Annotated[int, Field(ge=0)] = 0
    """Two seeds share no task."""
    tasks: Annotated[int, Field(gt=0, le=1_000_000)] = 64


def prepare(args: JsonObject, jsonl_fpath: Path) -> Path:
    """Draw the pictures and write the rows; the path. The file appears whole or not at all. Raises ConfigError."""
    checked = read_prepare_args(PrepareArgs, args)
    write_dataset(_rows(checked), jsonl_fpath)
    return jsonl_fpath


def _rows(args: PrepareArgs) -> Iterator[tuple[JsonObject, PreparedImage]]:
    for index in range(args.tasks):
        task_id = f"{args.seed}-{index}"
        recall = draw_recall(args.seed, index)
        first = PreparedImage.from_bytes(png_of(recall.pictures[0]), row=task_id)
        yield make_row(task_id, recall, make_reference(first.sha256)), first


def make_row(task_id: str, recall: Recall, first_url: str) -> JsonObject:
    """The flat row of one task; `first_url` is the picture in the prompt, a reference or a `data:` URL."""
    content = [{"type": "input_image", "image_url": first_url}, {"type": "input_text", "text": QUESTION}]
    return {
        "task_id": {"taskset": TASKSET, "task_id": task_id},
        "responses_create_params": {"input": [{"type": "message", "role": "user", "content": content}]},
        "question": QUESTION,
        "expected_answer": ", ".join(recall.colors),
        "category": "Visual memory",
        "later_images": [make_data_url(png_of(picture)) for picture in recall.pictures[1:]],
    }
