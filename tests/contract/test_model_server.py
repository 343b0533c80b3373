"""What every kind of model server promises: who may call what, what reaches the endpoint, what is kept."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest

from gym_core.capture.images import AssetStore
from gym_core.types.model_call import EndpointReport
from gym_core.types.responses import ResponsesReply
from gym_core.types.wire import JsonObject
from tests.fakes.model import Calls, Fault, Says, ScriptedEndpoint
from tests.fakes.proxy import PIXEL, RUN_TOKEN, TOOLS, USER_TOKEN, Proxy, chat, image_message, openai_proxy, vllm_proxy

MakeProxy = Callable[..., AbstractAsyncContextManager[Proxy]]


@pytest.fixture
async def endpoint() -> AsyncIterator[ScriptedEndpoint]:
    async with ScriptedEndpoint(lambda _: Says("two", calls=(Calls("bash", '{"a": 1.0}'),))) as endpoint:
        yield endpoint


@pytest.fixture(params=[vllm_proxy, openai_proxy])
def make_proxy(request: pytest.FixtureRequest, endpoint: ScriptedEndpoint, tmp_path: Path) -> MakeProxy:
    def make(**fields: object) -> AbstractAsyncContextManager[Proxy]:
        proxy: AbstractAsyncContextManager[Proxy] = request.param(endpoint, tmp_path, **fields)
        return proxy

    return make


@pytest.fixture
async def proxy(make_proxy: MakeProxy) -> AsyncIterator[Proxy]:
    async with make_proxy() as proxy:
        yield proxy


ADMIN = [
    ("POST", "/v1/capture_sessions"),
    ("GET", "/v1/capture_sessions/s1"),
    ("DELETE", "/v1/capture_sessions/s1"),
    ("POST", "/v1/check"),
]


async def test_a_sessions_key_opens_the_model_and_nothing_else(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    session = await proxy.open_session()
    assert (await session.chat(chat())).status_code == 200
    assert (await proxy.send("GET", "/v1/models", session.key)).status_code == 200
    closed = [*ADMIN, ("GET", "/openapi.json"), ("POST", "/v1/chat/completions/"), ("POST", "/v1/completions")]
    for method, path in closed:
        assert (await proxy.send(method, path, session.key, {})).status_code == 401, path


async def test_a_key_is_good_only_from_the_sandbox_that_used_it_first(proxy: Proxy) -> None:
    session = await proxy.open_session()
    statuses = []
    for source in ("127.9.8.7", "127.6.5.4", "127.9.8.7"):
        transport = httpx.AsyncHTTPTransport(local_address=source)
        async with httpx.AsyncClient(transport=transport, base_url=proxy.url) as http:
            reply = await http.get("/v1/models", headers={"Authorization": f"Bearer {session.key}"})
            statuses.append(reply.status_code)
    assert statuses == [200, 401, 200]


@pytest.mark.parametrize(("method", "path"), ADMIN)
async def test_users_may_call_the_model_but_not_run_sessions(proxy: Proxy, method: str, path: str) -> None:
    assert (await proxy.send("POST", "/v1/chat/completions", USER_TOKEN, chat())).status_code == 200
    assert (await proxy.send(method, path, USER_TOKEN, {})).status_code == 401
    assert (await proxy.send(method, path, "guessed", {})).status_code == 401


async def test_only_the_listed_paths_exist(proxy: Proxy) -> None:
    for path in ("/v1/load_lora_adapter", "/collective_rpc", "/v1/chat/completions/render", "/metrics"):
        assert (await proxy.as_run("POST", path, {})).status_code == 404
    assert (await proxy.as_run("GET", "/v1/chat/completions")).status_code == 405


async def test_opening_twice_gives_one_key_and_closing_ends_it(proxy: Proxy) -> None:
    session, again, other = await proxy.open_session(), await proxy.open_session(), await proxy.open_session("s2")
    assert session.key == again.key != other.key
    await session.chat(chat())
    final = await session.close()
    assert (final.calls, await session.close()) == (1, final)
    assert await session.summary() == final
    assert (await session.chat(chat())).status_code == 401
    assert (await other.chat(chat())).status_code == 200
    reopened = await proxy.as_run("POST", "/v1/capture_sessions", {"session_id": "s1"})
    assert (reopened.status_code, reopened.json()["error"]["kind"]) == (409, "session_conflict")


async def test_a_session_of_an_earlier_process_is_lost_and_not_the_models_failure(make_proxy: MakeProxy) -> None:
    async with make_proxy() as proxy:
        session = await proxy.open_session()
    async with make_proxy() as restarted:
        session.proxy = restarted
        assert (await session.chat(chat())).status_code == 401
        reply = await restarted.as_run("DELETE", "/v1/capture_sessions/s1")
        assert (reply.status_code, reply.json()["error"]["kind"]) == (404, "session_lost")


@pytest.mark.parametrize("session_id", ["../x", "a/b", "", "x" * 200])
async def test_session_ids_that_could_name_another_file_are_refused(proxy: Proxy, session_id: str) -> None:
    reply = await proxy.as_run("POST", "/v1/capture_sessions", {"session_id": session_id})
    assert reply.status_code == 422


async def test_relative_folders_are_refused(proxy: Proxy) -> None:
    reply = await proxy.as_run("POST", "/v1/capture_sessions", {"session_id": "s1", "captures_dir": "here"})
    assert reply.status_code == 422


async def test_a_hostile_body_reaches_the_endpoint_as_an_honest_one(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    session = await proxy.open_session()
    body = json.dumps(chat(temperature=0.5, stop=["x"]))[:-1]
    body += ', "n": 64, "logprobs": false, "return_token_ids": false, "stream": true, "model": "other", "priority": -1'
    body += ', "chat_template": "{{ x }}", "logprobs": false, "guided_json": {}, "best_of": 9, "max_tokens": 999999}'
    assert (await session.chat(body.encode())).status_code == 200
    sent = endpoint.requests[-1].body
    assert sent.keys() - {"logprobs", "return_token_ids", "include_reasoning"} == {
        "model", "messages", "tools", "stream", "stream_options", "temperature", "stop", "max_tokens",
    }  # fmt: skip
    assert (sent["model"], sent["max_tokens"], sent["stream"]) == ("tiny", 32768, True)
    assert sent.get("logprobs", True) is True
    assert [note for note in (await session.summary()).notes if note.startswith("dropped_field:")]


async def test_what_the_model_is_shown_is_what_the_harness_sent(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    session = await proxy.open_session()
    odd = '{"role" : "user", "content":[{"type":"text","text":"1.0 \\u00e9 \\/ é", "cache_control":{"b":1,"a":2}}]}'
    body = f'{{"messages":[{odd}],"tools":{json.dumps(TOOLS)},"temperature":1.0}}'
    assert (await session.chat(body.encode())).status_code == 200
    assert odd.encode() in endpoint.requests[-1].raw
    assert b'"temperature":1.0' in endpoint.requests[-1].raw


BAD_BODIES: dict[str, bytes] = {
    "no JSON": b"hello",
    "a list": b"[]",
    "no messages": b'{"model": "policy"}',
    "empty messages": b'{"messages": []}',
    "deep nesting": b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep content": b'{"messages": [{"role": "user", "content": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}]}",
    "invalid UTF-8": b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}',
    "invalid UTF-8 in a field": b'{"messages": [{"role": "user", "content": ""}], "stop": "\xff"}',
    "an object as content": b'{"messages": [{"role": "user", "content": {"type": "text"}}]}',
    "unknown role": b'{"messages": [{"role": "root", "content": ""}]}',
    "unknown message field": b'{"messages": [{"role": "assistant", "content": "", "prompt_token_ids": [1]}]}',
    "a video": b'{"messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "x"}}]}]}',
    "a cache name": b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "", "uuid": "x"}]}]}',
    "untyped image": b'{"messages": [{"role": "user", "content": [{"image_url": {"url": "http://10.0.0.1"}}]}]}',
    "huge number": b'{"messages": [{"role": "user", "content": ""}], "max_tokens": ' + b"9" * 5000 + b"}",
    "wrong type": b'{"messages": [{"role": "user", "content": ""}], "max_tokens": "many"}',
    "cut": json.dumps(chat()).encode()[:-1],
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_a_body_that_makes_no_sense_is_a_400_and_goes_nowhere(
    proxy: Proxy, endpoint: ScriptedEndpoint, body: bytes
) -> None:
    session = await proxy.open_session()
    for reply in (await session.chat(body), await proxy.send("POST", "/v1/chat/completions", RUN_TOKEN, body)):
        assert reply.status_code == 400, reply.text
        assert reply.json()["error"]["type"] == "invalid_request_error"
    assert endpoint.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest", "https://example.org/a.png", "file:///etc/passwd", "//host/a.png",
        "data:text/html;base64,AAAA", "data:image/png,raw", "data:image/png;base64,%%%", " data:image/png;base64,AAAA",
    ],
)  # fmt: skip
async def test_images_must_come_as_data(proxy: Proxy, endpoint: ScriptedEndpoint, url: str) -> None:
    session = await proxy.open_session()
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    for reply in (
        await session.chat(chat(messages=[message])),
        await proxy.send("POST", "/v1/chat/completions", RUN_TOKEN, chat(messages=[message])),
    ):
        assert (reply.status_code, "data:" in reply.json()["error"]["message"]) == (400, True)
    assert endpoint.requests == []


async def test_each_image_is_kept_once_and_records_name_it_by_hash(proxy: Proxy) -> None:
    session = await proxy.open_session(assets_dir=str(proxy.state_dir / "pictures"))
    other = base64.b64encode(base64.b64decode(PIXEL) + b"other").decode()
    await session.chat(chat(messages=[image_message()]))
    await session.chat(chat(messages=[image_message(), image_message(other), image_message(text="again")]))
    summary = await session.close()
    first, second = summary.images
    store = AssetStore(proxy.state_dir / "pictures")
    assert store.get(first) == base64.b64decode(PIXEL)
    assert sorted(path.name for path in store.folder.iterdir()) == sorted(summary.images)
    one, two = session.calls()
    assert (one.images, one.images_added) == ([first], [first])
    assert (two.images, two.images_added) == ([first, second, first], [second])
    assert two.messages[2]["content"][1]["image_url"]["url"] == f"sha256:{first}"
    assert PIXEL not in two.model_dump_json()


async def test_a_body_of_20_mb_passes_whole_and_one_over_the_limit_does_not(
    make_proxy: MakeProxy, endpoint: ScriptedEndpoint
) -> None:
    endpoint.gives_token_ids = False  # one per character would take longer than the test
    async with make_proxy(max_body_bytes=24 << 20) as proxy:
        session = await proxy.open_session()
        big = chat("x" * (20 << 20))
        assert (await session.chat(big)).status_code == 200
        assert endpoint.requests[-1].body["messages"] == big["messages"]
        assert (await session.chat(chat("x" * (25 << 20)))).status_code == 413
        assert len(endpoint.requests) == 1
        assert (await session.close()).notes == {"refused:body_too_large": 1}


async def test_a_large_body_of_countless_parts_is_refused_before_it_costs_memory(proxy: Proxy) -> None:
    session = await proxy.open_session()
    reply = await session.chat(b'{"messages": [' + b"1," * 3_000_000 + b"1]}")
    assert (reply.status_code, "commas" in reply.text) == (400, True)


async def test_a_request_cut_at_any_byte_arrives_as_the_same_body(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    session = await proxy.open_session()
    host, port = proxy.http.base_url.host, proxy.http.base_url.port
    body = json.dumps(chat("é" * 20)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {session.key}\r\n"
    request = f"{head}connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    for cut in range(1, len(request), 29):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request[:cut])
        await writer.drain()
        await asyncio.sleep(0)
        writer.write(request[cut:])
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 200"), answer
    sent = {seen.raw for seen in endpoint.requests}
    assert len(sent) == 1
    assert json.loads(sent.pop())["messages"] == chat("é" * 20)["messages"]


async def test_a_client_that_dies_while_sending_leaves_nothing_behind(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    session = await proxy.open_session()
    _, writer = await asyncio.open_connection(proxy.http.base_url.host, proxy.http.base_url.port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {session.key}\r\n"
    writer.write(f"{head}content-length: 100\r\n\r\n".encode() + b'{"messages"')
    await writer.drain()
    writer.close()
    assert (await session.chat(chat())).status_code == 200
    assert (await session.close()).calls == len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("limits", "refused_after"),
    [
        ({"calls_per_minute": 2}, 2),
        ({"calls": 3}, 3),
        ({"request_bytes": 600}, 2),
        ({"output_tokens": 20}, 2),
    ],
)
async def test_a_session_has_limits_and_says_which(
    make_proxy: MakeProxy, endpoint: ScriptedEndpoint, limits: JsonObject, refused_after: int
) -> None:
    async with make_proxy(session_limits=limits) as proxy:
        session = await proxy.open_session()
        replies = [await session.chat(chat()) for _ in range(4)]
        assert [reply.status_code for reply in replies] == [200] * refused_after + [400] * (4 - refused_after)
        assert replies[-1].json()["error"]["code"] == "session_limit"
        assert (await session.close()).notes["refused:session_limit"] == 4 - refused_after
        other = await proxy.open_session("s2")
        assert (await other.chat(chat())).status_code == 200


async def test_calls_in_flight_are_limited(make_proxy: MakeProxy, endpoint: ScriptedEndpoint) -> None:
    async with make_proxy(session_limits={"calls_in_flight": 1}) as proxy:
        session = await proxy.open_session()
        endpoint.fail(Fault.HANG)
        hanging = asyncio.create_task(session.chat(chat()))
        while not endpoint.requests:  # noqa: ASYNC110 - what it waits for happens in another party's socket
            await asyncio.sleep(0.005)
        assert (await session.chat(chat())).status_code == 400
        hanging.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await hanging


async def test_a_call_without_tools_is_refused_once_a_session_uses_them(proxy: Proxy) -> None:
    with_tools, without = await proxy.open_session("with"), await proxy.open_session("without")
    bare = {name: value for name, value in chat().items() if name != "tools"}
    assert (await without.chat(bare)).status_code == 200
    assert (await with_tools.chat(chat())).status_code == 200
    reply = await with_tools.chat(bare)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "tools_missing")
    assert (await with_tools.close()).notes == {"refused:tools_missing": 1}


async def test_tool_calls_have_ids_of_their_own_and_come_back_as_the_model_wrote_them(
    proxy: Proxy, endpoint: ScriptedEndpoint
) -> None:
    endpoint.rule = lambda _: Says("", calls=(Calls("bash", '{"a": 1.0}', id="x"), Calls("bash", '{ "b":6e4}', id="x")))
    session = await proxy.open_session()
    question = {"role": "user", "content": "go"}
    reply = await session.chat(chat(messages=[question], stream=False))
    made = reply.json()["choices"][0]["message"]["tool_calls"]
    assert len({call["id"] for call in made}) == 2
    again = [
        {"id": made[0]["id"], "type": "function", "function": {"name": "bash", "arguments": '{"a":1}'}},
        {"id": made[1]["id"], "type": "function", "function": {"name": "invalid", "arguments": '{"error":"?"}'}},
    ]
    turn = {"role": "assistant", "content": "", "reasoning_content": " \n kept ", "tool_calls": again}
    await session.chat(chat(messages=[question, turn]))
    sent = endpoint.requests[-1].body["messages"][1]
    assert [call["function"] for call in sent["tool_calls"]] == [call["function"] for call in made]
    assert (sent["reasoning_content"], sent["content"]) == (" \n kept ", "")
    assert (await session.close()).notes == {"tool_call_restored": 1}


async def test_arguments_that_are_no_json_are_not_put_back(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    endpoint.rule = lambda _: Says("", calls=(Calls("bash", '{"a": '),))
    session = await proxy.open_session()
    made = (await session.chat(chat(stream=False))).json()["choices"][0]["message"]["tool_calls"][0]
    repaired = {"id": made["id"], "type": "function", "function": {"name": "invalid", "arguments": "{}"}}
    await session.chat(chat(messages=[{"role": "assistant", "content": "", "tool_calls": [repaired]}]))
    assert endpoint.requests[-1].body["messages"][0]["tool_calls"] == [repaired]


async def test_a_template_that_prints_parts_shows_in_the_notes_unless_the_client_wrote_it(
    proxy: Proxy, endpoint: ScriptedEndpoint
) -> None:
    leak = "user: [{'type': 'text', 'text': 'hello'}]"
    endpoint.rule = lambda _: leak
    leaking, quoting = await proxy.open_session("leaking"), await proxy.open_session("quoting")
    await leaking.chat(chat())
    await quoting.chat(chat(leak))
    assert (await leaking.close()).notes == {"template_leak": 1}
    assert (await quoting.close()).notes == {}


async def test_reasoning_reaches_the_harness_and_the_record(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    endpoint.rule = lambda _: Says("4", reasoning="two and two")
    session = await proxy.open_session()
    streamed, whole = await session.chat(chat()), await session.chat(chat(stream=False))
    assert '"reasoning_content":"two and two"' in streamed.text
    assert whole.json()["choices"][0]["message"]["reasoning_content"] == "two and two"
    answer = session.calls()[0].answer
    assert answer is not None
    assert (answer.reasoning, answer.content) == ("two and two", "4")


async def test_pins_and_extras_of_the_config_win_over_the_client(
    make_proxy: MakeProxy, endpoint: ScriptedEndpoint
) -> None:
    async with make_proxy(
        sampling_overrides={"temperature": 1.0}, extra_body={"provider": {"x": 1}}, max_output_tokens=100
    ) as proxy:
        session = await proxy.open_session()
        await session.chat(chat(temperature=0.1, max_completion_tokens=50))
        sent = endpoint.requests[-1].body
        assert (sent["temperature"], sent["provider"]) == (1.0, {"x": 1})
        assert (sent["max_completion_tokens"], "max_tokens" in sent) == (50, False)
        await session.chat(chat(max_tokens=5000))
        assert endpoint.requests[-1].body["max_tokens"] == 100


async def test_the_models_list_names_the_alias_only(proxy: Proxy) -> None:
    session = await proxy.open_session()
    listed = (await proxy.send("GET", "/v1/models", session.key)).json()
    assert [model["id"] for model in listed["data"]] == ["policy"]


async def test_unsessioned_callers_get_the_endpoints_own_stream(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    body = chat(logprobs=True, top_logprobs=2)
    reply = await proxy.send("POST", "/v1/chat/completions", USER_TOKEN, body)
    assert reply.text.count("data: {") > 3
    assert endpoint.requests[-1].body["top_logprobs"] == 2
    assert endpoint.requests[-1].headers["Authorization"] == "Bearer sk-endpoint"
    plain = await proxy.send("POST", "/v1/chat/completions", USER_TOKEN, chat(stream=False))
    assert plain.json()["choices"][0]["message"]["content"] == "two"


async def test_the_responses_dialect_keeps_a_tools_picture(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    session = await proxy.open_session()
    items: list[JsonObject] = [
        {"type": "message", "role": "user", "content": "zoom"},
        {"type": "function_call", "call_id": "c1", "name": "zoom", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [
                {"type": "input_text", "text": "here"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
            ],
        },
    ]
    tools = [{"type": "function", "name": "zoom", "parameters": {}}]
    for token in (session.key, RUN_TOKEN):
        reply = await proxy.send("POST", "/v1/responses", token, {"input": items, "tools": tools})
        parsed = ResponsesReply.model_validate_json(reply.content)
        assert [item.type for item in parsed.output] == ["message", "function_call"]
    roles = [message["role"] for message in endpoint.requests[0].body["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]
    assert (await session.close()).images != []
    refused = await proxy.send("POST", "/v1/responses", session.key, {"input": []})
    assert refused.status_code == 401


async def test_a_responses_body_is_held_to_the_limits_of_every_call(make_proxy: MakeProxy) -> None:
    item = b'{"type":"message","role":"user","content":"x"}'
    many, items = [b'{"input":[' + b",".join([one] * n) + b"]}" for one, n in ((item, 200_000), (b"1", 20_001))]
    large = b'{"input":"%s"}' % (b"x" * (10 << 20))
    async with make_proxy(max_body_bytes=10 << 20, session_limits={"calls_per_minute": 3}) as proxy:
        session = await proxy.open_session()
        for body, word in ((many, "commas"), (items, "20000 items")):
            for token in (session.key, RUN_TOKEN):
                reply = await proxy.send("POST", "/v1/responses", token, body)
                assert (reply.status_code, word in reply.text) == (400, True)
        for token in (session.key, RUN_TOKEN):
            assert (await proxy.send("POST", "/v1/responses", token, large)).status_code == 413
        over = await proxy.send("POST", "/v1/responses", session.key, {"input": "x"})
        assert (over.status_code, over.json()["error"]["code"]) == (400, "session_limit")
        notes = (await session.close()).notes
    assert notes == {"refused:invalid_request": 2, "refused:body_too_large": 1, "refused:session_limit": 1}


async def test_a_responses_body_full_of_mistakes_does_not_hold_up_the_server(proxy: Proxy) -> None:
    bodies = [b'{"input":[' + b",".join([b"{}"] * n) + b"]}" for n in (2, 20_000)]
    few, many = [await proxy.send("POST", "/v1/responses", RUN_TOKEN, body) for body in bodies]
    assert (few.status_code, "role: Field required" in few.text) == (400, True)
    assert (many.status_code, "mistakes" in many.text) == (400, True)


async def test_a_check_is_one_real_completion_with_two_pictures(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    report = EndpointReport.model_validate_json((await proxy.as_run("POST", "/v1/check")).content)
    assert (report.ok, report.message, report.accepts_images) == (True, "", True)
    messages = endpoint.requests[0].body["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "user"]
    assert [message["content"][1]["type"] for message in messages if message["role"] == "user"] == ["image_url"] * 2
    endpoint.fail_always(Fault.UNAUTHORIZED)
    report = EndpointReport.model_validate_json((await proxy.as_run("POST", "/v1/check")).content)
    assert (report.ok, "HTTP 401" in report.message) == (False, True)
    endpoint.recover()
    endpoint.rule = lambda messages: str(messages)
    report = EndpointReport.model_validate_json((await proxy.as_run("POST", "/v1/check")).content)
    assert (report.ok, report.leaks_list_content) == (False, True)


@pytest.mark.parametrize(
    ("max_pictures", "ok", "said"), [(1, True, "--limit-mm-per-prompt"), (0, False, "refuses images")]
)
async def test_a_check_warns_of_an_endpoint_that_takes_one_picture(
    proxy: Proxy, endpoint: ScriptedEndpoint, max_pictures: int, ok: bool, said: str
) -> None:
    endpoint.max_pictures = max_pictures
    report = EndpointReport.model_validate_json((await proxy.as_run("POST", "/v1/check")).content)
    assert (report.ok, report.accepts_images, report.answers) == (ok, ok, True)
    assert said in report.message


async def test_no_secret_shows_in_any_answer(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    session = await proxy.open_session()
    endpoint.fail_always(Fault.UNAUTHORIZED)
    seen = [
        (await session.chat(chat())).text,
        (await proxy.send("POST", "/v1/chat/completions", USER_TOKEN, chat())).text,
        (await proxy.as_run("POST", "/v1/check")).text,
        (await session.close()).model_dump_json(),
    ]
    assert not any(secret in text for text in seen for secret in ("sk-endpoint", RUN_TOKEN, session.key))
