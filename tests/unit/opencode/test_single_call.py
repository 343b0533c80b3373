"""The harness `single_call`, against a scripted endpoint on a socket."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent_servers.single_call.app import SingleCall
from agent_servers.single_call.chat import make_request, turn_of
from gym_core.errors import FailureKind
from gym_core.servers.agent import AgentServerConfig
from gym_core.types.responses import (
    FunctionCall,
    InputImage,
    InputMessage,
    InputText,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ResponsesBody,
    ResponsesReply,
)
from gym_core.types.session import ModelAccess
from gym_core.types.wire import JsonObject
from tests.fakes.agents import POLICY, open_agent_server
from tests.fakes.model import Calls, Fault, Says, ScriptedEndpoint
from tests.unit.opencode.pictures import data_url, picture

URL = data_url(picture())
SHOWN = InputImage(image_url=URL)
BODY = ResponsesBody(input=[InputMessage(role="user", content=[SHOWN, InputText(text="How many?")])])
ACCESS = ModelAccess(base_url="http://127.0.0.1:9/v1", api_key="k", context_tokens=1000, max_output_tokens=100)


@asynccontextmanager
async def replying(endpoint: ScriptedEndpoint, timeout_s: float = 30.0) -> AsyncIterator[ResponsesReply]:
    config = AgentServerConfig(model_server=POLICY, timeout_s=timeout_s)
    async with endpoint, open_agent_server(SingleCall, config, model_url=endpoint.url) as agent:
        assert (await agent.open()).status_code == 200
        yield await agent.respond(BODY)


async def test_one_call_with_text_and_image_is_made_with_the_sessions_key() -> None:
    endpoint = ScriptedEndpoint(lambda _: Says("\\boxed{3}", reasoning="One, two, three."))
    async with replying(endpoint) as reply:
        (request,) = endpoint.requests
    assert (reply.status, reply.final_text) == ("completed", "\\boxed{3}")
    assert isinstance(reply.output[0], ReasoningItem)
    assert reply.usage.output_tokens > 0
    assert request.headers["Authorization"] == "Bearer session-key"
    image, text = request.body["messages"][0]["content"]
    assert (image, text) == ({"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": "How many?"})
    assert request.body["max_tokens"] == 4096
    assert "tools" not in request.body


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        (Says("The ans", finish_reason="length"), FailureKind.OUTPUT_CAP),
        (Says(" \n"), FailureKind.NO_FINAL_ANSWER),
        (Says("", reasoning="Hm."), FailureKind.NO_FINAL_ANSWER),
        (Says("", calls=(Calls("bash", "{}"),)), FailureKind.NO_FINAL_ANSWER),
        (Says("x", finish_reason="content_filter"), FailureKind.NO_FINAL_ANSWER),
    ],
)
async def test_the_models_endings_are_told_apart(says: Says, kind: FailureKind) -> None:
    async with replying(ScriptedEndpoint(lambda _: says)) as reply:
        assert (reply.status, reply.error and reply.error.code) == ("incomplete", kind)


@pytest.mark.parametrize(
    "fault", [Fault.SERVER_ERROR, Fault.RATE_LIMITED, Fault.UNAUTHORIZED, Fault.BAD_REQUEST, Fault.HTML]
)
async def test_a_fault_of_the_endpoint_is_never_scored(fault: Fault) -> None:
    endpoint = ScriptedEndpoint()
    endpoint.fail_always(fault)
    async with replying(endpoint) as reply:
        assert (reply.status, reply.error and reply.error.code) == ("failed", FailureKind.MODEL_UNAVAILABLE)


async def test_a_prompt_that_does_not_fit_is_the_context_limit() -> None:
    async with replying(ScriptedEndpoint(context_tokens=100)) as reply:
        assert (reply.status, reply.error and reply.error.code) == ("incomplete", FailureKind.CONTEXT_LIMIT)


async def test_a_call_that_takes_too_long_meets_the_time_limit() -> None:
    endpoint = ScriptedEndpoint()
    endpoint.fail(Fault.HANG)
    async with replying(endpoint, timeout_s=0.1) as reply:
        assert (reply.status, reply.error and reply.error.code) == ("incomplete", FailureKind.AGENT_TIMEOUT)


def request_of(body: ResponsesBody) -> JsonObject:
    found: JsonObject = json.loads(make_request(body, ACCESS))
    return found


def test_instructions_earlier_turns_and_sampling_are_passed_on() -> None:
    body = ResponsesBody(
        instructions="Look.",
        input=[
            InputMessage(role="developer", content="Be brief."),
            InputMessage(role="user", content=[InputText(text="a"), InputText(text="b")]),
            OutputMessage(id="1", content=[OutputText(text="c")]),
            InputMessage(role="user", content="d"),
        ],
        max_output_tokens=7,
        temperature=0.0,
    )
    assert request_of(body) == {
        "model": "policy",
        "messages": [
            {"role": "system", "content": "Look."},
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "a\nb"},
            {"role": "assistant", "content": "c"},
            {"role": "user", "content": "d"},
        ],
        "max_tokens": 7,
        "temperature": 0.0,
    }


@pytest.mark.parametrize(
    "item",
    [
        FunctionCall(call_id="1", name="bash", arguments="{}"),
        InputMessage(role="user", content=[InputImage(image_url="https://example.com/a.png")]),
    ],
)
def test_what_one_call_cannot_carry_is_the_tasks_fault(item: FunctionCall | InputMessage) -> None:
    with pytest.raises(Exception, match=r"this harness cannot go on|not a data URL") as caught:
        make_request(ResponsesBody(input=[item]), ACCESS)
    assert getattr(caught.value, "kind", None) == FailureKind.INVALID_TASK


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"choices": []}', b'{"choices": [{"message": {"content": 7}}]}']
)
def test_a_reply_that_is_no_completion_is_the_endpoints_fault(content: bytes) -> None:
    failure = turn_of(200, content, context_tokens=1000).failure
    assert failure is not None
    assert failure.kind == FailureKind.MODEL_UNAVAILABLE


def test_a_length_stop_in_a_full_context_is_the_contexts() -> None:
    choice = {"message": {"content": "x"}, "finish_reason": "length"}
    content = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 999, "completion_tokens": 1}}).encode()
    failure = turn_of(200, content, context_tokens=1000).failure
    assert failure is not None
    assert failure.kind == FailureKind.CONTEXT_LIMIT
