"""The resources server of `geo3k_zoom`: geometry problems with a tool that enlarges a part of the figure."""

from typing import Any

from pydantic import Field

from gym_core.image_tools import Coordinates
from gym_core.image_tools.contract import View
from gym_core.image_tools.geometry import enlarged
from gym_core.image_tools.places import Box
from gym_core.servers.resources import Submission
from gym_core.servers.tools import (
    Tool,
    ToolArguments,
    ToolError,
    ToolOutput,
    ToolResourcesServer,
    ToolResourcesServerConfig,
    ToolSession,
)
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from resources_servers.geo3k_zoom.grading import Geo3kTask, answer_columns, grade

MIN_SIDE = 0.02
"""Of a box, as a fraction of the figure's width or height."""


class ZoomArguments(ToolArguments):
    x0: float = Field(description="Left edge, as a fraction of the image's width: 0 is its left edge, 1 its right one.")
    y0: float = Field(description="Top edge, as a fraction of the image's height: 0 is its top edge, 1 its bottom one.")
    x1: float = Field(description="Right edge, as a fraction of the width; more than x0.")
    y1: float = Field(description="Bottom edge, as a fraction of the height; more than y0.")


class Geo3kServer(ToolResourcesServer[Geo3kTask, ToolResourcesServerConfig]):
    task_type = Geo3kTask
    needs_images = True

    def list_tools(self, task: Geo3kTask) -> list[Tool[Any]]:
        about = "Enlarge a part of the problem's image, to read small labels and marks. Gives the part as an image."
        return [Tool("zoom", about, ZoomArguments, zoom)]

    async def verify(self, submission: Submission[Geo3kTask]) -> Verification:
        return grade(submission.task, submission.response)

    async def describe_failure(self, submission: Submission[Geo3kTask]) -> JsonObject:
        return answer_columns(submission.task, submission.response)


def zoom(session: ToolSession[Geo3kTask], asked: ZoomArguments) -> ToolOutput:
    """The part of the first image, with a caption that names the box. Raises ToolError for one that is too small."""
    x0, y0, x1, y1 = (min(max(value, 0.0), 1.0) for value in (asked.x0, asked.y0, asked.x1, asked.y1))
    if x1 - x0 < MIN_SIDE or y1 - y0 < MIN_SIDE:
        raise ToolError(
            f"the box [{x0:.3g}, {y0:.3g}, {x1:.3g}, {y1:.3g}] is too small or inverted: x1 must be at least"
            f" {MIN_SIDE} more than x0, and y1 at least {MIN_SIDE} more than y0"
        )
    view = View.of(session.shelf.picture(0), "the image", Coordinates.FRACTION)
    width, height = view.image.size
    box = Box(x0 * width, y0 * height, x1 * width, y1 * height)
    caption = f"Zoomed view of the box [{x0:.3f}, {y0:.3f}, {x1:.3f}, {y1:.3f}] (x0, y0, x1, y1)."
    return ToolOutput([enlarged(view.image, box), caption])
