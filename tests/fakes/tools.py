"""A resources server with tools for tests, on a loopback socket.

async with tool_house() as house:
    access = await house.seed("s1")            # what an agent is given
    house.server.ran                           # names of the tools that really ran, in order
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from PIL import Image
from pydantic import Field, SecretStr

from gym_core.http.client import HttpPool
from gym_core.servers.context import ServerContext, ServerSlice
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
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.session import SeedSessionReply, SeedSessionRequest
from gym_core.types.task import TaskData
from gym_core.types.tool import ToolAccess
from gym_core.types.verification import Verification
from tests.fakes.serving import serving

TOKEN = "run-token"


class CutArguments(ToolArguments):
    left: float = Field(ge=0, le=1, description="left edge")
    title: str = ""


class NoArguments(ToolArguments):
    pass


class CutServer(ToolResourcesServer[TaskData, ToolResourcesServerConfig]):
    """`cut` gives a part of the prompt's first image, `blow` a picture of many pixels, `break` is a bug."""

    needs_images = True

    def __init__(self, config: ToolResourcesServerConfig, context: ServerContext) -> None:
        super().__init__(config, context)
        self.ran: list[str] = []
        self.go_on = asyncio.Event()
        """What `wait` waits for."""
        self.rest = threading.Event()
        """What `toil`, in its thread, waits for."""

    def list_tools(self, task: TaskData) -> list[Tool[Any]]:
        return [
            Tool("cut", "Cuts the image.", CutArguments, self._cut),
            Tool("wait", "Waits.", NoArguments, self._wait),
            Tool("toil", "Works long.", NoArguments, self._toil, late_is_told=True),
            Tool("refuse", "Refuses.", NoArguments, self._refuse),
            Tool("break", "Breaks.", NoArguments, self._break),
            Tool("blow", "Makes a large picture.", NoArguments, self._blow),
            Tool("finish", "Ends it.", NoArguments, self._finish),
        ]

    async def verify(self, submission: Submission[TaskData]) -> Verification:
        return Verification(reward=1.0)

    def _cut(self, session: ToolSession[TaskData], arguments: CutArguments) -> ToolOutput:
        self.ran.append("cut")
        image = session.shelf.picture(0)
        left = int(arguments.left * (image.width - 1))
        return ToolOutput([image.crop((left, 0, image.width, image.height)), f"from {left}"])

    async def _wait(self, session: ToolSession[TaskData], _: NoArguments) -> ToolOutput:
        self.ran.append("wait")
        await self.go_on.wait()
        return ToolOutput(["waited"])

    def _toil(self, session: ToolSession[TaskData], _: NoArguments) -> ToolOutput:
        self.ran.append("toil")
        self.rest.wait(30)
        return ToolOutput(["toiled"])

    def _refuse(self, session: ToolSession[TaskData], _: NoArguments) -> ToolOutput:
        raise ToolError("not today")

    def _break(self, session: ToolSession[TaskData], _: NoArguments) -> ToolOutput:
        raise KeyError("a bug")

    def _blow(self, session: ToolSession[TaskData], _: NoArguments) -> ToolOutput:
        return ToolOutput(["before", Image.new("RGB", (8, 8)), Image.new("1", (4000, 4001))])

    def _finish(self, session: ToolSession[TaskData], _: NoArguments) -> ToolOutput:
        return ToolOutput(["bye"], ends=True)


@dataclass
class ToolHouse:
    url: str
    server: CutServer
    pool: HttpPool

    async def seed(self, session_id: str = "s1") -> ToolAccess:
        request = SeedSessionRequest(
            resources_session_id=session_id,
            episode_id=EpisodeId(rollout_id=session_id),
            task_id=TaskId(taskset="t", task_id="1"),
            task_data={},
        )
        reply = await self.pool.service(self.url, TOKEN).call("POST", "/seed_session", request, SeedSessionReply)
        access = reply.resources_tools
        assert access is not None
        return access


@asynccontextmanager
async def tool_house(**config: object) -> AsyncIterator[ToolHouse]:
    part = ServerSlice(
        name="cut", type="any", implementation="any", block={}, run_token=SecretStr(TOKEN), state_dir="unused",
        url="http://unused",
    )  # fmt: skip
    context = ServerContext(part, HttpPool())
    server = CutServer(ToolResourcesServerConfig.model_validate(config), context)
    async with HttpPool() as pool, serving(server.make_app()) as url:
        server.context = ServerContext(part.model_copy(update={"url": url}), context.pool)
        try:
            yield ToolHouse(url, server, pool)
        finally:
            server.rest.set()
