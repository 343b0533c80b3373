"""Image tools as tools of a session: a model calls them natively, on the prompt's images and on those they made.

def list_tools(self, task: MyTask) -> list[Tool[Any]]:
    return session_image_tools(["geometry", "color_at"], Coordinates.THOUSANDTHS)
"""

from collections.abc import Sequence
from typing import Any

from PIL import Image
from pydantic import ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from gym_core.image_tools import Coordinates, ImageTool, ImageToolError, chosen_tools, run
from gym_core.servers.image_looks import told_number
from gym_core.servers.image_shelf import ImageShelf
from gym_core.servers.tools import Tool, ToolArguments, ToolError, ToolOutput, ToolSession
from gym_core.types.wire import JsonObject


class ImageToolArguments(ToolArguments):
    """Of any image tool: the tool's own bounds are read when it runs, and its own schema is what a model is told."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def told_schema(cls) -> JsonObject:
        raise NotImplementedError

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonObject:
        return cls.told_schema()


class _ShelvedPictures:
    """A session's images, each decoded when it is asked for."""

    def __init__(self, shelf: ImageShelf) -> None:
        self._shelf = shelf

    def __len__(self) -> int:
        return len(self._shelf)

    def __getitem__(self, index: int, /) -> Image.Image:
        return self._shelf.picture(index)


def session_image_tools(names: Sequence[str], coordinates: Coordinates) -> list[Tool[Any]]:
    """Tools by name or by family. Raises ValueError for an unknown name, ImportError where OpenCV is missing."""
    return [_session_tool(tool, coordinates) for tool in chosen_tools(names)]


def _session_tool(tool: ImageTool, coordinates: Coordinates) -> Tool[Any]:
    class Arguments(ImageToolArguments):
        @classmethod
        def told_schema(cls) -> JsonObject:
            return tool.schema(coordinates)

    def call(session: ToolSession[Any], arguments: ImageToolArguments) -> ToolOutput:
        try:
            made = run(tool.name, _ShelvedPictures(session.shelf), arguments.model_extra or {}, coordinates=coordinates)
        except ImageToolError as mistake:
            raise ToolError(str(mistake)) from mistake
        numbers = range(len(session.shelf), len(session.shelf) + len(made.images))
        told = "".join(f"\n{told_number(number)}" for number in numbers)
        return ToolOutput([*made.images, made.text + told])

    return Tool(tool.name, tool.description, Arguments, call, late_is_told=True)
