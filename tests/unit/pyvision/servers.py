"""The server with one session, its code run in a sandbox or by real processes beside the test."""

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from PIL import Image

from gym_core.capture.images import parse_data_url
from gym_core.http.client import HttpPool
from gym_core.sandbox.contract import Sandbox
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.python_runtime import PythonRuntime
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import InputImage, InputText
from gym_core.types.session import SeedSessionRequest
from gym_core.types.tool import ToolReply, ToolRequest
from gym_core.types.wire import JsonObject
from resources_servers.pyvision.app import PyVisionConfig, PyVisionServer, PyVisionSession
from tests.fakes.process_sandbox import ProcessSandbox

TASK: JsonObject = {"question": "What?", "expected_answer": "7"}


def png(width: int, height: int, color: str = "red") -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (width, height), color).save(content, "PNG")
    return content.getvalue()


def make_server(**config: object) -> PyVisionServer:
    part = ServerSlice(
        name="p", type="x", implementation="x", block={}, run_token="t", state_dir="unused", url="http://unused"
    )
    return PyVisionServer(PyVisionConfig.model_validate(config), ServerContext(part, HttpPool()))


def seeding(task: JsonObject) -> SeedSessionRequest:
    return SeedSessionRequest(
        resources_session_id="s",
        episode_id=EpisodeId(rollout_id="r"),
        task_id=TaskId(taskset="p", task_id="1"),
        task_data=task,
    )


@dataclass
class Played:
    server: PyVisionServer
    session: PyVisionSession
    n_calls: int = 0

    async def run(self, code: str) -> ToolReply:
        self.n_calls += 1
        arguments = json.dumps({"code": code})
        return await self.server.call_tool(
            self.session, ToolRequest(call_id=f"c{self.n_calls}", name="python", arguments=arguments)
        )


@asynccontextmanager
async def session_of(sandbox: Sandbox, *images: bytes, task: JsonObject = TASK, **config: Any) -> AsyncIterator[Played]:
    server = make_server(**config)
    session = server.make_session(seeding(task))
    session.sandbox = sandbox
    await server.begin_session(session)
    for index, image in enumerate(images):
        session.shelf.put_prompt(index, image)
    if isinstance(sandbox, ProcessSandbox):
        settings, folder = server.config.python_runtime, str(sandbox.folder / "runtime")
        session.runtime = PythonRuntime(sandbox, settings, server.setup(session), folder=folder)
    try:
        yield Played(server, session)
    finally:
        await server.end_session(session)


def text_of(reply: ToolReply) -> str:
    """With (WxH) where a picture stands."""
    return "\n".join(part.text if isinstance(part, InputText) else _size(part) for part in reply.content)


def _size(part: InputImage) -> str:
    with Image.open(io.BytesIO(parse_data_url(part.image_url))) as image:
        return f"({image.width}x{image.height})"
