"""What a trainer must know of an endpoint, and no document of it says: asked in a handful of one-token calls."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gym_core.servers.model.image_tokens import PicturePrompt, find_image_tokens
from gym_core.servers.model.probe_prompts import SMALL_PX, list_prompt, one_picture_prompt
from gym_core.servers.model.probe_wire import ProbeClient, SeenCompletion, TokenLogprob
from gym_core.types.model_call import ImageTokens
from gym_core.types.wire import JsonObject

LogprobsMode = Literal["raw", "processed", "unknown"]

PICTURE_SIZES_PX = (SMALL_PX, (224, 112), (448, 224), (448, 448))
"""From 4 tokens to 256 where a token is 28 pixels a side: models that scale small pictures up leave two of them alone,
and so do those of the tests, which scale large ones down."""
_CUT_LOGPROB = -9000.0
"""Below it stand marks of tokens that top_k or top_p cut away: vLLM's -9999."""
_MIN_GAP = 0.02
"""Nats between the top tokens, in all: with less nobody could tell halved gaps from equal ones."""
_TOP_LOGPROBS = 5
_LEAK = re.compile(r"\[?\{'(?:type|text)': '(?:text|image_url|image|input_text|output_text)'")
"""Python's way to print a list of parts. No message of a probe looks like it."""


@dataclass(frozen=True)
class SeenForTraining:
    logprobs_mode: LogprobsMode = "unknown"
    image_tokens: ImageTokens | None = None
    accepts_token_prompts: bool = False
    leaks: bool = False


async def look_for_training(client: ProbeClient, extras: JsonObject) -> SeenForTraining:
    """`extras` are the fields that ask for ids and log-probabilities. At most ten calls of one token, side by side."""
    fields: JsonObject = {**extras, "max_tokens": 1, "top_p": 1.0}

    async def ask(messages: list[JsonObject], **more: object) -> SeenCompletion | None:
        return (await client.complete(messages, **(fields | more))).completion

    plain = one_picture_prompt(None)
    async with asyncio.TaskGroup() as asking:
        at_one = asking.create_task(ask(plain, top_logprobs=_TOP_LOGPROBS, temperature=1.0))
        at_two = asking.create_task(ask(plain, top_logprobs=_TOP_LOGPROBS, temperature=2.0))
        takes_ids = asking.create_task(_takes_token_prompts(client, plain))
        leaks = asking.create_task(_leaks_lists(client, fields))
        pictures = [asking.create_task(ask(one_picture_prompt(size))) for size in PICTURE_SIZES_PX]
    return SeenForTraining(
        logprobs_mode=read_logprobs_mode(_logprobs(at_one.result()), _logprobs(at_two.result())),
        image_tokens=_image_tokens(at_one.result(), [task.result() for task in pictures]),
        accepts_token_prompts=takes_ids.result(),
        leaks=leaks.result(),
    )


def _logprobs(seen: SeenCompletion | None) -> Sequence[TokenLogprob]:
    return seen.logprobs if seen else []


def _image_tokens(without: SeenCompletion | None, pictures: Sequence[SeenCompletion | None]) -> ImageTokens | None:
    prompts = [
        PicturePrompt(size, seen.prompt_ids)
        for size, seen in zip(PICTURE_SIZES_PX, pictures, strict=True)
        if seen and seen.prompt_ids
    ]
    return find_image_tokens(without.prompt_ids, prompts) if without and without.prompt_ids else None


async def prompt_leaks(client: ProbeClient, seen: SeenCompletion) -> bool | None:
    """Whether its prompt shows a list as program text; None when the endpoint does not show its prompt."""
    text = seen.prompt_text
    if text is None and seen.prompt_ids:
        text = await client.detokenize(seen.prompt_ids)
    return None if text is None else shows_list(text)


def shows_list(text: str) -> bool:
    return _LEAK.search(text) is not None


async def _leaks_lists(client: ProbeClient, fields: JsonObject) -> bool:
    """An endpoint that refuses such a prompt leaks nothing: no harness of ours gets to send it."""
    seen = (await client.complete(list_prompt(), **fields, return_prompt_text=True)).completion
    return bool(seen and await prompt_leaks(client, seen))


async def _takes_token_prompts(client: ProbeClient, messages: list[JsonObject]) -> bool:
    prompt_ids = await client.render(messages)
    sampled = await client.generate(prompt_ids) if prompt_ids else None
    return bool(prompt_ids and sampled) and await client.derender(prompt_ids or [], sampled or [])


def read_logprobs_mode(at_one: Sequence[TokenLogprob], at_two: Sequence[TokenLogprob]) -> LogprobsMode:
    """From the first token's alternatives after one prompt, at temperatures 1 and 2.

    Raw values do not depend on the temperature. Processed ones do: differences between them are halved. That is told
    apart also where an engine's arithmetic is noisy.
    """
    one, two = _alternatives(at_one), _alternatives(at_two)
    if any(value < _CUT_LOGPROB for value in (*one.values(), *two.values())):
        return "processed"
    common = [token for token in one if token in two]
    if len(common) < 2:
        return "unknown"
    top = max(common, key=lambda token: one[token])
    gaps = [(one[top] - one[token], two[top] - two[token]) for token in common]
    if sum(gap for gap, _ in gaps) < _MIN_GAP:
        return "unknown"
    from_raw = sum(abs(second - gap) for gap, second in gaps)
    from_processed = sum(abs(second - gap / 2) for gap, second in gaps)
    return "raw" if from_raw < from_processed else "processed"


def _alternatives(found: Sequence[TokenLogprob]) -> dict[str, float]:
    """Those that share their text with another are left out: bytes that are no letter by themselves look alike."""
    top = found[0].top_logprobs if found else []
    times = Counter(entry.token for entry in top)
    return {entry.token: entry.logprob for entry in top if times[entry.token] == 1}
