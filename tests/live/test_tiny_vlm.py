"""The tiny engine alone: its log-probabilities are the model's, and its wire has vLLM's traps."""

import asyncio
import itertools
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gym_core.types.wire import JsonObject
from tests.live.conversations import (
    ANSWERS,
    BROKEN_CALL,
    CONVERSATIONS,
    GOOD_CALL,
    LEAK_SHAPES,
    NAMELESS_CALL,
    TOOLS,
    picture,
    picture_url,
    text,
    user,
)
from tests.live.engines import Engine, build_model, chat_body, needs_tiny_vlm, serving_tiny, tiny_engine
from tests.live.scripted_answers import FIRST, LAST, OWN_WORDS

pytestmark = [pytest.mark.live, pytest.mark.slow, needs_tiny_vlm]
pytest.importorskip("torch", reason="no torch here: run `make tiny-vlm`")

from examples.tiny_vlm.server import main  # noqa: E402 - needs torch
from tests.live.scoring import Scorer  # noqa: E402 - needs torch

MAX_GAP = 1e-4
"""Between log-probabilities of one float32 model computed in two ways; a few 1e-6 are usual."""
WRONG_PICTURE_GAP = 1e-2
CACHE_GAP = 1e-5
CHAT = "/v1/chat/completions"
GENERATE = "/inference/v1/generate"
PYTHON_LIST = re.compile(r"\[\{'type': 'text', 'text': ")


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_without_a_model_is_refused_in_words(
    is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    if is_there:
        folder.mkdir()
    monkeypatch.setattr("sys.argv", ["server", str(folder)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert f"no model in {folder}" in capsys.readouterr().err


@pytest.fixture(scope="module", params=["qwen2_vl", "qwen3_vl"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("tiny") / "model", "--arch", request.param)


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Iterator[Engine]:
    with serving_tiny(folder) as engine:
        yield engine


@pytest.fixture(scope="module")
def scorer(folder: Path) -> Scorer:
    return Scorer(folder)


def _logprobs(choice: JsonObject) -> list[float]:
    return [entry["logprob"] for entry in choice["logprobs"]["content"]]


def _gap(one: list[float], other: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def _urls(messages: list[JsonObject]) -> list[str]:
    parts = itertools.chain.from_iterable(m["content"] for m in messages if isinstance(m["content"], list))
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def _joined(chunks: list[JsonObject]) -> tuple[list[int], list[float]]:
    """Token ids and log-probabilities of a stream, those of empty deltas included."""
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    ids = [token for choice in choices for token in choice.get("token_ids") or ()]
    return ids, [value for choice in choices if choice["logprobs"] for value in _logprobs(choice)]


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_log_probabilities_are_those_of_a_plain_forward_pass(tiny: Engine, scorer: Scorer, name: str) -> None:
    messages, tools = CONVERSATIONS[name]
    reply = await tiny.chat(messages, tools=tools, max_tokens=24)
    choice = reply["choices"][0]
    told = scorer.logprobs(reply["prompt_token_ids"], choice["token_ids"], _urls(messages))
    assert _gap(told, _logprobs(choice)) < MAX_GAP
    assert reply["usage"]["completion_tokens"] == len(choice["token_ids"]) == len(told)


async def test_another_picture_of_the_same_size_shows_as_a_gap(tiny: Engine, scorer: Scorer) -> None:
    reply = await tiny.chat([user(picture(1), text("what"))], max_tokens=24)
    choice = reply["choices"][0]
    told = scorer.logprobs(reply["prompt_token_ids"], choice["token_ids"], [picture_url(2)])
    assert _gap(told, _logprobs(choice)) > WRONG_PICTURE_GAP


async def test_a_stream_has_the_tokens_of_the_whole_answer_and_most_on_empty_deltas(tiny: Engine) -> None:
    messages, tools = CONVERSATIONS["a call and a picture as its result"]
    for answer in ANSWERS.values():
        body = chat_body(messages, tools=tools, force_text=answer, max_tokens=99)
        whole = await tiny.post(CHAT, body)
        chunks = await tiny.stream(CHAT, body | {"stream_options": {"include_usage": True}})
        ids, logprobs = _joined(chunks)
        assert ids == whole["choices"][0]["token_ids"]
        assert _gap(logprobs, _logprobs(whole["choices"][0])) < CACHE_GAP
        assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"]
        assert not any("prompt_token_ids" in chunk for chunk in chunks[1:])
        assert (chunks[-1]["choices"], chunks[-1]["usage"]) == ([], whole["usage"])


async def test_a_sampled_answer_repeats_with_its_seed_streamed_or_whole(tiny: Engine) -> None:
    body = chat_body([user(picture(1))], seed=7, max_tokens=32)
    whole = [(await tiny.post(CHAT, body))["choices"][0] for _ in range(2)]
    ids, _ = _joined(await tiny.stream(CHAT, body))
    assert whole[0]["token_ids"] == whole[1]["token_ids"] == ids
    assert (await tiny.post(CHAT, body | {"seed": 8}))["choices"][0]["token_ids"] != ids


async def test_hidden_reasoning_takes_ids_and_log_probabilities_with_it(tiny: Engine) -> None:
    body = chat_body([{"role": "user", "content": "q"}], include_reasoning=False)
    choice = (await tiny.post(CHAT, body))["choices"][0]
    assert (choice["token_ids"], choice["logprobs"]) == (None, None)
    assert _joined(await tiny.stream(CHAT, body)) == ([], [])


@pytest.mark.parametrize(
    ("answer", "calls", "finish"), [(BROKEN_CALL, ["bash"], "tool_calls"), (NAMELESS_CALL, [], "stop")]
)
async def test_a_broken_call_is_text_when_whole_and_never_when_streamed(
    tiny: Engine, answer: str, calls: list[str], finish: str
) -> None:
    body = chat_body([{"role": "user", "content": "q"}], tools=TOOLS, force_text=answer, max_tokens=99)
    choice = (await tiny.post(CHAT, body))["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (answer, "stop")
    chunks = await tiny.stream(CHAT, body)
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == ""
    names = [call["function"].get("name") for delta in deltas for call in delta.get("tool_calls", ())]
    assert (names, chunks[-1]["choices"][0]["finish_reason"]) == (calls, finish)


async def test_a_call_arrives_streamed_as_it_does_whole(tiny: Engine) -> None:
    body = chat_body([{"role": "user", "content": "q"}], tools=TOOLS, force_text=f"hi\n{GOOD_CALL}", max_tokens=99)
    (call,) = (await tiny.post(CHAT, body))["choices"][0]["message"]["tool_calls"]
    deltas = [choice["delta"] for chunk in await tiny.stream(CHAT, body) for choice in chunk["choices"]]
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls", ())]
    assert [piece["id"] for piece in pieces if "id" in piece] != []
    assert "".join(piece["function"].get("arguments", "") for piece in pieces) == call["function"]["arguments"]


async def test_a_prefix_that_was_computed_before_changes_nothing(tiny: Engine) -> None:
    """Two pictures of one size have equal tokens, and must not be taken for each other."""
    history = [user(picture(1), text("first")), {"role": "assistant", "content": "so"}, user(picture(2))]
    other = [user(picture(3), text("first")), *history[1:]]
    replies = {}
    for state in ("cold", "warm"):
        if state == "cold":
            await tiny.post("/reset_prefix_cache", {})
        for name, messages in (("history", history), ("other", other)):
            forced = replies.get(("cold", name))
            more = {"force_token_ids": forced["token_ids"]} if forced else {}
            replies[state, name] = (await tiny.chat(messages, **more))["choices"][0]
    for name in ("history", "other"):
        assert _gap(_logprobs(replies["cold", name]), _logprobs(replies["warm", name])) < CACHE_GAP
    assert _logprobs(replies["warm", "history"]) != _logprobs(replies["warm", "other"])


async def test_tokens_in_give_what_messages_gave(tiny: Engine) -> None:
    messages, tools = CONVERSATIONS["a call and a picture as its result"]
    chat = await tiny.chat(messages, tools=tools)
    rendered = await tiny.post(f"{CHAT}/render", chat_body(messages, tools=tools))
    assert rendered["token_ids"] == chat["prompt_token_ids"]
    pad = rendered["token_ids"][rendered["features"]["mm_placeholders"]["image"][0]["offset"]]
    once = [
        token for token, run in itertools.groupby(rendered["token_ids"]) for token in ([pad] if token == pad else run)
    ]
    parts = [{"type": "image_url", "url": url} for url in _urls(messages)]
    sampling = {"max_tokens": 8, "logprobs": 0}
    forced = {"force_token_ids": chat["choices"][0]["token_ids"], "return_token_ids": True, "sampling_params": sampling}
    for given in (
        {"token_ids": once, "content_parts": parts},
        {"token_ids": rendered["token_ids"], "features": rendered["features"]},
    ):
        made = await tiny.post(GENERATE, given | forced)
        assert made["prompt_token_ids"] == chat["prompt_token_ids"]
        assert made["mm_placeholders"] == rendered["features"]["mm_placeholders"]
        assert _gap(_logprobs(made["choices"][0]), _logprobs(chat["choices"][0])) < CACHE_GAP
        back = {"generate_response": made, "chat_request": chat_body(messages, tools=tools)}
        message = (await tiny.post(f"{CHAT}/derender", back))["choices"][0]["message"]
        assert message["content"] == chat["choices"][0]["message"]["content"]
        ids, _ = _joined(await tiny.stream(GENERATE, given | forced))
        assert ids == chat["choices"][0]["token_ids"]


async def test_placeholders_that_were_expanded_before_are_expanded_again_in_silence(tiny: Engine) -> None:
    prompt = (await tiny.chat([user(picture(1))]))["prompt_token_ids"]
    parts = [{"type": "image_url", "url": picture_url(1)}]
    body = {"token_ids": prompt, "content_parts": parts, "return_token_ids": True, "sampling_params": {"max_tokens": 1}}
    assert len((await tiny.post(GENERATE, body))["prompt_token_ids"]) > len(prompt)


async def test_a_placeholder_that_the_model_sampled_is_a_token_like_any_other(tiny: Engine, scorer: Scorer) -> None:
    chat = await tiny.chat([user(picture(1))])
    (span,) = (await tiny.post(f"{CHAT}/render", chat_body([user(picture(1))])))["features"]["mm_placeholders"]["image"]
    pad = chat["prompt_token_ids"][span["offset"]]
    once = [
        t for at, t in enumerate(chat["prompt_token_ids"]) if not span["offset"] < at < span["offset"] + span["length"]
    ]
    parts = [{"type": "image_url", "url": picture_url(1)}]
    sampling = {"max_tokens": 3, "logprobs": 0}
    body = {"content_parts": parts, "return_token_ids": True, "sampling_params": sampling, "force_token_ids": [7, 8, 9]}
    made = await tiny.post(GENERATE, body | {"token_ids": [*once, pad, 5]})
    assert made["prompt_token_ids"] == [*chat["prompt_token_ids"], pad, 5]
    continued = {"force_token_ids": [pad, 5, 7, 8, 9], "sampling_params": sampling | {"max_tokens": 5}}
    step_by_step = await tiny.post(GENERATE, body | continued | {"token_ids": once})
    assert _gap(_logprobs(made["choices"][0]), _logprobs(step_by_step["choices"][0])[2:]) < CACHE_GAP


async def test_new_weights_on_disk_are_served_after_a_reload(folder: Path, tmp_path: Path) -> None:
    served = Path(shutil.copytree(folder, tmp_path / "served"))
    arch = "qwen3_vl" if "qwen3" in (folder / "config.json").read_text(encoding="utf-8") else "qwen2_vl"
    trained = build_model(tmp_path / "trained", "--arch", arch, "--seed", "1")
    async with tiny_engine(served) as engine:
        before = await engine.chat([user(picture(1))])
        ids = before["choices"][0]["token_ids"]
        shutil.copy(trained / "model.safetensors", served)
        same = await engine.chat([user(picture(1))], force_token_ids=ids)
        await engine.post("/collective_rpc", {"method": "reload_weights"})
        for what in ("prefix", "mm", "encoder"):
            await engine.post(f"/reset_{what}_cache", {})
        after = await engine.chat([user(picture(1))], force_token_ids=ids)
    told = Scorer(trained).logprobs(after["prompt_token_ids"], ids, [picture_url(1)])
    assert _gap(_logprobs(same["choices"][0]), _logprobs(before["choices"][0])) < CACHE_GAP
    assert _gap(told, _logprobs(after["choices"][0])) < MAX_GAP


async def test_processed_log_probabilities_follow_the_sampling_and_raw_ones_do_not(
    tiny: Engine, folder: Path, scorer: Scorer
) -> None:
    messages: list[JsonObject] = [{"role": "user", "content": "q"}]
    hot = {"temperature": 2.0, "top_k": 3, "top_logprobs": 5, "seed": 1}
    async with tiny_engine(folder, "--logprobs-mode", "processed_logprobs") as processed:
        reply = await processed.chat(messages, **hot)
    choice = reply["choices"][0]
    model = scorer.distributions(reply["prompt_token_ids"], choice["token_ids"], [])
    cooled = (model / 2).topk(3, -1).values.log_softmax(-1)
    for entry, expected in zip(choice["logprobs"]["content"], cooled.tolist(), strict=True):
        told = sorted({(top["token"], top["logprob"]) for top in entry["top_logprobs"]}, key=lambda pair: -pair[1])
        assert _gap([value for _, value in told[:3]], expected) < MAX_GAP
        assert {value for _, value in told[3:]} == {-9999.0}
    raw = (await tiny.chat(messages, force_token_ids=choice["token_ids"], **hot))["choices"][0]
    assert _gap(_logprobs(raw), scorer.logprobs(reply["prompt_token_ids"], choice["token_ids"], [])) < MAX_GAP


async def test_a_naive_template_prints_lists_into_the_prompt_and_ours_does_not(tiny: Engine, tmp_path: Path) -> None:
    naive = build_model(tmp_path / "naive", "--template", "naive")
    async with tiny_engine(naive) as leaking:
        for messages in LEAK_SHAPES.values():
            assert PYTHON_LIST.search((await leaking.chat(messages, return_prompt_text=True))["prompt_text"])
            assert not PYTHON_LIST.search((await tiny.chat(messages, return_prompt_text=True))["prompt_text"])


async def test_a_script_answers_in_tokens_that_no_tokenizer_would_choose(folder: Path, scorer: Scorer) -> None:
    messages: list[JsonObject] = [{"role": "user", "content": "q"}]
    flags = ("--script", "tests.live.scripted_answers:answer", "--split-seed", "1")
    async with tiny_engine(folder, *flags) as engine:
        first = await engine.chat(messages, tools=TOOLS, max_tokens=200)
        choice = first["choices"][0]
        said = {key: choice["message"][key] for key in ("role", "content", "tool_calls")}
        result = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "nothing"}
        second = await engine.chat([*messages, said, result], tools=TOOLS, max_tokens=200)
        plain = (await engine.post("/tokenize", {"prompt": FIRST}))["tokens"]
        own = await engine.chat([{"role": "user", "content": OWN_WORDS}], max_tokens=5)
        tokens_in = {"token_ids": second["prompt_token_ids"], "sampling_params": {"max_tokens": 200}}
        from_tokens = await engine.post(GENERATE, tokens_in)
    assert (choice["finish_reason"], second["choices"][0]["message"]["content"]) == ("tool_calls", LAST)
    assert len(choice["token_ids"]) > len(plain) + 1
    seen = [*first["prompt_token_ids"], *choice["token_ids"]]
    assert second["prompt_token_ids"][: len(seen)] != seen
    told = scorer.logprobs(first["prompt_token_ids"], choice["token_ids"], [])
    assert _gap(told, _logprobs(choice)) < MAX_GAP
    assert own["usage"]["completion_tokens"] <= 5
    assert from_tokens["choices"][0]["token_ids"] == second["choices"][0]["token_ids"]


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_caller_who_leaves_stops_the_work_and_others_are_answered_meanwhile(
    tiny: Engine, is_streamed: bool
) -> None:
    endless = chat_body([{"role": "user", "content": "q"}], max_tokens=30000, ignore_eos=True, stream=is_streamed)
    async with tiny.client() as client:
        working = asyncio.create_task(client.post(CHAT, json=endless))
        await asyncio.sleep(0.3)
        assert (await asyncio.wait_for(client.get("/health"), 2)).status_code == 200
        assert not working.done()
        working.cancel()
        with pytest.raises((asyncio.CancelledError, httpx.HTTPError)):
            await working
    started = time.monotonic()
    await tiny.chat([{"role": "user", "content": "q"}], max_tokens=1)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"max_tokens": 10**6}, 400, "max_tokens=1000000 cannot be greater than max_model_len="),
        ({"messages": [{"role": "user", "content": "x y " * 40000}]}, 400, "maximum context length is 40960 tokens"),
        ({"messages": []}, 400, "at least 1 item"),
        ({"model": "nobody"}, 404, "The model `nobody` does not exist."),
        ({"temperature": -1}, 400, "temperature"),
        ({"force_token_ids": [10**6]}, 400, "Token id 1000000 is out of vocabulary"),
        ({"structured_outputs": {"regex": "a"}}, 400, "structured_outputs"),
        ({"messages": [user({"type": "image_url", "image_url": {"url": "http://a.test/b.png"}})]}, 400, "data URLs"),
        ({"messages": [user({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}})]}, 400, "load"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
async def test_a_bad_request_is_told_what_is_wrong(tiny: Engine, body: JsonObject, status: int, words: str) -> None:
    found, message = await tiny.refusal(CHAT, chat_body([{"role": "user", "content": "q"}]) | body)
    assert found == status
    assert words in message
