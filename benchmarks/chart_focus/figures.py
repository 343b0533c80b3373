"""The figures: bar charts and tables with random data, drawn by matplotlib, and the exact boxes of their parts.

The same seed gives the same pixels wherever matplotlib has the same version; it brings its fonts. A box holds all that
belongs to a name: of a bar its slot of the axes, from edge to edge, with the label beside the axis.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from benchmarks.chart_focus.parts import AXES_OF, Axis, Box, FigureType

DPI = 100
FONT_PT = 13
_LABEL_ROOM_PX = 8
"""Around a label, so that no outline cuts it."""
_PALETTE = ("#3b78b4", "#c8553d", "#4c956c", "#8e6bbf", "#d19a2a")
"""Of bars: all far from grey."""

_PLACES = ("Norway", "Spain", "Kenya", "Chile", "Japan", "Peru", "India", "Italy", "Ghana", "Nepal", "Cuba", "Oman")
_FOODS = ("Rice", "Wheat", "Maize", "Beans", "Oats", "Rye", "Soy", "Millet", "Barley", "Lentils")
_NAMES = ("Anna", "Boris", "Chen", "Dina", "Emil", "Farah", "Goran", "Hana", "Ivo", "Jana", "Karim", "Lena")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# No name is a number: where it is the answer, one that is wrong would be taken for nearly right.
_SUBJECTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Visitors of the museum (thousands)", _MONTHS),
    ("Exports by country (billions)", _PLACES),
    ("Harvest by crop (tonnes)", _FOODS),
    ("Books read by pupil", _NAMES),
)
_COLUMNS = ("Matches", "Goals", "Points", "Wins", "Losses", "Draws", "Fouls", "Saves")


@dataclass(frozen=True)
class Data:
    """What a figure shows: a number for each row and column. A chart has one column."""

    title: str
    row_head: str
    """Over the names of rows."""
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: dict[str, tuple[int, ...]]
    """By row, a number a column. Within a column all differ."""

    def of(self, row: str, column: str | None = None) -> int:
        return self.values[row][self.columns.index(column) if column else 0]


@dataclass(frozen=True)
class Drawn:
    figure_type: FigureType
    data: Data
    image: Image.Image
    boxes: dict[Axis, dict[str, Box]]
    """In the order of the figure; of a table's rows the header first, named after its first cell."""


def draw_figure(figure_type: FigureType, rng: random.Random) -> Drawn:
    """A figure of this type with data of its own."""
    data = _table_data(rng) if figure_type == "table" else _chart_data(rng)
    return draw_data(figure_type, data, rng)


