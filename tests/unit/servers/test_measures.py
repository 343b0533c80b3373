"""The numbers that an environment measures, from its `details` over its own route to the means of a run."""

import json
import math
from typing import Literal

import httpx
import pytest
from pydantic import SecretStr

from gym_core.errors import FailureKind
from gym_core.http.client import HttpPool
from gym_core.servers.aggregate import AggregateRequest, aggregate_rows
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.resources import ResourcesServer, ResourcesServerConfig, Submission
from gym_core.types.flat_row import VerifyRequest, verification_from_flat, verification_to_flat, verify_request_to_flat
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import ResponseError, ResponsesBody, ResponsesReply
from gym_core.types.task import Task, TaskData
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject

TASK = Task(id=TaskId(taskset="t", task_id="1"), responses_create_params=ResponsesBody(input="How many?"), task_data={})


class Measuring(ResourcesServer[TaskData, ResourcesServerConfig]):
    measured_columns = ("share", "calls", "solved", "word", "nothing", "no_number", "endless", "absent")

    async def verify(self, submission: Submission[TaskData]) -> Verification:
        words: JsonObject = {"word": "many", "nothing": None, "no_number": math.nan, "endless": math.inf}
        return Verification(reward=1.0, details={"share": 0.5, "calls": 3, "solved": True, "other": 9} | words)

    async def describe_failure(self, submission: Submission[TaskData]) -> JsonObject:
        return {"share": 0.25}


async def verified(error: ResponseError | None = None) -> Verification:
    """What a head server reads of the route's reply."""
    part = ServerSlice(
        name="m", type="x", implementation="x", block={}, run_token=SecretStr("t"), state_dir="unused", url="http://m"
    )
    server = Measuring(ResourcesServerConfig(), ServerContext(part, HttpPool()))
    transport, headers = httpx.ASGITransport(server.make_app()), {"Authorization": "Bearer t"}
    async with httpx.AsyncClient(transport=transport, base_url="http://m", headers=headers) as client:
        episode = EpisodeId(rollout_id="r").model_dump()
        seed = {"resources_session_id": "s", "episode_id": episode, "task_id": TASK.id.model_dump(), "task_data": {}}
        assert (await client.post("/seed_session", json=seed)).status_code == 200
        status: Literal["completed", "incomplete"] = "incomplete" if error else "completed"
        reply = ResponsesReply(id="r", created_at=0, status=status, output=[], error=error)
        flat = verify_request_to_flat(VerifyRequest(task=TASK, response=reply, resources_session_id="s"))
        response = await client.post("/verify", json=flat)
        assert response.status_code == 200, response.text
        return verification_from_flat(json.loads(response.content))


async def test_named_columns_that_are_numbers_are_measures_and_no_others() -> None:
    assert (await verified()).measures == {"share": 0.5, "calls": 3.0, "solved": 1.0}


async def test_a_rollout_that_is_scored_without_grading_is_measured_too() -> None:
    found = await verified(ResponseError(code=FailureKind.OUTPUT_CAP.value, message="cut"))
    assert (found.reward, found.measures) == (0.0, {"share": 0.25})


def test_measures_survive_a_flat_row_and_rows_of_before_have_none() -> None:
    flat = verification_to_flat(Verification(reward=1.0, details={"share": 0.5}, measures={"share": 0.5}))
    assert verification_from_flat(flat).measures == {"share": 0.5}
    del flat["_gym_measures"]
    assert verification_from_flat(flat).measures == {}


@pytest.mark.parametrize("number", ["many", None, [1]])
def test_a_row_whose_measures_are_no_numbers_is_refused(number: object) -> None:
    flat = verification_to_flat(Verification(reward=1.0)) | {"_gym_measures": {"share": number}}
    with pytest.raises(ValueError, match=r"measures\.share"):
        verification_from_flat(flat)


async def test_aggregated_rows_have_the_means() -> None:
    rows = [
        {"_ng_task_index": index, "reward": 1.0, "_gym_measures": {"share": share}}
        for index, share in enumerate((0, 1))
    ]
    masked = {"_ng_task_index": 2, "reward": 0.0, "mask_sample": True, "_gym_measures": {"share": 7.0}}
    reply = await aggregate_rows(AggregateRequest(verify_responses=[*rows, masked]))
    assert reply.key_metrics["mean/share"] == 0.5
