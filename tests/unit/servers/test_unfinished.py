"""What becomes of an answer that a limit cut off, in environments that grade such answers and in others."""

import pytest
from pydantic import SecretStr

from gym_core.errors import FailureKind
from gym_core.http.client import HttpPool
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.resources import ResourcesServer, ResourcesServerConfig, Submission
from gym_core.types.flat_row import VerifyRequest
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import ResponseError, ResponsesBody, ResponsesReply
from gym_core.types.session import SeedSessionRequest
from gym_core.types.task import Task, TaskData
from gym_core.types.verification import Verification

ID = TaskId(taskset="t", task_id="1")


class Plain(ResourcesServer[TaskData, ResourcesServerConfig]):
    async def verify(self, submission: Submission[TaskData]) -> Verification:
        error = submission.response.error
        return Verification(reward=0.5, details={"saw": error.code if error else None})


class Lenient(Plain):
    def grades_unfinished(self, response: ResponsesReply) -> bool:
        return response.error is not None and response.error.code != FailureKind.AGENT_TIMEOUT


class Breaking(Lenient):
    async def verify(self, submission: Submission[TaskData]) -> Verification:
        raise KeyError("a bug")


async def graded(server_type: type[Plain], kind: FailureKind) -> tuple[float | None, FailureKind | None, str | None]:
    part = ServerSlice(
        name="m", type="x", implementation="x", block={}, run_token=SecretStr("t"), state_dir="unused", url="http://m"
    )
    server = server_type(ResourcesServerConfig(), ServerContext(part, HttpPool()))
    episode = EpisodeId(rollout_id="r")
    await server.seed(SeedSessionRequest(resources_session_id="s", episode_id=episode, task_id=ID, task_data={}))
    reply = ResponsesReply(
        id="r", created_at=0, status="incomplete", output=[], error=ResponseError(code=kind, message="a limit")
    )
    task = Task(id=ID, responses_create_params=ResponsesBody(input="How many?"), task_data={})
    found = await server.grade(VerifyRequest(task=task, response=reply, resources_session_id="s"))
    return found.reward, found.failure.kind if found.failure else None, found.details.get("saw")


@pytest.mark.parametrize(
    ("server_type", "kind", "found"),
    [
        (Plain, FailureKind.OUTPUT_CAP, (0.0, FailureKind.OUTPUT_CAP, None)),
        (Lenient, FailureKind.OUTPUT_CAP, (0.5, FailureKind.OUTPUT_CAP, "output_cap")),
        (Lenient, FailureKind.AGENT_TIMEOUT, (0.0, FailureKind.AGENT_TIMEOUT, None)),
        (Lenient, FailureKind.SANDBOX_LOST, (None, FailureKind.SANDBOX_LOST, None)),
        (Breaking, FailureKind.OUTPUT_CAP, (None, FailureKind.VERIFIER_ERROR, None)),
    ],
)
async def test_an_unfinished_answer_scores_0_unless_the_environment_grades_it(
    server_type: type[Plain], kind: FailureKind, found: tuple[float | None, FailureKind, str | None]
) -> None:
    assert await graded(server_type, kind) == found
