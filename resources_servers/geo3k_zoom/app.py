"""The resources server of `geo3k_zoom`: geometry problems with a tool that enlarges a part of the figure."""

from typing import Any

from gym_core.servers.resources import Submission
from gym_core.servers.tools import Tool, ToolResourcesServer, ToolResourcesServerConfig
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from resources_servers.geo3k_zoom.grading import Geo3kTask, answer_columns, grade
from resources_servers.geo3k_zoom.zoom import NAME, ZoomArguments, zoom


class Geo3kServer(ToolResourcesServer[Geo3kTask, ToolResourcesServerConfig]):
    task_type = Geo3kTask
    needs_images = True
    measured_columns = ("zoom_calls", "zoom_duplicates", "roi_recall", "roi_iou")

    def list_tools(self, task: Geo3kTask) -> list[Tool[Any]]:
        about = "Enlarge a part of the problem's image, to read small labels and marks. Gives the part as an image."
        return [Tool(NAME, about, ZoomArguments, zoom)]

    async def verify(self, submission: Submission[Geo3kTask]) -> Verification:
        return grade(submission.task, submission.response)

    async def describe_failure(self, submission: Submission[Geo3kTask]) -> JsonObject:
        return answer_columns(submission.task, submission.response)
