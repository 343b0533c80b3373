"""The drawn figures: that a box covers what belongs to its name is seen from pixels, by drawing it otherwise."""

import dataclasses
import random

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.chart_focus.figures import Data, Drawn, draw_data
from benchmarks.chart_focus.figures import draw_figure as draw_any
from benchmarks.chart_focus.parts import AXES_OF, Box, FigureType

TYPES: tuple[FigureType, ...] = ("v_bar", "h_bar", "table")
SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8)))
each_figure = pytest.mark.parametrize("figure_type", TYPES)


def draw(figure_type: FigureType, seed: int) -> Drawn:
    return draw_any(figure_type, random.Random(f"test/{seed}"))


def redrawn(data: Data, figure_type: FigureType) -> Drawn:
    """Always in the same size and colours."""
    return draw_data(figure_type, data, random.Random(0))


def pixels(drawn: Drawn) -> NDArray[np.uint8]:
    return np.asarray(drawn.image)


def changed(one: Drawn, other: Drawn) -> Box:
    """The smallest box around all pixels that differ."""
    assert one.image.size == other.image.size
    rows, columns = np.nonzero((pixels(one) != pixels(other)).any(axis=2))
    assert len(rows), "nothing differs"
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def is_within(inner: Box, outer: Box) -> bool:
    return inner[0] >= outer[0] and inner[1] >= outer[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def with_value(data: Data, row: str, column: int, value: int) -> Data:
    numbers = list(data.values[row])
    numbers[column] = value
    return dataclasses.replace(data, values=data.values | {row: tuple(numbers)})


def renamed(data: Data, row: str, name: str) -> Data:
    rows = tuple(name if other == row else other for other in data.rows)
    values = {name if other == row else other: numbers for other, numbers in data.values.items()}
    return dataclasses.replace(data, rows=rows, values=values)


@each_figure
@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_is_the_same_picture_and_the_same_boxes(figure_type: FigureType, seed: int) -> None:
    one, other = draw(figure_type, seed), draw(figure_type, seed)
    assert (one.image.tobytes(), one.boxes, one.data) == (other.image.tobytes(), other.boxes, other.data)
    assert one.image.tobytes() != draw(figure_type, seed + 1).image.tobytes()


@each_figure
@pytest.mark.parametrize("seed", SEEDS)
def test_every_name_has_a_box_in_the_order_of_the_figure(figure_type: FigureType, seed: int) -> None:
    drawn = draw(figure_type, seed)
    assert tuple(drawn.boxes) == AXES_OF[figure_type]
    names = {"columns": (drawn.data.row_head, *drawn.data.columns), "rows": (drawn.data.row_head, *drawn.data.rows)}
    for axis, boxes in drawn.boxes.items():
        assert tuple(boxes) == names.get(axis, drawn.data.rows)
        side = 0 if axis in ("columns", "x_values") else 1
        starts = [box[side] for box in boxes.values()]
        ends = [box[side + 2] for box in boxes.values()]
        assert starts == sorted(starts)
        assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
        assert all(is_within(box, (0, 0, *drawn.image.size)) for box in boxes.values())


@pytest.mark.parametrize("figure_type", ["v_bar", "h_bar"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_bar_its_number_and_its_label_lie_in_its_box(figure_type: FigureType, seed: int) -> None:
    data = draw(figure_type, seed).data
    whole = redrawn(data, figure_type)
    (boxes,) = whole.boxes.values()
    longest = max(data.rows, key=data.of)
    for row in data.rows:
        if row != longest:  # the axis depends on that one
            shorter = redrawn(with_value(data, row, 0, data.of(row) // 2), figure_type)
            assert is_within(changed(whole, shorter), boxes[row])
        assert is_within(changed(whole, redrawn(renamed(data, row, "Zz"), figure_type)), boxes[row])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cell_is_where_its_row_and_its_column_cross(seed: int) -> None:
    data = draw("table", seed).data
    whole = redrawn(data, "table")
    columns, rows = whole.boxes["columns"], whole.boxes["rows"]
    for row in (data.rows[0], data.rows[-1]):
        other_name = changed(whole, redrawn(renamed(data, row, "Zz"), "table"))
        assert is_within(other_name, rows[row])
        assert is_within(other_name, columns[data.row_head])
        for index, column in enumerate(data.columns):
            cell = changed(whole, redrawn(with_value(data, row, index, 888), "table"))
            assert is_within(cell, rows[row])
            assert is_within(cell, columns[column])


def test_a_header_lies_in_its_column_and_in_the_first_row() -> None:
    data = draw("table", 0).data
    whole = redrawn(data, "table")
    for index, column in enumerate(data.columns):
        heads = tuple("Zz" if i == index else other for i, other in enumerate(data.columns))
        head = changed(whole, redrawn(dataclasses.replace(data, columns=heads), "table"))
        assert is_within(head, whole.boxes["columns"][column])
        assert is_within(head, whole.boxes["rows"][data.row_head])


@each_figure
def test_what_a_person_set_for_matplotlib_changes_nothing(figure_type: FigureType) -> None:
    import matplotlib

    before = draw(figure_type, 0).image.tobytes()
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        assert draw(figure_type, 0).image.tobytes() == before
        assert matplotlib.rcParams["font.size"] == 30
