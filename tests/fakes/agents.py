"""An agent server over its own routes, with a lender and a policy server beside it on loopback sockets.

async with open_agent_server(OpenCodeAgent, config, sandbox=sandbox) as agent:
    await agent.open()
    reply = await agent.respond(body)
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import httpx
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from gym_core.config.roots import ServerType
from gym_core.config.schema import ServerRef
from gym_core.http.client import HttpPool
from gym_core.sandbox.contract import Sandbox
from gym_core.servers.agent import SESSION_HEADER, AgentConfigT, AgentServer
from gym_core.servers.context import Peer, ServerContext, ServerSlice
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import ResponsesBody, ResponsesReply
from gym_core.types.session import (
    AgentReport,
    CaptureSummary,
    CloseAgentSessionReply,
    CloseAgentSessionRequest,
    ModelAccess,
    OpenAgentSessionRequest,
    SandboxLease,
)
from gym_core.types.tool import ToolAccess
from tests.fakes.lending import open_lender

POLICY = ServerRef(type=ServerType.MODEL, name="policy_model")
SESSION_ID = "s1"
RUN_TOKEN = "run-token"


@dataclass
class FakePolicy:
    """The policy server's other face: what it saw of a session."""

    calls: CaptureSummary | None = None
    """None: it knows no such session."""
    count: Callable[[], CaptureSummary] | None = None
    """Asked instead of `calls` where it is set."""

    async def capture(self, request: web.Request) -> web.Response:
        calls = self.count() if self.count else self.calls
        if calls is None:
            return web.json_response({"error": {"kind": "session_lost", "message": "unknown"}}, status=404)
        return web.json_response(text=calls.model_dump_json())


@dataclass
class AgentClient:
    """The head server's calls. `http` reaches the routes bare."""

    http: httpx.AsyncClient
    policy: FakePolicy
    model: ModelAccess
    lease: SandboxLease | None
    tools: list[ToolAccess] = field(default_factory=list)
    """Offered in every opening."""

    def opening(self, session_id: str = SESSION_ID, rollout_id: str = "r1") -> OpenAgentSessionRequest:
        return OpenAgentSessionRequest(
            agent_session_id=session_id,
            episode_id=EpisodeId(rollout_id=rollout_id),
            task_id=TaskId(taskset="t", task_id="1"),
            model=self.model,
            sandbox_access=self.lease,
            tool_accesses=self.tools,
        )

    async def open(self, session_id: str = SESSION_ID, rollout_id: str = "r1") -> httpx.Response:
        return await self.post("/v1/agent_sessions", self.opening(session_id, rollout_id).model_dump_json())

    async def respond_raw(self, body: str, session_id: str = SESSION_ID) -> httpx.Response:
        return await self.post("/v1/responses", body, {SESSION_HEADER: session_id})

    async def respond(self, body: ResponsesBody, session_id: str = SESSION_ID) -> ResponsesReply:
        reply = await self.respond_raw(body.model_dump_json(), session_id)
        assert reply.status_code == 200, reply.text
        return ResponsesReply.model_validate_json(reply.content)

    async def close_raw(self, session_id: str = SESSION_ID, rollout_id: str = "r1") -> httpx.Response:
        request = CloseAgentSessionRequest(agent_session_id=session_id, episode_id=EpisodeId(rollout_id=rollout_id))
        return await self.post("/v1/agent_sessions/close", request.model_dump_json())

    async def close(self) -> AgentReport:
        reply = await self.close_raw()
        assert reply.status_code == 200, reply.text
        return CloseAgentSessionReply.model_validate_json(reply.content).agent_observations

    async def post(self, route: str, body: str, headers: dict[str, str] | None = None) -> httpx.Response:
        return await self.http.post(route, content=body.encode(), headers=headers)


@asynccontextmanager
async def open_agent_server(
    server_class: type[AgentServer[AgentConfigT]],
    config: AgentConfigT,
    *,
    sandbox: Sandbox | None = None,
    model_url: str = "http://127.0.0.1:9/v1",
) -> AsyncIterator[AgentClient]:
    policy = FakePolicy()
    app = web.Application()
    app.router.add_get("/v1/capture_sessions/{session_id}", policy.capture)
    async with AsyncExitStack() as stack:
        policy_server = await stack.enter_async_context(TestServer(app))
        lease = (await stack.enter_async_context(open_lender())).lease(sandbox) if sandbox else None
        pool = await stack.enter_async_context(HttpPool())
        token = SecretStr(RUN_TOKEN)
        server_slice = ServerSlice(
            name="agent",
            type=ServerType.AGENT,
            implementation="agent",
            block={},
            run_token=token,
            peers={POLICY.name: Peer(url=str(policy_server.make_url("")), token=token)},
            state_dir="unused",
            url="http://agent",
        )
        server = server_class(config, ServerContext(slice=server_slice, pool=pool)).make_app()
        await stack.enter_async_context(server.router.lifespan_context(server))
        http = httpx.AsyncClient(
            transport=httpx.ASGITransport(server),
            base_url="http://agent",
            headers={"Authorization": f"Bearer {RUN_TOKEN}"},
            timeout=60,
        )
        await stack.enter_async_context(http)
        model = ModelAccess(base_url=model_url, api_key="session-key", context_tokens=32768, max_output_tokens=4096)
        yield AgentClient(http, policy, model, lease)