def draw_data(figure_type: FigureType, data: Data, rng: random.Random) -> Drawn:
    """These data, in a size and colours that `rng` chooses."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["font.size"] = FONT_PT
        if figure_type == "table":
            return _drawn_table(data, rng)
        return _drawn_chart(figure_type, data, rng)


# -- data -------------------------------------------------------------------


def _chart_data(rng: random.Random) -> Data:
    title, names = rng.choice(_SUBJECTS)
    count = rng.randint(4, min(8, len(names)))
    start = rng.randint(0, len(names) - count)
    # Months stay in their order; other names come as they like.
    rows = names[start : start + count] if names is _MONTHS else tuple(rng.sample(names, count))
    return Data(
        title, "", rows, ("value",), {row: (value,) for row, value in zip(rows, _numbers(rng, count), strict=True)}
    )


def _table_data(rng: random.Random) -> Data:
    rows = tuple(rng.sample(_NAMES, rng.randint(4, 7)))
    columns = tuple(rng.sample(_COLUMNS, rng.randint(2, 4)))
    by_column = [_numbers(rng, len(rows)) for _ in columns]
    values = {row: tuple(column[i] for column in by_column) for i, row in enumerate(rows)}
    return Data("Results of the season", "Name", rows, columns, values)


def _numbers(rng: random.Random, count: int) -> list[int]:
    """All different, and none so small that its bar cannot be seen."""
    top = rng.choice((60, 100, 400))
    return rng.sample(range(max(6, top // 12), top), count)


# -- drawing ----------------------------------------------------------------


def _drawn_chart(figure_type: FigureType, data: Data, rng: random.Random) -> Drawn:
    is_upright = figure_type == "v_bar"
    width_in, height_in = rng.choice(((9.0, 5.0), (9.5, 5.6), (10.0, 5.2)) if is_upright else ((7.6, 5.2), (8.0, 6.0)))
    figure = Figure(figsize=(width_in, height_in), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.09, 0.13, 0.88, 0.75) if is_upright else (0.16, 0.11, 0.8, 0.77))
    axes.set_title(data.title)
    positions = range(len(data.rows))
    numbers = [data.of(row) for row in data.rows]
    limits = (-0.5, len(data.rows) - 0.5)
    room = max(numbers) * 1.18  # for the number at the end of the longest bar
    color = rng.choice(_PALETTE)
    if is_upright:
        bars = axes.bar(positions, numbers, width=0.6, color=color)
        axes.set(xlim=limits, ylim=(0, room), xticks=list(positions), xticklabels=list(data.rows))
    else:
        bars = axes.barh(positions, numbers, height=0.6, color=color)
        axes.set(ylim=limits[::-1], xlim=(0, room), yticks=list(positions), yticklabels=list(data.rows))
    axes.bar_label(bars, padding=4)
    axes.grid(visible=True, axis="y" if is_upright else "x", color="#e4e4e4")
    axes.set_axisbelow(True)
    canvas.draw()  # type: ignore[no-untyped-call]  # matplotlib leaves it untyped
    slots = _slots(axes, data.rows, is_upright=is_upright, height_px=_height_px(figure))
    return Drawn(figure_type, data, _pixels(canvas), {AXES_OF[figure_type][0]: slots})


def _slots(axes: Axes, names: Sequence[str], *, is_upright: bool, height_px: int) -> dict[str, Box]:
    """Of each bar: all of the axes between the middles to its neighbours, and its label."""
    frame = axes.get_window_extent()
    labels = [label.get_window_extent() for label in (axes.get_xticklabels() if is_upright else axes.get_yticklabels())]
    reach = min(label.y0 if is_upright else label.x0 for label in labels) - _LABEL_ROOM_PX
    slots = {}
    for index, name in enumerate(names):
        low, high = index - 0.5, index + 0.5
        corners = axes.transData.transform([(low, low), (high, high)])
        (x0, y0), (x1, y1) = corners
        extent = (
            Bbox.from_extents(x0, reach, x1, frame.y1) if is_upright else Bbox.from_extents(reach, y1, frame.x1, y0)
        )
        slots[name] = _box(extent, height_px)
    return slots


def _drawn_table(data: Data, rng: random.Random) -> Drawn:
    cells = [[data.row_head, *data.columns], *([row, *map(str, data.values[row])] for row in data.rows)]
    width_in, height_in = 1.25 * len(cells[0]) + 0.8, 0.42 * len(cells) + 0.9
    figure = Figure(figsize=(width_in, height_in), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.05, 0.06, 0.9, 0.94 - 0.6 / height_in))
    axes.set_axis_off()
    axes.set_title(data.title)
    shade = rng.choice(("#dfe7ef", "#ece4d8", "#e3ecdf"))
    colors = [[shade if row == 0 else "#ffffff"] * len(cells[0]) for row in range(len(cells))]
    table = axes.table(cellText=cells, cellColours=colors, cellLoc="center", bbox=Bbox.unit())
    table.auto_set_font_size(False)
    table.set_fontsize(FONT_PT)
    canvas.draw()  # type: ignore[no-untyped-call]  # matplotlib leaves it untyped
    extents = {place: cell.get_window_extent() for place, cell in table.get_celld().items()}
    height_px = _height_px(figure)
    heads, starters = cells[0], [line[0] for line in cells]
    columns = {
        name: _box(Bbox.union([extents[row, index] for row in range(len(cells))]), height_px)
        for index, name in enumerate(heads)
    }
    rows = {
        name: _box(Bbox.union([extents[index, column] for column in range(len(heads))]), height_px)
        for index, name in enumerate(starters)
    }
    return Drawn("table", data, _pixels(canvas), {"columns": columns, "rows": rows})


def _height_px(figure: Figure) -> int:
    return int(figure.bbox.height)


def _box(extent: Bbox, height_px: int) -> Box:
    """Matplotlib counts from the bottom."""
    x1, y1 = round(extent.x0), round(height_px - extent.y1)
    return max(0, x1), max(0, y1), round(extent.x1), min(height_px, round(height_px - extent.y0))


def _pixels(canvas: FigureCanvasAgg) -> Image.Image:
    width, height = canvas.get_width_height()
    pixels = canvas.buffer_rgba()  # type: ignore[no-untyped-call]  # matplotlib leaves it untyped
    return Image.frombytes("RGBA", (width, height), bytes(pixels)).convert("RGB")
