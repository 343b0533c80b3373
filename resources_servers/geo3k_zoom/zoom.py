"""The tool `zoom`, and where a trajectory looked with it."""

from typing import Any

from pydantic import Field, ValidationError

from gym_core.image_tools import Coordinates
from gym_core.image_tools.contract import View
from gym_core.image_tools.geometry import enlarged
from gym_core.image_tools.places import Box
from gym_core.servers.answered_calls import answered_calls
from gym_core.servers.tools import ToolArguments, ToolError, ToolOutput, ToolSession
from gym_core.statistics.regions import Region
from gym_core.types.responses import FunctionCall, ResponsesReply

NAME = "zoom"
MIN_SIDE = 0.02
"""Of a box, as a fraction of the figure's width or height."""


class ZoomArguments(ToolArguments):
    x0: float = Field(description="Left edge, as a fraction of the image's width: 0 is its left edge, 1 its right one.")
    y0: float = Field(description="Top edge, as a fraction of the image's height: 0 is its top edge, 1 its bottom one.")
    x1: float = Field(description="Right edge, as a fraction of the width; more than x0.")
    y1: float = Field(description="Bottom edge, as a fraction of the height; more than y0.")

    def region(self) -> Region | None:
        """Clamped to the image; None where it is inverted or too small to be enlarged."""
        x0, y0, x1, y1 = (min(max(value, 0.0), 1.0) for value in (self.x0, self.y0, self.x1, self.y1))
        return Region(x0, y0, x1, y1) if x1 - x0 >= MIN_SIDE and y1 - y0 >= MIN_SIDE else None


def zoom(session: ToolSession[Any], asked: ZoomArguments) -> ToolOutput:
    """The part of the first image, with a caption that names the box. Raises ToolError for one that is too small."""
    region = asked.region()
    if region is None:
        raise ToolError(
            f"the box [{asked.x0:.3g}, {asked.y0:.3g}, {asked.x1:.3g}, {asked.y1:.3g}] is too small or inverted: within"
            f" 0 to 1, x1 must be at least {MIN_SIDE} more than x0, and y1 at least {MIN_SIDE} more than y0"
        )
    view = View.of(session.shelf.picture(0), "the image", Coordinates.FRACTION)
    width, height = view.image.size
    box = Box(region.x0 * width, region.y0 * height, region.x1 * width, region.y1 * height)
    told = f"[{region.x0:.3f}, {region.y0:.3f}, {region.x1:.3f}, {region.y1:.3f}]"
    return ToolOutput([enlarged(view.image, box), f"Zoomed view of the box {told} (x0, y0, x1, y1)."])


def zoomed_regions(response: ResponsesReply) -> list[Region]:
    """What was shown enlarged, in order: calls that gave a picture, and no others."""
    answered = answered_calls(response.output)
    regions = [_region_of(each.call) for each in answered if each.call.name == NAME and each.has_picture]
    return [region for region in regions if region is not None]


def _region_of(call: FunctionCall) -> Region | None:
    try:
        return ZoomArguments.model_validate_json(call.arguments).region()
    except ValidationError:
        return None
