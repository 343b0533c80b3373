"""A record's request beside the one that the endpoint really received."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gym_core.capture.images import AssetStore
from gym_core.capture.recorder import capture_path, read_captured
from gym_core.capture.request import rebuild_request
from gym_core.types.wire import JsonObject
from tests.fakes.model import Calls, Fault, Says, ScriptedEndpoint
from tests.fakes.proxy import PIXEL, Proxy, Session, chat, image_message, vllm_proxy


@pytest.fixture
async def endpoint() -> AsyncIterator[ScriptedEndpoint]:
    async with ScriptedEndpoint(lambda _: Says("", calls=(Calls("bash", '{ "x": 1.0 }'),))) as endpoint:
        yield endpoint


@pytest.fixture
async def proxy(endpoint: ScriptedEndpoint, tmp_path: Path) -> AsyncIterator[Proxy]:
    async with vllm_proxy(endpoint, tmp_path, chat_template_kwargs={"enable_thinking": False}) as proxy:
        yield proxy


def sorted_at_the_top(body: JsonObject) -> str:
    """With the order of keys, and the spelling of numbers, below the top level."""
    return json.dumps(dict(sorted(body.items())))


def check_last(session: Session, endpoint: ScriptedEndpoint) -> JsonObject:
    *_, captured = read_captured(capture_path(session.proxy.state_dir / "captures", session.id))
    assets = AssetStore(session.proxy.state_dir / "assets")
    sent = json.loads(endpoint.requests[-1].raw)
    for call in (captured, captured.as_model_call()):
        assert sorted_at_the_top(rebuild_request(call, assets)) == sorted_at_the_top(sent)
    return captured.facts


async def test_pictures_come_back_where_they_were_and_as_they_were_called(
    endpoint: ScriptedEndpoint, proxy: Proxy
) -> None:
    session = await proxy.open_session()
    odd = base64.b64encode(b"no known image").decode()
    urls = [
        f"data:image/png;base64,{PIXEL}",
        f"data:image/jpg;base64,{PIXEL}",
        f"data:IMAGE/x-odd;BASE64,{odd}",
    ]
    parts: list[JsonObject] = [{"type": "text", "text": "sha256:" + "0" * 64}]
    parts += [{"image_url": {"detail": "high", "url": url}, "type": "image_url"} for url in urls]
    messages: list[JsonObject] = [image_message(), {"content": parts, "role": "user"}, image_message(text="é")]
    assert (await session.chat(chat(messages=messages))).status_code == 200
    facts = check_last(session, endpoint)
    assert facts["image_url_heads"] == {"2": "data:image/jpg;base64,", "3": "data:IMAGE/x-odd;BASE64,"}
    assert (await session.chat(chat(messages=messages[:1]))).status_code == 200
    assert "image_url_heads" not in check_last(session, endpoint)


async def test_a_restored_tool_call_and_odd_content_are_what_was_sent(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    session = await proxy.open_session()
    question = {"role": "user", "content": '1.0 \u00e9 \u2028 \U0001f600 " \\ /'}
    reply = await session.chat(chat(messages=[question], stream=False, temperature=1.0, stop=["x"], seed=7))
    made = reply.json()["choices"][0]["message"]["tool_calls"][0]
    facts = check_last(session, endpoint)
    assert facts["sampling"]["model"] == "tiny"
    came_back = {"id": made["id"], "type": "function", "function": {"name": "invalid", "arguments": '{"x":1}'}}
    turn = {"role": "assistant", "content": None, "tool_calls": [came_back]}
    result = {
        "role": "tool",
        "tool_call_id": made["id"],
        "content": [{"type": "text", "text": "", "cache_control": {}}],
    }
    messages = [question, turn, result]
    assert (
        await session.chat(chat(messages=messages, top_p=0.50, response_format={"b": 1, "a": 2}))
    ).status_code == 200
    check_last(session, endpoint)


async def test_what_an_endpoint_would_not_take_is_not_in_it(tmp_path: Path) -> None:
    async with (
        ScriptedEndpoint(refuses=frozenset({"include_reasoning"}), context_tokens=2000) as endpoint,
        vllm_proxy(endpoint, tmp_path) as proxy,
    ):
        session = await proxy.open_session()
        assert (await session.chat(chat("x" * 1000, max_completion_tokens=1900))).status_code == 200
        facts = check_last(session, endpoint)
        assert facts["attempts"] == len(endpoint.requests) > 1
        assert facts["sampling"]["max_completion_tokens"] < 1000


async def test_a_failed_call_can_be_rebuilt_and_a_lost_one_not(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    session = await proxy.open_session()
    endpoint.fail_always(Fault.UNAUTHORIZED)
    assert (await session.chat(chat(messages=[image_message()]))).status_code == 422
    check_last(session, endpoint)
    proxy.server.sessions.find(session.id).intend(
        {"call_id": "mc_lost", "session_id": session.id, "index": 1, "sent_at": 1.0}
    )
    *_, lost = session.calls()
    with pytest.raises(ValueError, match="nothing was kept"):
        rebuild_request(lost, AssetStore(proxy.state_dir / "assets"))


async def test_a_picture_that_is_gone_is_an_error(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    session = await proxy.open_session()
    await session.chat(chat(messages=[image_message()]))
    (call,) = session.calls()
    with pytest.raises(FileNotFoundError):
        rebuild_request(call, AssetStore(proxy.state_dir / "elsewhere"))
