"""Image tools as a session's tools: what a model is told, and what a call makes."""

import io
import json

import pytest

from gym_core.image_tools import Coordinates
from gym_core.servers.image_shelf import ImageShelf, ShelfLimits
from gym_core.servers.image_tools import session_image_tools
from gym_core.servers.tools import ToolError, ToolSession
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.session import SeedSessionRequest
from gym_core.types.task import TaskData
from tests.unit.image_tools.pictures import two_squares


@pytest.fixture
def session() -> ToolSession[TaskData]:
    request = SeedSessionRequest(
        resources_session_id="s",
        episode_id=EpisodeId(rollout_id="s"),
        task_id=TaskId(taskset="t", task_id="1"),
        task_data={},
    )
    shelf = ImageShelf(ShelfLimits())
    png = io.BytesIO()
    two_squares().save(png, "PNG")
    shelf.put_prompt(0, png.getvalue())
    return ToolSession(request, task=TaskData(), tools={}, shelf=shelf)


def test_a_model_is_told_the_tools_own_schema() -> None:
    (tool,) = session_image_tools(["crop"], Coordinates.THOUSANDTHS)
    parameters = tool.as_function().parameters
    assert set(parameters["properties"]) == {"image", "box"}
    assert parameters["properties"]["box"]["items"] == {"type": "integer", "minimum": 0, "maximum": 1000}


async def test_a_call_gives_a_picture_and_the_number_by_which_later_calls_find_it(
    session: ToolSession[TaskData],
) -> None:
    (tool,) = session_image_tools(["crop"], Coordinates.THOUSANDTHS)
    output = tool.run(session, tool.arguments.model_validate_json(json.dumps({"box": [100, 300, 300, 700]})))
    picture, text = output.parts
    assert picture.size == (40, 40)
    assert text.endswith("\nIt is image 1.")


def test_a_call_that_cannot_be_done_is_told_to_the_model(session: ToolSession[TaskData]) -> None:
    (tool,) = session_image_tools(["crop"], Coordinates.FRACTION)
    with pytest.raises(ToolError, match="covers no pixel"):
        tool.run(session, tool.arguments.model_validate({"box": [0.5, 0.5, 0.4, 0.6]}))
    with pytest.raises(ToolError, match="has no argument 'bbox'"):
        tool.run(session, tool.arguments.model_validate({"bbox": 1}))
