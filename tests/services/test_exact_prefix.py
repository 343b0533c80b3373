"""What an engine is asked, and what a session's record says, when prompts are to go on from the sampled tokens."""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from gym_core.types.model_call import ModelCall
from gym_core.types.wire import JsonObject
from model_servers.vllm_model.app import VllmModelConfig
from tests.fakes.proxy import PIXEL, Proxy, Session, chat, image_message, vllm_proxy
from tests.fakes.token_endpoint import END, OTHER_END, PAD, TokenEngine, letters

RENDER = "/v1/chat/completions/render"
DERENDER = "/v1/chat/completions/derender"
GENERATE = "/inference/v1/generate"
CHAT = "/v1/chat/completions"
BASH = '<call>{"name":"bash","arguments":{"command":"ls"}}</call>'

LONGER = base64.b64encode(base64.b64decode(PIXEL) + b"more").decode()
"""Another picture, of another number of tokens."""

MakeProxy = Callable[..., AbstractAsyncContextManager[Proxy]]


@pytest.fixture
async def engine() -> AsyncIterator[TokenEngine]:
    async with TokenEngine() as engine:
        yield engine


@pytest.fixture
def make_proxy(engine: TokenEngine, tmp_path: Path) -> MakeProxy:
    def make(**fields: object) -> AbstractAsyncContextManager[Proxy]:
        return vllm_proxy(engine, tmp_path, **{"exact_prefix": True, **fields})

    return make


@pytest.fixture
async def session(make_proxy: MakeProxy) -> AsyncIterator[Session]:
    async with make_proxy() as proxy:
        yield await proxy.open_session()


def tool_picture(call_id: str, data: str = PIXEL) -> JsonObject:
    return {"role": "tool", "tool_call_id": call_id, "content": image_message(data)["content"]}


async def turn(session: Session, messages: list[JsonObject], *added: JsonObject, **fields: object) -> JsonObject:
    """One call, whose answer and what is added to it are put behind `messages`."""
    reply = await session.chat(chat(messages=messages, stream=False, stream_options=None, **fields))
    assert reply.status_code == 200, reply.text
    said: JsonObject = reply.json()["choices"][0]["message"]
    messages += [said, *added]
    return said


def notes(session: Session) -> list[list[str]]:
    return [[note for note in call.notes if note.startswith("exact_prefix")] for call in session.calls()]


def begins_with_seen(before: ModelCall, after: ModelCall) -> bool:
    seen = [*(before.prompt_token_ids or []), *(before.token_ids or [])]
    return (after.prompt_token_ids or [])[: len(seen)] == seen


async def test_without_it_the_template_prints_other_tokens(make_proxy: MakeProxy, engine: TokenEngine) -> None:
    async with make_proxy(exact_prefix=False) as proxy:
        session = await proxy.open_session()
        messages = [image_message()]
        engine.says("a dog")
        await turn(session, messages, {"role": "user", "content": "sure?"})
        await turn(session, messages)
    first, second = session.calls()
    assert not begins_with_seen(first, second)
    assert engine.paths == [CHAT, CHAT]


async def test_a_call_goes_on_from_the_sampled_tokens_with_its_pictures(session: Session, engine: TokenEngine) -> None:
    messages = [image_message()]
    engine.says(f"let me see{BASH}{BASH}")
    engine.says("<think>hm</think>a dog")
    engine.says("yes")
    said = await turn(session, messages)
    assert len(said["tool_calls"]) == 2
    messages += [tool_picture(call["id"], LONGER if place else PIXEL) for place, call in enumerate(said["tool_calls"])]
    assert (await turn(session, messages, {"role": "user", "content": "sure?"}))["content"] == "a dog"
    assert (await turn(session, messages))["content"] == "yes"
    first, second, third = session.calls()
    assert notes(session) == [[], ["exact_prefix"], ["exact_prefix"]]
    assert begins_with_seen(first, second)
    assert begins_with_seen(second, third)
    assert second.token_ids == [*letters("<think>hm</think>a dog"), END]
    assert second.answer is not None
    assert (second.answer.reasoning, second.answer.finish_reason) == ("hm", "stop")
    assert [call.gaps for call in session.calls()] == [[], [], []]
    assert second.logprobs == [-0.5] * len(second.token_ids)
    assert engine.paths == [CHAT, *[RENDER, RENDER, GENERATE, DERENDER] * 2]
    generated = engine.asked[-2].body
    sent = [part["url"] for part in generated["content_parts"]]
    assert sent == [
        message["content"][1]["image_url"]["url"]
        for message in messages
        if message["role"] in ("user", "tool") and isinstance(message["content"], list)
    ]
    assert generated["token_ids"].count(PAD) == 3
    assert PAD in (third.prompt_token_ids or [])


