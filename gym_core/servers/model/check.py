"""A look at a model's endpoints before a run trusts them: do they answer, with pictures, with what else, and alike."""

import asyncio
import time
from dataclasses import dataclass

from gym_core.http.upstream import Upstream
from gym_core.servers.model.answer import MAX_ERROR_BYTES
from gym_core.servers.model.config import EndpointSettings
from gym_core.servers.model.probe_abilities import look_at_abilities
from gym_core.servers.model.probe_merge import merge_reports
from gym_core.servers.model.probe_prefix import exact_prefix_trouble
from gym_core.servers.model.probe_prompts import episode_prompt
from gym_core.servers.model.probe_training import SeenForTraining, look_for_training, prompt_leaks, shows_list
from gym_core.servers.model.probe_wire import ProbeClient, ProbeReply, SeenCompletion
from gym_core.servers.model.rejections import PICTURE_LIMIT_ADVICE, speaks_of_picture_limit
from gym_core.types.checkup import AbilityReport
from gym_core.types.model_call import EndpointReport
from gym_core.types.wire import JsonObject

_ANSWER_TOKENS = 16
_REFUSALS = frozenset({400, 422, 500})
"""What endpoints say of a prompt that they do not take; 500 is a chat template that failed."""
_LEAK_ADVICE = (
    "the chat template prints list-shaped content as program text, so the model would be given a garbled prompt: "
    "serve it with a template that joins parts, or with vLLM's --chat-template-content-format string; "
    "allow_template_leak: true in the model server's block takes it as it is"
)


@dataclass
class _Tried:
    reply: ProbeReply
    refusal_of_two: ProbeReply | None = None
    """What the endpoint said when it took no second picture."""


class EndpointProbe:
    """Asks the endpoints of one model, all at once. Never raises for what an endpoint does."""

    def __init__(self, upstream: Upstream, settings: EndpointSettings, *, allow_leak: bool = False) -> None:
        self._settings = settings
        self._allow_leak = allow_leak
        self._clients = [ProbeClient(upstream, settings, url) for url in settings.base_urls]

    async def context_tokens(self) -> int | None:
        """The least that any endpoint says of our model, or of the only one it has."""
        told = await asyncio.gather(*(self._context_tokens(client) for client in self._clients))
        return min((length for length in told if length is not None), default=None)

    async def _context_tokens(self, client: ProbeClient) -> int | None:
        models = await client.models()
        own = [model.context_tokens for model in models if model.name == self._settings.model]
        return own[0] if own else (models[0].context_tokens if len(models) == 1 else None)

    async def abilities(self) -> AbilityReport:
        """Of the model, by answers of the first endpoint."""
        report = await look_at_abilities(self._clients[0])
        masked = self._settings.masked
        colours = [answer.model_copy(update={"said": masked(answer.said)}) for answer in report.colours]
        refusal = masked(report.refusal) if report.refusal is not None else None
        return report.model_copy(update={"colours": colours, "refusal": refusal, "message": masked(report.message)})

    async def report(self) -> EndpointReport:
        started = time.monotonic()
        reports = await asyncio.gather(*(self._look(client) for client in self._clients))
        seconds = time.monotonic() - started
        return merge_reports(self._settings.base_urls, reports).model_copy(update={"seconds": seconds})

    async def _look(self, client: ProbeClient) -> EndpointReport:
        models, tried = await asyncio.gather(client.models(), self._most_pictures(client))
        reply = tried.reply
        accepts_images = reply.status == 200
        if not accepts_images:
            reply = await self._ask(client, n_pictures=0, with_extras=False)
        completion = reply.completion
        leaks = completion is not None and await self._leaks(client, completion, reply)
        seen = SeenForTraining()
        if completion is not None and self._settings.wanted and (completion.has_ids or completion.logprobs):
            seen = await look_for_training(client, self._settings.wanted)
        leaks = leaks or seen.leaks
        trouble = None
        if completion is not None:
            trouble = await exact_prefix_trouble(
                client, self._settings.exact_prefix, self._settings.wanted, takes_tokens=seen.accepts_token_prompts
            )
        is_fit = trouble is None and (self._allow_leak or not leaks)
        return EndpointReport(
            ok=completion is not None and accepts_images and is_fit,
            answers=completion is not None,
            message=trouble or self._message(client, tried, reply, leaks=leaks),
            model=self._settings.model,
            served_models=[self._settings.masked(model.name)[:200] for model in models[:50]],
            context_tokens=next((m.context_tokens for m in models if m.name == self._settings.model), None),
            gives_logprobs=bool(completion and completion.logprobs),
            gives_token_ids=bool(completion and completion.has_ids),
            accepts_images=accepts_images and completion is not None,
            leaks_list_content=leaks,
            allows_leak=self._allow_leak,
            logprobs_mode=seen.logprobs_mode,
            image_tokens=seen.image_tokens,
            accepts_token_prompts=seen.accepts_token_prompts,
        )

    async def _most_pictures(self, client: ProbeClient) -> _Tried:
        """With two pictures as an episode sends them, or else with one; each with our extras, or else without."""
        refusal_of_two: ProbeReply | None = None
        reply = ProbeReply(0, b"")
        for n_pictures in (2, 1):
            for with_extras in (True, False) if self._settings.wanted else (False,):
                reply = await self._ask(client, n_pictures=n_pictures, with_extras=with_extras)
                if reply.status not in _REFUSALS:
                    return _Tried(reply, refusal_of_two)
            refusal_of_two = refusal_of_two or reply
        return _Tried(reply, refusal_of_two)

    async def _ask(self, client: ProbeClient, *, n_pictures: int, with_extras: bool) -> ProbeReply:
        extras: JsonObject = self._settings.wanted | {"return_prompt_text": True} if with_extras else {}
        return await client.complete(episode_prompt(n_pictures), max_tokens=_ANSWER_TOKENS, **extras)

    async def _leaks(self, client: ProbeClient, completion: SeenCompletion, reply: ProbeReply) -> bool:
        """By the prompt, where the endpoint shows it; else by a model that repeats it."""
        in_prompt = await prompt_leaks(client, completion)
        return shows_list(reply.text) if in_prompt is None else in_prompt

    def _message(self, client: ProbeClient, tried: _Tried, reply: ProbeReply, *, leaks: bool) -> str:
        masked = self._settings.masked
        if reply.completion is None:
            return f"{client.url}: HTTP {reply.status}: {masked(_shown(reply))[:300]}"
        if leaks:
            return _LEAK_ADVICE
        if tried.reply.status != 200:
            return "the endpoint refuses images: this model cannot be run on visual tasks"
        if tried.refusal_of_two is None:
            return ""
        text = _shown(tried.refusal_of_two)
        advice = f"; {PICTURE_LIMIT_ADVICE}" if speaks_of_picture_limit(text) else ""
        return (
            "the endpoint takes one picture but refuses a second one after a tool's result: reading crops will fail"
            f"{advice} ({masked(text)[:300]})"
        )


def _shown(reply: ProbeReply) -> str:
    return reply.content[:MAX_ERROR_BYTES].decode("utf-8", "replace")
