"""The words for what a figure is made of, whoever drew it."""

from typing import Literal

FigureType = Literal["v_bar", "h_bar", "table"]
Axis = Literal["columns", "rows", "x_values", "y_values"]
Box = tuple[int, int, int, int]
"""x1, y1, x2, y2 in pixels from the top left."""

AXES_OF: dict[FigureType, tuple[Axis, ...]] = {
    "v_bar": ("x_values",),
    "h_bar": ("y_values",),
    "table": ("columns", "rows"),
}
"""What one can focus on in a figure."""
