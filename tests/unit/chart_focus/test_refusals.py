"""Rows and configs that would be scored as the model's failure are refused for what they are."""

import math

import pytest
from pydantic import ValidationError

from gym_core.types.wire import JsonObject
from resources_servers.chart_focus.app import ChartFocusConfig
from resources_servers.chart_focus.task import ChartTask
from tests.unit.chart_focus.trajectories import BARS


@pytest.mark.parametrize("box", [(0, 0, 1e30, 50), (0, 0, math.inf, 50), (-math.inf, 0, 5, 50), (0, math.nan, 5, 50)])
@pytest.mark.parametrize("field", ["boxes", "roi"])
def test_a_box_that_nothing_can_draw_is_no_box(field: str, box: tuple[float, ...]) -> None:
    change: JsonObject = {field: {"x_values": {"A": box}} if field == "boxes" else [box]}
    with pytest.raises(ValidationError, match=field):
        ChartTask.model_validate(BARS.model_dump() | change)


def test_a_box_is_held_against_the_picture() -> None:
    BARS.check_boxes(width=25, height=20)  # C reaches over the edge
    with pytest.raises(ValueError, match="x_values: the box .* of 'C' is outside of the 20x20 picture"):
        BARS.check_boxes(width=20, height=20)


def test_a_runtime_that_shows_no_image_is_refused() -> None:
    with pytest.raises(ValidationError, match="python_runtime.max_images: 0 shows no edited image"):
        ChartFocusConfig.model_validate({"python_runtime": {"max_images": 0}})
