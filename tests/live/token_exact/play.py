"""Playing the sessions: an engine, the relay, a whole gym, and real OpenCode in real sandboxes."""

import io
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from gym_core.capture.images import make_data_url
from gym_core.types.wire import JsonObject
from tests.live.engines import CONTEXT_TOKENS, MODEL_NAME, ROOT, Engine, tiny_engine, vllm_engine
from tests.live.gyms import OPENCODE, OPENCODE_AGENT, POLICY, QUESTION, LiveGym, live_gym
from tests.live.token_exact.engine_log import write_log
from tests.live.token_exact.policy import MAX_OUTPUT_TOKENS, prompt_pictures
from tests.live.token_exact.relay import FakeFaultRelay
from tests.live.token_exact.steering import steer

LOG_NAME, OUTPUT = "engine_log.jsonl", "out/x.jsonl"
FAULT_EVERY = 5
SIDES_PX = ((112, 56), (140, 84), (112, 112))
SEED = 20


@dataclass(frozen=True)
class Leg:
    """One way of serving the policy."""

    name: str
    engine_flags: tuple[str, ...]
    exact_prefix: bool = False
    is_vllm: bool = False
    """The real one, which is steered; else the tiny one, which is told what to say."""

    @asynccontextmanager
    async def engine(self, model: Path) -> AsyncIterator[Engine]:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("PYTHONPATH", str(ROOT))  # vLLM is told the name of a module of ours
            async with (vllm_engine if self.is_vllm else tiny_engine)(model, *self.engine_flags) as engine:
                yield engine


_SPEAKS = ("--script", "tests.live.token_exact.policy:speak")
_THINKS = ("--script", "tests.live.token_exact.policy:think_and_speak", "--reasoning-parser", "qwen3")
_SPLITS = ("--split-seed", "7")
LEGS = (
    Leg("exact", (*_THINKS, *_SPLITS), exact_prefix=True),
    Leg("drifting", (*_THINKS, *_SPLITS)),
    Leg("retokenized", (*_SPEAKS, *_SPLITS)),
    Leg("canonical", _SPEAKS),
)
"""Prompts that begin with the sampled tokens; prompts rendered anew, without the reasoning, after tokens cut at random;
the same where there is no reasoning; and the tokenizer's own tokens, which a new render gives again but for what a
harness re-serialises."""
_STEERED = ("--logits-processors", "tests.live.token_exact.steered_sampling:SteeredSampling")
VLLM_LEGS = (
    Leg("vllm_exact", _STEERED, exact_prefix=True, is_vllm=True),
    Leg("vllm_drifting", _STEERED, is_vllm=True),
)


def make_rows(numbers: Sequence[int]) -> list[JsonObject]:
    """Tasks whose answer is 42. Pictures of one task have the same size and different content."""
    return [_row(number) for number in numbers]


def _row(number: int) -> JsonObject:
    rng = random.Random(SEED + number)
    side = rng.choice(SIDES_PX)
    pictures = [_picture(rng, side) for _ in range(prompt_pictures(number))]
    parts = [{"type": "input_image", "image_url": make_data_url(picture)} for picture in pictures]
    text = {"type": "input_text", "text": f"{QUESTION} Answer in \\boxed{{}}. Scenario play {number}."}
    return {
        "task_id": {"taskset": "token_exact", "task_id": str(number)},
        "responses_create_params": {"input": [{"type": "message", "role": "user", "content": [*parts, text]}]},
        "question": QUESTION,
        "expected_answer": "42",
    }


def _picture(rng: random.Random, size: tuple[int, int]) -> bytes:
    """Blocks of one hue, dark on the left and bright on the right: parts and pictures are unlike each other."""
    image = Image.new("RGB", size)
    draw = ImageDraw.Draw(image)
    hue = rng.choices(range(64, 256), k=3)
    hue[rng.randrange(3)] = 0
    for x in range(0, size[0], 14):
        for y in range(0, size[1], 14):
            bright = (x + rng.randrange(28)) / (size[0] + 28)
            draw.rectangle((x, y, x + 14, y + 14), tuple(int(part * bright) for part in hue))
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


async def play(leg: Leg, numbers: Sequence[int], *, model: Path, folder: Path, concurrency: int = 2) -> None:
    """`folder` is there and empty. Afterwards `read_leg` finds in it what the gym kept and what the engine said."""
    # The engine is the innermost: on its way out a gym asks that no process is left that it can see.
    async with (
        FakeFaultRelay(fault_every=FAULT_EVERY, steering=steer if leg.is_vllm else None) as relay,
        _gym(leg, relay, folder) as gym,
        leg.engine(model) as engine,
    ):
        relay.engine_url = engine.url
        await gym.result_of(await gym.start(OPENCODE, rows=make_rows(numbers), num_samples_in_parallel=concurrency))
    write_log(folder / LOG_NAME, relay.log)


@asynccontextmanager
async def _gym(leg: Leg, relay: FakeFaultRelay, folder: Path) -> AsyncIterator[LiveGym]:
    policy = f"{POLICY}.model_servers.vllm_model"
    changes: dict[str, object] = {
        "policy_base_url": f"{relay.url}/v1",
        "policy_model_name": MODEL_NAME,
        f"{policy}.retry": {"max_attempts": 3, "first_pause_s": 0.05, "max_pause_s": 1.0, "patience_s": 120.0},
        f"{policy}.idle_timeout_s": 120.0,
        f"{policy}.context_tokens": CONTEXT_TOKENS,
        f"{policy}.max_output_tokens": MAX_OUTPUT_TOKENS,
        f"{policy}.exact_prefix": leg.exact_prefix,
        f"{OPENCODE_AGENT}.agent_servers.opencode_agent.timeout_s": 300,
    }
    async with live_gym(folder, lambda _: "nobody asks", changes=changes) as gym:
        yield gym
