"""What every agent server keeps to: sessions, images, and the edges of its routes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import pytest

from agent_servers.opencode_agent.app import OpenCodeAgent, OpenCodeAgentConfig
from agent_servers.single_call.app import SingleCall
from agent_servers.tool_agent.app import ToolAgent, ToolAgentConfig
from gym_core.errors import FailureKind
from gym_core.sandbox.contract import ModelOnly, SandboxSpec
from gym_core.servers.agent import AgentServerConfig
from gym_core.types.responses import ResponsesBody
from tests.fakes.agents import POLICY, AgentClient, open_agent_server
from tests.fakes.model import Fault, ScriptedEndpoint
from tests.fakes.opencode import FakeOpenCode, recorded
from tests.fakes.sandbox import FakeSandbox
from tests.unit.opencode.pictures import picture

BODY = ResponsesBody(input="How many?")
IMAGES = "/v1/agent_sessions/s1/images"


class Opening(Protocol):
    def __call__(self, *, is_slow: bool = False) -> AbstractAsyncContextManager[AgentClient]: ...


@asynccontextmanager
async def opencode_agent(*, is_slow: bool = False) -> AsyncIterator[AgentClient]:
    sandbox = FakeSandbox("box-1", SandboxSpec(network=ModelOnly(host="127.0.0.1", port=8001)))
    sandbox.on_exec(FakeOpenCode(recorded("normal"), ends_late=asyncio.Event() if is_slow else None))
    config = OpenCodeAgentConfig(model_server=POLICY)
    async with open_agent_server(OpenCodeAgent, config, sandbox=sandbox) as agent:
        yield agent


@asynccontextmanager
async def single_call(*, is_slow: bool = False) -> AsyncIterator[AgentClient]:
    sandbox = FakeSandbox("box-1", SandboxSpec())
    async with ScriptedEndpoint() as endpoint:
        if is_slow:
            endpoint.fail_always(Fault.HANG)
        config = AgentServerConfig(model_server=POLICY)
        async with open_agent_server(SingleCall, config, sandbox=sandbox, model_url=endpoint.url) as agent:
            yield agent


@asynccontextmanager
async def tool_agent(*, is_slow: bool = False) -> AsyncIterator[AgentClient]:
    sandbox = FakeSandbox("box-1", SandboxSpec())
    async with ScriptedEndpoint() as endpoint:
        if is_slow:
            endpoint.fail_always(Fault.HANG)
        config = ToolAgentConfig(model_server=POLICY)
        async with open_agent_server(ToolAgent, config, sandbox=sandbox, model_url=endpoint.url) as agent:
            yield agent


@pytest.fixture(params=[opencode_agent, single_call, tool_agent], ids=lambda opening: str(opening.__name__))
def opening(request: pytest.FixtureRequest) -> Opening:
    found: Opening = request.param
    return found


@pytest.fixture
async def agent(opening: Opening) -> AsyncIterator[AgentClient]:
    async with opening() as client:
        yield client


async def test_a_turn_is_played_in_an_open_session(agent: AgentClient) -> None:
    await agent.open()
    reply = await agent.respond(BODY)
    assert (reply.status, bool(reply.final_text)) == ("completed", True)


async def test_opening_twice_is_once(agent: AgentClient) -> None:
    first, second = await agent.open(), await agent.open()
    assert (first.status_code, second.status_code, first.json()) == (200, 200, second.json())


async def test_an_open_session_belongs_to_its_episode(agent: AgentClient) -> None:
    await agent.open()
    stolen = await agent.open(rollout_id="another")
    closed = await agent.close_raw(rollout_id="another")
    assert (stolen.status_code, closed.status_code) == (409, 409)
    assert (await agent.respond(BODY)).status == "completed"


async def test_closing_twice_hands_over_the_same_report(agent: AgentClient) -> None:
    await agent.open()
    await agent.respond(BODY)
    first = await agent.close()
    assert first.seconds > 0
    assert await agent.close() == first


async def test_a_session_that_never_opened_can_be_closed_and_then_not_be_opened(agent: AgentClient) -> None:
    assert (await agent.close_raw()).status_code == 200
    assert (await agent.open()).status_code == 409


async def test_a_closed_session_plays_no_turn(agent: AgentClient) -> None:
    await agent.open()
    await agent.close()
    assert (await agent.respond_raw(BODY.model_dump_json())).status_code == 409


@pytest.mark.parametrize("session_id", ["unknown", ""])
async def test_an_unknown_session_plays_no_turn(agent: AgentClient, session_id: str) -> None:
    reply = await agent.respond_raw(BODY.model_dump_json(), session_id)
    assert (reply.status_code, reply.json()["error"]["kind"]) == (404, FailureKind.SESSION_LOST)


async def test_a_session_plays_one_turn_at_a_time_and_closing_ends_it(opening: Opening) -> None:
    async with opening(is_slow=True) as agent:
        await agent.open()
        playing = asyncio.ensure_future(agent.respond_raw(BODY.model_dump_json()))
        await asyncio.sleep(0.05)
        assert (await agent.respond_raw(BODY.model_dump_json())).status_code == 409
        await agent.close()
        assert (await playing).status_code == 409


async def test_a_caller_that_leaves_frees_the_session(opening: Opening) -> None:
    async with opening(is_slow=True) as agent:
        await agent.open()
        playing = asyncio.ensure_future(agent.respond_raw(BODY.model_dump_json()))
        await asyncio.sleep(0.05)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        assert (await agent.close()).seconds > 0


@pytest.mark.parametrize("body", ["", "{}", "[]", '{"input": 7}', '{"input": "x", "stream": true}', '{"inputs": "x"}'])
async def test_a_malformed_body_is_named_and_not_echoed(agent: AgentClient, body: str) -> None:
    await agent.open()
    reply = await agent.respond_raw(body)
    assert (reply.status_code, reply.json()["error"]["kind"]) == (422, "bad_request")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
async def test_an_uploaded_image_comes_back_byte_for_byte(agent: AgentClient, kind: str) -> None:
    await agent.open()
    content, name = picture(kind), f"a.{kind.lower()}"
    assert (await agent.http.put(f"{IMAGES}/{name}", content=content)).status_code == 204
    assert (await agent.http.put(f"{IMAGES}/{name}", content=content)).status_code == 204
    got = await agent.http.get(f"{IMAGES}/{name}")
    assert (got.content, got.headers["x-content-type-options"]) == (content, "nosniff")
    assert (await agent.http.get(IMAGES)).json() == {"images": [name]}


@pytest.mark.parametrize("name", ["a.txt", ".png", "a b.png", "..%2Fa.png", "%2Fetc%2Fpasswd.png", "a%00.png", "-.png"])
async def test_a_name_that_is_none_is_refused(agent: AgentClient, name: str) -> None:
    await agent.open()
    assert (await agent.http.put(f"{IMAGES}/{name}", content=picture())).status_code in (404, 422)
    assert (await agent.http.get(f"{IMAGES}/{name}")).status_code in (404, 422)
    assert (await agent.http.get(IMAGES)).json() == {"images": []}


@pytest.mark.parametrize("content", [b"", b"no image", picture()[:50]], ids=["empty", "text", "cut"])
async def test_what_is_no_image_is_refused(agent: AgentClient, content: bytes) -> None:
    await agent.open()
    reply = await agent.http.put(f"{IMAGES}/a.png", content=content)
    assert (reply.status_code, reply.json()["error"]["kind"]) == (422, "bad_request")
    assert (await agent.http.get(IMAGES)).json() == {"images": []}


async def test_an_image_that_is_not_there_is_not_found(agent: AgentClient) -> None:
    await agent.open()
    assert (await agent.http.get(f"{IMAGES}/a.png")).json()["error"]["type"] == "FileNotFoundError"


async def test_images_of_an_unknown_session_are_refused(agent: AgentClient) -> None:
    assert (await agent.http.put(f"{IMAGES}/a.png", content=picture())).status_code == 404
    assert (await agent.http.get(IMAGES)).status_code == 404


@pytest.mark.parametrize("route", ["/v1/responses", "/v1/agent_sessions", "/v1/agent_sessions/close"])
async def test_no_route_works_without_the_run_token(agent: AgentClient, route: str) -> None:
    reply = await agent.http.post(route, content=b"{}", headers={"Authorization": "Bearer nonsense"})
    assert reply.status_code == 401
