"""The reward of dominant_color, worked out by hand: all colours in their order and no other, however many were seen."""

from dataclasses import dataclass

import pytest

from gym_core.errors import FailureKind
from gym_core.http.client import HttpPool
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.resources import Submission
from gym_core.servers.tools import ToolResourcesServerConfig
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    OutputItem,
    OutputMessage,
    OutputText,
    ResponsesReply,
)
from gym_core.types.session import SeedSessionRequest
from gym_core.types.wire import JsonObject
from resources_servers.dominant_color.app import DominantColorServer, DominantColorTask

ROW: JsonObject = {"expected_answer": "red, blue, green", "later_images": []}
LONG = "so " * 40_000


def seen(count: int, *, failed: int = 0) -> tuple[OutputItem, ...]:
    """Calls that gave so many pictures; then calls that gave words."""
    items: list[OutputItem] = []
    for index in range(count + failed):
        picture = [InputText(text="Picture 2 of 3."), InputImage(image_url="sha256:" + "0" * 64)]
        items.append(FunctionCall(call_id=f"c{index}", name="see_next_image", arguments="{}"))
        items.append(FunctionCallOutput(call_id=f"c{index}", output=picture if index < count else "Error: none left"))
    return tuple(items)


@dataclass(frozen=True)
class Row:
    said: str
    reward: float
    in_place: int
    calls: tuple[OutputItem, ...] = ()
    images_seen: int = 0
    no_answer: bool = False


RIGHT = "\\boxed{red, blue, green}"
TABLE = {
    "right, both seen": Row(RIGHT, 1, 3, seen(2), 2),
    "right, one seen": Row(RIGHT, 1, 3, seen(1), 1),
    "right, none seen": Row(RIGHT, 1, 3),
    "right, both seen and one call too many": Row(RIGHT, 1, 3, seen(2, failed=1), 2),
    "right, failed calls only": Row(RIGHT, 1, 3, seen(0, failed=2), 0),
    "wrong order, both seen": Row("\\boxed{red, green, blue}", 0, 1, seen(2), 2),
    "last one wrong, both seen": Row("\\boxed{red, blue, black}", 0, 2, seen(2), 2),
    "all wrong, none seen": Row("\\boxed{black, black, black}", 0, 0),
    "wrong, failed call": Row("\\boxed{red, red, red}", 0, 1, seen(0, failed=1), 0),
    "one missing": Row("\\boxed{red, blue}", 0, 2, seen(2), 2),
    "one too many": Row("\\boxed{red, blue, green, red}", 0, 3, seen(2), 2),
    "two boxes, last right": Row("\\boxed{red, red, red}, no: " + RIGHT, 1, 3, seen(2), 2),
    "two boxes, last wrong": Row(RIGHT + ", no: \\boxed{red, red, red}", 0, 1, seen(2), 2),
    "empty box": Row("\\boxed{}", 0, 0, seen(2), 2, no_answer=True),
    "nothing": Row("", 0, 0, seen(2), 2, no_answer=True),
    "no answer in words": Row("I forgot them.", 0, 0, seen(2), 2, no_answer=True),
    "over-long text, box at its end": Row(LONG + RIGHT, 1, 3, seen(2), 2),
    "over-long answer that begins right": Row("\\boxed{red, blue, green " + "so " * 900 + "}", 0, 3, seen(2), 2),
}


@pytest.mark.parametrize("name", TABLE)
async def test_the_reward_is_what_the_table_says(name: str) -> None:
    row = TABLE[name]
    part = ServerSlice(
        name="d", type="x", implementation="x", block={}, run_token="t", state_dir="unused", url="http://unused"
    )
    server = DominantColorServer(ToolResourcesServerConfig(), ServerContext(part, HttpPool()))
    seeding = SeedSessionRequest(
        resources_session_id="s",
        episode_id=EpisodeId(rollout_id="r"),
        task_id=TaskId(taskset="d", task_id="1"),
        task_data=ROW,
    )
    said = [OutputMessage(id="m", content=[OutputText(text=row.said)])] if row.said else []
    reply = ResponsesReply(id="r", created_at=0, status="completed", output=[*row.calls, *said])
    task = DominantColorTask.model_validate(ROW)
    found = await server.verify(Submission(task, reply, server.make_session(seeding)))
    assert (found.reward, found.reward_components, found.shaping) == (row.reward, {}, {})
    assert (found.failure and found.failure.kind) == (FailureKind.NO_FINAL_ANSWER if row.no_answer else None)
    assert (found.details["colors_in_place"], found.details["images_seen"]) == (row.in_place, row.images_seen)
