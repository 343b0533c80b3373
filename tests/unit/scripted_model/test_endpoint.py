"""The endpoint speaks the chat-completions dialect, and its stream says what its plain answer says."""

import json
from collections.abc import AsyncIterator

import httpx
import openai
import pytest

from gym_core.types.wire import JsonObject
from model_servers.scripted_model.endpoint import MODEL_NAME, make_endpoint
from tests.unit.scripted_model.test_policy import QUESTION

BODY: JsonObject = {
    "model": "policy",
    "max_tokens": 32000,
    "unheard_of": {"x": 1},
    "messages": [
        {"role": "system", "content": "You are opencode."},
        {
            "role": "user",
            "content": [
                {
                    "type": "text",
                    "text": 'Called the Read tool with the following input: {"filePath":"/workspace/p.png"}',
                },
                {"type": "text", "text": "Image read successfully"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "text", "text": QUESTION},
            ],
        },
    ],
    "tools": [{"type": "function", "function": {"name": "bash", "parameters": {}}}],
}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(make_endpoint())
    async with httpx.AsyncClient(transport=transport, base_url="http://endpoint") as client:
        yield client


async def test_a_turn_with_a_call_is_a_chat_completion(client: httpx.AsyncClient) -> None:
    reply = (await client.post("/v1/chat/completions", json=BODY)).json()
    [choice] = reply["choices"]
    [call] = choice["message"]["tool_calls"]
    assert (reply["object"], reply["model"], choice["finish_reason"]) == ("chat.completion", "policy", "tool_calls")
    assert call["function"]["name"] == "bash"
    assert "/workspace/p.png" in json.loads(call["function"]["arguments"])["command"]
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens"] > 30


async def test_the_stream_adds_up_to_the_plain_answer(client: httpx.AsyncClient) -> None:
    plain = (await client.post("/v1/chat/completions", json=BODY)).json()
    streamed = await client.post(
        "/v1/chat/completions", json=BODY | {"stream": True, "stream_options": {"include_usage": True}}
    )
    assert streamed.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in streamed.text.splitlines() if line]
    assert events[-1] == "[DONE]"
    *chunks, last = [json.loads(event) for event in events[:-1]]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    message = plain["choices"][0]["message"]
    assert "".join(delta.get("content", "") for delta in deltas) == message["content"]
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert [{k: v for k, v in call.items() if k != "index"} for call in calls] == message["tool_calls"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert (last["choices"], last["usage"]) == ([], plain["usage"])


async def test_usage_is_streamed_only_when_asked_for(client: httpx.AsyncClient) -> None:
    streamed = await client.post("/v1/chat/completions", json=BODY | {"stream": True})
    assert "usage" not in streamed.text


async def test_asked_twice_it_says_the_same_under_the_same_ids(client: httpx.AsyncClient) -> None:
    first, second = [(await client.post("/v1/chat/completions", json=BODY)).json() for _ in range(2)]
    assert first["choices"] == second["choices"]
    assert first["id"] == second["id"]


async def test_the_official_client_reads_plain_and_streamed_turns_alike(client: httpx.AsyncClient) -> None:
    official = openai.AsyncOpenAI(
        base_url="http://endpoint/v1",
        api_key="EMPTY",
        http_client=client,  # type: ignore[arg-type]  # its newest versions know httpx by another name
        max_retries=0,
    )
    known = {key: BODY[key] for key in ("model", "messages", "tools")}
    plain = await official.chat.completions.create(**known)
    async with official.chat.completions.stream(**known) as stream:
        streamed = await stream.get_final_completion()
    [call], [streamed_call] = (reply.choices[0].message.tool_calls or [] for reply in (plain, streamed))
    assert call.function.name == streamed_call.function.name == "bash"
    assert call.function.arguments == streamed_call.function.arguments
    assert plain.choices[0].message.content == streamed.choices[0].message.content


async def test_it_lists_its_one_model(client: httpx.AsyncClient) -> None:
    reply = (await client.get("/v1/models")).json()
    assert [model["id"] for model in reply["data"]] == [MODEL_NAME]


@pytest.mark.parametrize("path", ["/v1/completions", "/", "/v1/embeddings"])
async def test_any_other_route_is_404_in_the_dialect(client: httpx.AsyncClient, path: str) -> None:
    reply = await client.post(path, json={})
    assert (reply.status_code, reply.json()["error"]["type"]) == (404, "invalid_request_error")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"messages": 3}', b'{"messages": [{"content": "x"}]}'])
async def test_a_body_that_is_no_request_is_400_in_the_dialect(client: httpx.AsyncClient, content: bytes) -> None:
    reply = await client.post("/v1/chat/completions", content=content)
    assert reply.status_code == 400
    assert "not a chat-completions request" in reply.json()["error"]["message"]
