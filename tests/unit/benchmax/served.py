"""A `benchmax` resources server for tests, opened in the test's own loop and called without HTTP."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from gym_core.config.roots import INSTALL_DIR
from gym_core.errors import FailureKind
from gym_core.http.client import HttpPool
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.types.flat_row import VerifyRequest
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import OutputItem, OutputMessage, OutputText, ResponseError, ResponsesBody, ResponsesReply
from gym_core.types.session import CloseSessionRequest, SeedSessionReply, SeedSessionRequest
from gym_core.types.task import Task
from gym_core.types.tool import ToolReply, ToolRequest
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from resources_servers.benchmax.app import BenchmaxConfig, BenchmaxServer

ODD = "tests.unit.benchmax.odd_environments"
TASK_DATA: JsonObject = {
    "example_id": "e1",
    "split": "eval",
    "payload": {"prompt_messages": [{"role": "user", "content": "What is twice 21?"}], "answer": "42"},
}


class Served:
    """One server, and one session of it at a time."""

    def __init__(self, server: BenchmaxServer, journal: Path) -> None:
        self.server = server
        self._journal = journal
        self._n_calls = 0

    @property
    def journal(self) -> list[str]:
        return self._journal.read_text().splitlines() if self._journal.exists() else []

    async def seed(self, session_id: str = "s1", task_data: JsonObject = TASK_DATA) -> SeedSessionReply:
        request = SeedSessionRequest(
            resources_session_id=session_id,
            episode_id=EpisodeId(rollout_id=session_id),
            task_id=TaskId(taskset="t", task_id="1"),
            task_data=task_data,
        )
        return await self.server.seed(request)

    async def call(self, arguments: str = '{"n": 21}', *, name: str = "double", session_id: str = "s1") -> ToolReply:
        self._n_calls += 1
        session = self.server.sessions.find(session_id)
        asked = ToolRequest(call_id=f"c{self._n_calls}", name=name, arguments=arguments)
        return await self.server.call_tool(session, asked)  # type: ignore[arg-type]  # all of this server's are of tools

    async def text(self, arguments: str = '{"n": 21}', **more: Any) -> str:
        (part,) = (await self.call(arguments, **more)).content
        assert part.type == "input_text"
        return part.text

    async def grade(self, response: ResponsesReply, session_id: str = "s1") -> Verification:
        task = Task(
            id=TaskId(taskset="t", task_id="1"),
            responses_create_params=ResponsesBody(input="What is twice 21?"),
            task_data=TASK_DATA,
        )
        return await self.server.grade(VerifyRequest(task=task, response=response, resources_session_id=session_id))

    async def close(self, session_id: str = "s1") -> None:
        episode_id = EpisodeId(rollout_id=session_id)
        await self.server.close_session(CloseSessionRequest(resources_session_id=session_id, episode_id=episode_id))


@asynccontextmanager
async def served(
    folder: Path, class_name: str, *, arguments: JsonObject | None = None, **block: Any
) -> AsyncIterator[Served]:
    """Raises ConfigError for a class that is refused."""
    journal = folder / "journal"
    environment = {"class_path": f"{ODD}:{class_name}", "arguments": {"journal": str(journal)} | (arguments or {})}
    part = ServerSlice(
        name="b", type="resources_servers", implementation="benchmax", block={}, run_token=SecretStr("t"),
        state_dir="unused", url="http://unused", roots=[str(INSTALL_DIR)],
    )  # fmt: skip
    config = BenchmaxConfig.model_validate({"environment": environment} | block)
    server = BenchmaxServer(config, ServerContext(part, HttpPool()))
    try:
        await server.open()
        yield Served(server, journal)
    finally:
        await server.close()


def said(text: str, *before: OutputItem) -> ResponsesReply:
    """A trajectory that ends with this answer."""
    output: list[OutputItem] = [*before, OutputMessage(id="m", content=[OutputText(text=text)])]
    return ResponsesReply(id="r", created_at=0, status="completed", output=output)


def stopped(kind: FailureKind, ending: str | None = None, output: Sequence[OutputItem] = ()) -> ResponsesReply:
    """A trajectory that a limit ended."""
    return ResponsesReply(
        id="r", created_at=0, status="incomplete", output=list(output),
        error=ResponseError(code=kind, message="a limit"), metadata={"ending": ending} if ending else None,
    )  # fmt: skip


def open_gate() -> None:
    """Let `Blocks` go on. Its module is there only once a class of it was loaded."""
    sys.modules[ODD].GATE.set()
