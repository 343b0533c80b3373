"""The task row that a question about a figure becomes, wherever it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.chart_focus.parts import AXES_OF, Axis, Box, FigureType
from benchmarks.chart_focus.prompt import prompt_text
from gym_core.capture.images import make_reference
from gym_core.datasets.images import PreparedImage
from gym_core.types.wire import JsonObject

CATEGORIES: dict[FigureType, str] = {"v_bar": "Vertical bars", "h_bar": "Horizontal bars", "table": "Tables"}


@dataclass(frozen=True)
class FigureQuestion:
    source_id: str
    taskset: str
    figure_type: FigureType
    kind: str
    image: PreparedImage
    question: str
    gold: str
    """Several are joined by `|||`."""
    boxes: Mapping[Axis, Mapping[str, Box]]
    """In pixels; of a table's rows the header first."""
    roi: tuple[Box, ...] = ()
    """Where the evidence is, in pixels; () when nobody says."""
    figure_data: JsonObject | None = None
    """The numbers that were drawn; None for figures of others."""


def to_task_row(asked: FigureQuestion, *, image_url: str | None = None) -> JsonObject:
    """`image_url` in the place of the reference into the dataset's assets."""
    boxes = {axis: dict(asked.boxes[axis]) for axis in AXES_OF[asked.figure_type] if asked.boxes.get(axis)}
    told = prompt_text(asked.question, asked.figure_type, {axis: list(named) for axis, named in boxes.items()})
    url = image_url or make_reference(asked.image.sha256)
    content = [{"type": "input_image", "image_url": url, "detail": "auto"}, {"type": "input_text", "text": told}]
    return {
        "task_id": {"taskset": asked.taskset, "task_id": asked.source_id},
        "responses_create_params": {"input": [{"type": "message", "role": "user", "content": content}]},
        "question": asked.question,
        "expected_answer": asked.gold,
        "source_id": asked.source_id,
        "category": CATEGORIES[asked.figure_type],
        "l2_category": asked.kind,
        "figure_type": asked.figure_type,
        "boxes": {axis: {name: list(box) for name, box in named.items()} for axis, named in boxes.items()},
        "roi": [list(box) for box in asked.roi],
        "figure_data": asked.figure_data,
    }
