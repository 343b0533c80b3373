"""Prompts that go on from the sampled tokens, with real engines: without it some drift, with it none does.

Through the real model server on a real socket; each conversation has a picture in its question and one in every tool
result, and three calls.
"""

import base64
import io
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gym_core.types.model_call import ModelCall
from gym_core.types.wire import JsonObject
from tests.fakes.proxy import TOOLS, Proxy, Session, chat, image_message, vllm_proxy
from tests.live.drifting_policy import SHAPES
from tests.live.engines import (
    MODEL_NAME,
    Engine,
    build_model,
    chat_body,
    needs_tiny_vlm,
    needs_vllm,
    tiny_engine,
    vllm_engine,
)

pytestmark = [pytest.mark.live, pytest.mark.slow]

CALLS = 3
TINY_RUNS, VLLM_RUNS = 6, 8
"""Conversations a shape."""


@dataclass(frozen=True)
class Listening:
    url: str


@dataclass
class Seen:
    """Of all calls that go on from an earlier one."""

    extends: Counter[str] = field(default_factory=Counter)
    drifts: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def n_drifts(self) -> int:
        return self.drifts.total()

    def count(self, shape: str, calls: list[ModelCall]) -> None:
        for before, after in zip(calls, calls[1:], strict=False):
            (self.extends if goes_on(before, after) else self.drifts)[shape] += 1
            self.notes.update(note for note in after.notes if note.startswith("exact_prefix"))


