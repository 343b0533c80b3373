"""Rows of figures that are drawn here: types and kinds of questions take turns, all from one seed."""

import random
from collections.abc import Iterator

from benchmarks.chart_focus.figures import draw_figure
from benchmarks.chart_focus.parts import FigureType
from benchmarks.chart_focus.questions import KINDS, ask
from benchmarks.chart_focus.rows import FigureQuestion
from gym_core.datasets.images import PreparedImage, png_of

TASKSET = "chart_focus"
FIGURE_TYPES: tuple[FigureType, ...] = ("v_bar", "h_bar", "table")


def drawn_questions(*, seed: int, tasks: int) -> Iterator[FigureQuestion]:
    """The first n of a seed are the same however many are asked for; each has a figure of its own."""
    kinds = list(KINDS)
    for index in range(tasks):
        figure_type = FIGURE_TYPES[index % len(FIGURE_TYPES)]
        kind = kinds[index // len(FIGURE_TYPES) % len(kinds)]
        yield _question(f"{seed}-{index}", figure_type, kind)


def _question(name: str, figure_type: FigureType, kind: str) -> FigureQuestion:
    # A string seed is hashed by SHA-512, so it is the same everywhere.
    rng = random.Random(f"{TASKSET}/{name}")
    drawn = draw_figure(figure_type, rng)
    asked = ask(kind, drawn, rng)
    data = drawn.data
    return FigureQuestion(
        source_id=name,
        taskset=TASKSET,
        figure_type=figure_type,
        kind=kind,
        image=PreparedImage.from_bytes(png_of(drawn.image), row=name),
        question=asked.text,
        gold=asked.gold,
        boxes=drawn.boxes,
        roi=asked.roi,
        figure_data={
            "title": data.title,
            "columns": list(data.columns),
            "rows": {r: list(v) for r, v in data.values.items()},
        },
    )
