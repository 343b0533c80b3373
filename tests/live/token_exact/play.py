"""Playing the sessions: an engine, the relay, a whole gym, and real OpenCode in real sandboxes."""

import io
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw

from gym_core.capture.images import make_data_url
from gym_core.types.run import RunResult
from gym_core.types.wire import JsonObject
from tests.live.engines import CONTEXT_TOKENS, MODEL_NAME, tiny_engine
from tests.live.gyms import OPENCODE, OPENCODE_AGENT, POLICY, QUESTION, LiveGym, live_gym
from tests.live.token_exact.engine_log import Seen
from tests.live.token_exact.policy import MAX_OUTPUT_TOKENS, prompt_pictures
from tests.live.token_exact.relay import FakeFaultRelay

FAULT_EVERY = 5
SIDES_PX = ((112, 56), (140, 84), (112, 112))
SEED = 20


@dataclass(frozen=True)
class Leg:
    """One way of serving the policy."""

    name: str
    script: str
    engine_flags: tuple[str, ...] = ()
    exact_prefix: bool = False


_SCRIPTS = "tests.live.token_exact.policy:"
_SPLIT = ("--split-seed", "7")
_READS_REASONING = ("--reasoning-parser", "qwen3")
LEGS = (
    Leg("exact", "think_and_speak", (*_SPLIT, *_READS_REASONING), exact_prefix=True),
    Leg("drifting", "think_and_speak", (*_SPLIT, *_READS_REASONING)),
    Leg("canonical", "speak"),
)
"""Prompts that begin with the sampled tokens; prompts rendered anew after tokens cut at random and dropped reasoning;
and the tokenizer's own tokens, which a new render gives again but for what a harness re-serialises."""


@dataclass(frozen=True)
class Played:
    """A finished leg: what is on disk and what the engine said."""

    leg: str
    output: Path
    """The run's rollouts; its captures and assets lie beside."""
    log: list[Seen]
    result: RunResult


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
    """Blocks of colour: no two parts are alike."""
    image = Image.new("RGB", size)
    draw = ImageDraw.Draw(image)
    for x in range(0, size[0], 14):
        for y in range(0, size[1], 14):
            draw.rectangle((x, y, x + 14, y + 14), tuple(rng.choices(range(256), k=3)))
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


async def play(leg: Leg, numbers: Sequence[int], *, model: Path, folder: Path, concurrency: int = 2) -> Played:
    """`folder` is there and empty; all that the gym keeps comes to lie in it."""
    # The engine is the innermost: on its way out a gym asks that no process is left that it can see.
    async with (
        FakeFaultRelay(fault_every=FAULT_EVERY) as relay,
        _gym(leg, relay, folder) as gym,
        tiny_engine(model, "--script", _SCRIPTS + leg.script, *leg.engine_flags) as engine,
    ):
        relay.engine_url = engine.url
        run = await gym.start(OPENCODE, rows=make_rows(numbers), num_samples_in_parallel=concurrency)
        result = await gym.result_of(run)
        return Played(leg.name, gym.output, relay.log, result)


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