async def test_the_record_is_of_the_request_that_sampled(session: Session, engine: TokenEngine) -> None:
    messages = [image_message()]
    await turn(session, messages, {"role": "user", "content": "sure?"}, temperature=0.7, max_tokens=16)
    await turn(session, messages, temperature=0.7, max_tokens=16)
    first, second = session.calls()
    assert second.sampling == first.sampling
    assert (first.attempts, second.attempts, second.endpoint_status) == (1, 1, 200)
    sampling = next(asked.body["sampling_params"] for asked in engine.asked if asked.path == GENERATE)
    assert (sampling["temperature"], sampling["max_tokens"], sampling["logprobs"]) == (0.7, 16, 0)


async def test_a_tool_call_of_an_exact_answer_is_told_like_any_other(session: Session, engine: TokenEngine) -> None:
    messages = [image_message()]
    await turn(session, messages, {"role": "user", "content": "count"})
    engine.says(BASH)
    said = await turn(session, messages)
    assert said["tool_calls"][0]["function"]["name"] == "bash"
    _, second = session.calls()
    assert second.answer is not None
    assert second.answer.finish_reason == "tool_calls"
    assert second.answer.output_tokens == len(BASH) + 1


async def test_an_answer_cut_off_is_closed_by_the_template(session: Session, engine: TokenEngine) -> None:
    messages = [image_message()]
    engine.says("a very long", end=None)
    await turn(session, messages, {"role": "user", "content": "go on"})
    await turn(session, messages)
    first, second = session.calls()
    seen = [*(first.prompt_token_ids or []), *(first.token_ids or [])]
    assert (second.prompt_token_ids or [])[: len(seen) + 1] == [*seen, END]
    assert notes(session)[1] == ["exact_prefix"]


async def test_another_end_and_a_bare_end_are_kept_and_not_read_as_text(session: Session, engine: TokenEngine) -> None:
    messages = [image_message()]
    await turn(session, messages, {"role": "user", "content": "go on"})
    engine.says("well", end=OTHER_END)
    assert (await turn(session, messages, {"role": "user", "content": "go on"}))["content"] == "well"
    engine.says("")
    assert (await turn(session, messages))["content"] == ""
    calls = session.calls()
    assert [call.token_ids[-1] for call in calls[1:] if call.token_ids] == [OTHER_END, END]
    assert notes(session)[1:] == [["exact_prefix"]] * 2
    assert begins_with_seen(calls[1], calls[2])


@pytest.mark.parametrize(
    ("sampled", "why"),
    [
        ([*letters("see"), PAD, END], "placeholder_sampled"),
        ([*letters("see <|end|> so"), END], "turns_not_counted"),
    ],
)
async def test_what_cannot_be_exact_is_asked_the_plain_way_and_says_why(
    session: Session, engine: TokenEngine, sampled: list[int], why: str
) -> None:
    messages = [image_message()]
    engine.answers.append(sampled)
    await turn(session, messages, {"role": "user", "content": "go on"})
    assert (await turn(session, messages))["content"] == "ok"
    assert notes(session)[1] == [f"exact_prefix_fallback:{why}"]
    assert engine.paths[-1] == CHAT
    assert (await session.summary()).notes[f"exact_prefix_fallback:{why}"] == 1


async def test_a_prompt_that_the_engine_read_otherwise_is_not_kept(session: Session, engine: TokenEngine) -> None:
    messages = [image_message()]
    await turn(session, messages, {"role": "user", "content": "go on"})
    engine.misreads = True
    engine.says("from another prompt")
    engine.says("from the template's")
    assert (await turn(session, messages))["content"] == "from the template's"
    assert notes(session)[1] == ["exact_prefix_fallback:prompt_differs"]


async def test_ids_that_the_engine_cannot_read_back_are_asked_for_anew(session: Session, engine: TokenEngine) -> None:
    engine.parses = False
    messages = [image_message()]
    await turn(session, messages, {"role": "user", "content": "go on"})
    assert (await turn(session, messages))["content"] == "ok"
    assert notes(session)[1] == ["exact_prefix_fallback:refused"]


