"""What server and grader read of a row: the golds, the kind of figure, and the boxes that only the runtime knows."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from gym_core.statistics.regions import Region
from gym_core.types.task import TaskData
from resources_servers.chart_focus.answers import GOLD_SEPARATOR, listed
from resources_servers.chart_focus.focus_tools import FOCUS_TOOLS

FigureType = Literal["v_bar", "h_bar", "table"]
Axis = Literal["columns", "rows", "x_values", "y_values"]
AXES: tuple[Axis, ...] = ("columns", "rows", "x_values", "y_values")
AXES_OF: dict[FigureType, tuple[Axis, ...]] = {
    "v_bar": ("x_values",),
    "h_bar": ("y_values",),
    "table": ("columns", "rows"),
}
MAX_NAMES = 500
MAX_PIXELS = 100_000
"""A box past it is a mistake in the row, and no drawing takes it."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Pixels = Annotated[float, Field(ge=-MAX_PIXELS, le=MAX_PIXELS)]
Corners = Annotated[tuple[Pixels, ...], Field(min_length=4, max_length=4)]
"""x1, y1, x2, y2 in pixels."""


class ChartTask(TaskData):
    question: str
    expected_answer: Annotated[str, StringConstraints(min_length=1)]
    """Several golds are joined by `|||`."""
    figure_type: FigureType
    boxes: dict[Axis, Annotated[dict[Name, Corners], Field(max_length=MAX_NAMES)]]
    """In the order of the figure; of a table's rows the header first."""
    roi: Annotated[tuple[Corners, ...], Field(max_length=MAX_NAMES)] = ()
    """Boxes that hold the evidence; for columns alone."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if not self.golds:
            raise ValueError("expected_answer holds no answer")
        for x1, y1, x2, y2 in (*self.roi, *(box for named in self.boxes.values() for box in named.values())):
            if not (x1 < x2 and y1 < y2):
                raise ValueError(f"box {[x1, y1, x2, y2]} has no area")
        return self

    @property
    def golds(self) -> list[str]:
        return listed(self.expected_answer, GOLD_SEPARATOR)

    @property
    def listed_tools(self) -> dict[str, Axis]:
        """The functions that the prompt names, and what each focuses on."""
        axes = [axis for axis in AXES_OF[self.figure_type] if self.boxes.get(axis)]
        return {name: axis for name in FOCUS_TOOLS for axis in axes if name.startswith(f"focus_on_{axis}_with_")}

    def check_boxes(self, *, width: int, height: int) -> None:
        """Raises ValueError for a box that has no part in a picture of so many pixels: nothing would be seen of it."""
        for axis, named in self.boxes.items():
            for name, (x1, y1, x2, y2) in named.items():
                if x1 >= width or y1 >= height or x2 <= 0 or y2 <= 0:
                    box = [x1, y1, x2, y2]
                    raise ValueError(f"{axis}: the box {box} of {name!r} is outside of the {width}x{height} picture")

    @property
    def evidence(self) -> list[Region]:
        return [Region(*box) for box in self.roi]

    def variables(self) -> dict[str, dict[str, dict[str, float]]]:
        """`columns_bbox` and the like, as the runtime has them; empty ones too."""
        return {
            f"{axis}_bbox": {
                name: dict(zip(("x1", "y1", "x2", "y2"), box, strict=True))
                for name, box in self.boxes.get(axis, {}).items()
            }
            for axis in AXES
        }