def picture(*, seed: int, width: int = 56) -> str:
    pixels = np.random.default_rng(seed).integers(0, 255, (56, width, 3), np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return base64.b64encode(content.getvalue()).decode()


def goes_on(before: ModelCall, after: ModelCall) -> bool:
    assert before.prompt_token_ids is not None
    assert before.token_ids is not None
    assert after.prompt_token_ids is not None
    seen = before.prompt_token_ids + before.token_ids
    return after.prompt_token_ids[: len(seen)] == seen


async def converse(session: Session, shape: str, number: int, *, pictures: int = 0) -> list[ModelCall]:
    """The calls, in order; `pictures` draws other ones of the same size."""
    messages = [image_message(picture(seed=1000 * pictures + number), text=f"shape {shape} {number}")]
    for call in range(CALLS):
        body = chat(messages=messages, max_tokens=SHAPES[shape].max_tokens, temperature=1.0, seed=100 + number)
        reply = await session.chat(body | {"stream": False, "stream_options": None})
        assert reply.status_code == 200, reply.text
        said: JsonObject = reply.json()["choices"][0]["message"]
        messages.append(said)
        for place, made in enumerate(said.get("tool_calls") or ()):
            shown = image_message(picture(seed=1000 * pictures + 10 * call + place, width=112), text="crop saved")
            messages.append({"role": "tool", "tool_call_id": made["id"], "content": shown["content"]})
        if not said.get("tool_calls"):
            messages.append({"role": "user", "content": "go on"})
    return session.calls()


async def run(engine: Engine, state_dir: Path, n_runs: int, *, has_grammar: bool, **fields: object) -> Seen:
    seen = Seen()
    for shape, spec in SHAPES.items():
        grammar = {"structured_outputs": {"regex": spec.regex}} if has_grammar and spec.regex else {}
        async with _proxy(engine, state_dir / shape, extra_body=grammar, **fields) as proxy:
            for number in range(n_runs):
                session = await proxy.open_session(f"{shape}-{number}")
                started = time.monotonic()
                calls = await converse(session, shape, number)
                seen.seconds += time.monotonic() - started
                seen.count(shape, calls)
                assert all(call.gaps == [] for call in calls)
                await session.close()
    return seen


def _proxy(engine: Engine, state_dir: Path, **fields: object) -> AbstractAsyncContextManager[Proxy]:
    settings = {"model": MODEL_NAME, "max_output_tokens": 80, **fields}
    return vllm_proxy(Listening(engine.base_url), state_dir, **settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
async def tiny(folder: Path) -> AsyncIterator[Engine]:
    async with tiny_engine(folder, "--script", "tests.live.drifting_policy:write", "--split-seed", "1") as engine:
        yield engine


@needs_tiny_vlm
async def test_no_call_drifts_from_what_was_sampled(tiny: Engine, tmp_path: Path) -> None:
    plain = await run(tiny, tmp_path / "plain", TINY_RUNS, has_grammar=False)
    exact = await run(tiny, tmp_path / "exact", TINY_RUNS, has_grammar=False, exact_prefix=True)
    print(plain, exact, sep="\n")
    n = len(SHAPES) * TINY_RUNS * (CALLS - 1)
    assert plain.n_drifts > n // 4
    assert (exact.n_drifts, exact.extends.total()) == (0, n)
    assert exact.notes == {"exact_prefix": n}


@needs_tiny_vlm
async def test_a_prompt_of_ids_is_read_like_the_same_prompt_of_messages(folder: Path, tmp_path: Path) -> None:
    """Where the template prints just what was sampled, both ways give one prompt; and its pictures count."""
    calls: dict[str, list[ModelCall]] = {}
    async with tiny_engine(folder, "--script", "tests.live.drifting_policy:write") as engine:
        for way, is_exact, pictures in (("plain", False, 0), ("exact", True, 0), ("other", True, 1)):
            async with _proxy(engine, tmp_path / way, exact_prefix=is_exact) as proxy:
                calls[way] = await converse(await proxy.open_session(), "call", 1, pictures=pictures)
    for plain, exact, other in zip(calls["plain"], calls["exact"], calls["other"], strict=True):
        assert plain.prompt_token_ids == exact.prompt_token_ids == other.prompt_token_ids
        assert plain.token_ids == exact.token_ids == other.token_ids
        assert (plain.answer and plain.answer.finish_reason) == (exact.answer and exact.answer.finish_reason)
        assert plain.logprobs == pytest.approx(exact.logprobs, abs=1e-5)
        assert plain.logprobs != pytest.approx(other.logprobs, abs=1e-3)
    assert [len(call.images) for call in calls["exact"]] == [1, 2, 3]


@pytest.mark.vllm
@needs_vllm
@needs_tiny_vlm
async def test_no_call_drifts_from_what_was_sampled_by_vllm(folder: Path, tmp_path: Path) -> None:
    async with vllm_engine(folder) as engine:
        plain = await run(engine, tmp_path / "plain", VLLM_RUNS, has_grammar=True)
        exact = await run(engine, tmp_path / "exact", VLLM_RUNS, has_grammar=True, exact_prefix=True)
    print(plain, exact, sep="\n")
    n = len(SHAPES) * VLLM_RUNS * (CALLS - 1)
    assert plain.n_drifts > n // 4
    # A random model may write a placeholder or the end of a turn: such calls fall back, say so, and may drift.
    assert exact.notes.total() == n
    assert exact.n_drifts <= n - exact.notes["exact_prefix"]
    assert exact.notes["exact_prefix"] > 0.95 * n


@pytest.mark.vllm
@needs_vllm
@needs_tiny_vlm
async def test_vllm_reads_ids_back_as_its_chat_route_says_them(folder: Path) -> None:
    """Without the conversation, and without the token that ended the answer: as the model server asks for it."""
    seen: list[tuple[object, object]] = []
    async with vllm_engine(folder, "--reasoning-parser", "qwen3") as engine:
        for (name, shape), seed in product(SHAPES.items(), range(3)):
            body = chat_body([image_message(picture(seed=seed), text=name)], tools=TOOLS, seed=seed)
            body |= {"max_tokens": shape.max_tokens, "tool_choice": "auto"}
            body |= {"structured_outputs": {"regex": shape.regex}} if shape.regex else {}
            said = await engine.post("/v1/chat/completions", body)
            choice: JsonObject = said["choices"][0]
            ids = choice["token_ids"] if choice["finish_reason"] == "length" else choice["token_ids"][:-1]
            generated = {"index": 0, "token_ids": ids, "finish_reason": choice["finish_reason"]}
            reply = await engine.post(
                "/v1/chat/completions/derender",
                {
                    "generate_response": {
                        "request_id": "r", "choices": [generated], "prompt_token_ids": said["prompt_token_ids"]
                    },
                    "chat_request": body | {"messages": [{"role": "user", "content": "-"}]},
                },
            )  # fmt: skip
            seen.append((_told(choice["message"]), _told(reply["choices"][0]["message"])))
    assert [pair for pair in seen if pair[0] != pair[1]] == []


def _told(message: JsonObject) -> tuple[object, ...]:
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
    return message.get("content") or "", message.get("reasoning") or "", calls