@pytest.mark.parametrize("trait", ["closes_turns", "prints_answers_last"])
async def test_a_template_whose_answers_have_no_end_falls_back(
    session: Session, engine: TokenEngine, trait: str
) -> None:
    setattr(engine, trait, False)
    messages = [image_message()]
    await turn(session, messages, {"role": "user", "content": "go on"})
    await turn(session, messages)
    assert notes(session) == [[], ["exact_prefix_fallback:no_end_of_turn"]]


async def test_a_history_that_the_harness_rewrote_falls_back(session: Session) -> None:
    messages = [image_message()]
    await turn(session, messages, {"role": "user", "content": "go on"})
    messages[1] = {"role": "assistant", "content": "[compacted]"}
    await turn(session, messages)
    assert notes(session)[1] == ["exact_prefix_fallback:history_unknown"]


@pytest.mark.parametrize("mode", ["auto", "token_in"])
async def test_an_endpoint_without_the_routes_is_refused_with_the_fix(
    make_proxy: MakeProxy, engine: TokenEngine, mode: str
) -> None:
    engine.has_routes = False
    async with make_proxy(exact_prefix_mode=mode) as proxy:
        session = await proxy.open_session()
        reply = await session.chat(chat())
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "model_unavailable")
        assert "--enable-scale-out" in reply.json()["error"]["message"]
        engine.has_routes = True
        assert (await session.chat(chat())).status_code == 200


@pytest.mark.parametrize("mode", ["auto", "required_prefix"])
async def test_a_server_that_honours_a_required_prefix_is_given_it(
    make_proxy: MakeProxy, engine: TokenEngine, mode: str
) -> None:
    engine.has_routes, engine.honours_prefix = False, True
    async with make_proxy(exact_prefix_mode=mode) as proxy:
        session = await proxy.open_session()
        messages = [image_message()]
        engine.says("a dog")
        await turn(session, messages, {"role": "user", "content": "sure?"})
        await turn(session, messages)
    first, second = session.calls()
    assert begins_with_seen(first, second)
    assert notes(session) == [[], ["exact_prefix"]]
    sent = engine.asked[-1].body
    assert sent["required_prefix_token_ids"] == [*(first.prompt_token_ids or []), *(first.token_ids or [])]
    assert sent["messages"][1]["generation_token_ids"] == first.token_ids
    assert "required_prefix_token_ids" not in second.sampling
    assert "prompt_token_ids" not in second.messages[1]


@pytest.mark.parametrize(
    ("mode", "has_routes", "honours_prefix", "is_fit"),
    [
        ("auto", True, False, True),
        ("auto", False, True, True),
        ("auto", False, False, False),
        ("token_in", False, True, False),
        ("required_prefix", True, False, False),
        ("required_prefix", False, True, True),
    ],
)
async def test_the_look_at_an_endpoint_says_whether_it_can(
    make_proxy: MakeProxy, engine: TokenEngine, mode: str, has_routes: bool, honours_prefix: bool, is_fit: bool
) -> None:
    engine.has_routes, engine.honours_prefix = has_routes, honours_prefix
    async with make_proxy(exact_prefix_mode=mode) as proxy:
        report = (await proxy.as_run("POST", "/v1/check")).json()
    assert (report["ok"], report["accepts_token_prompts"]) == (is_fit, has_routes)
    assert ("--enable-scale-out" in report["message"]) is not is_fit


async def test_a_required_prefix_that_is_ignored_is_said(make_proxy: MakeProxy, engine: TokenEngine) -> None:
    async with make_proxy(exact_prefix_mode="required_prefix") as proxy:
        session = await proxy.open_session()
        messages = [image_message()]
        engine.says("a dog")
        await turn(session, messages, {"role": "user", "content": "sure?"})
        await turn(session, messages)
    assert notes(session) == [[], ["exact_prefix_ignored"]]


def test_exact_prefixes_need_token_ids() -> None:
    block = {"base_url": "http://127.0.0.1:1/v1", "model": "m", "exact_prefix": True}
    with pytest.raises(ValueError, match="exact_prefix needs return_token_id_information"):
        VllmModelConfig.model_validate({**block, "return_token_id_information": False})
    assert VllmModelConfig.model_validate(block).exact_prefix
