"""A server of the environment, without services around it."""

from gym_core.http.client import HttpPool
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.resources import Submission
from gym_core.servers.tools import ToolSession
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import ResponsesReply
from gym_core.types.session import SeedSessionRequest
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from resources_servers.visual_tools.app import VisualToolsConfig, VisualToolsServer, VisualToolsTask


def make_server(**config: object) -> VisualToolsServer:
    part = ServerSlice(
        name="v", type="x", implementation="x", block={}, run_token="t", state_dir="unused", url="http://unused"
    )
    return VisualToolsServer(VisualToolsConfig.model_validate(config), ServerContext(part, HttpPool()))


def seeded(server: VisualToolsServer, task: JsonObject) -> ToolSession[VisualToolsTask]:
    request = SeedSessionRequest(
        resources_session_id="s",
        episode_id=EpisodeId(rollout_id="r"),
        task_id=TaskId(taskset="v", task_id="1"),
        task_data=task,
    )
    return server.make_session(request)


async def graded_reply(reply: ResponsesReply, task: JsonObject) -> Verification:
    server = make_server()
    return await server.verify(Submission(VisualToolsTask.model_validate(task), reply, seeded(server, task)))
