"""A session's next prompt begins with the very ids that were seen and sampled before.

A chat route prints the whole conversation anew with every call; what it prints of an answer is often not what was
sampled, and from there on the policy is trained on a prompt it never saw. There are two ways around that.

*token_in*, with an engine that has vLLM's token routes (`--enable-scale-out`): the engine renders the conversation, of
that render only what comes after the last known answer is put behind the known ids, and it samples from those ids with
the pictures beside them. A call then costs two renders (the second of text alone) and one derender more than a plain
one, and its pictures travel twice. *required_prefix*, with NeMo RL's vLLM server: the known ids go along with the chat
request, and the server does the same.

What was done is in each call's notes: `exact_prefix` (the engine says that it saw just these ids),
`exact_prefix_fallback:<why>` (asked the plain way) or `exact_prefix_ignored`. A call that begins a conversation is
asked the plain way and has no note.
"""

import asyncio
import logging
from dataclasses import replace
from enum import StrEnum

import msgspec
import numpy as np
from msgspec import Raw

from gym_core.capture.recorder import Ids
from gym_core.servers.model.answer import Answer
from gym_core.servers.model.call import Call
from gym_core.servers.model.config import ExactPrefixMode
from gym_core.servers.model.endpoint import EndpointFault, EndpointPool
from gym_core.servers.model.refusal import Refusal, model_unavailable
from gym_core.servers.model.request import ShapedBody
from gym_core.servers.model.splice import CannotSplice, find_end_of_turn, fold_pictures, read_placeholders, splice
from gym_core.servers.model.tips import Tip
from gym_core.servers.model.token_endpoint import Asking, TokenEndpoint, picture_parts, without_pictures
from gym_core.types.model_call import CaptureGap
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

SENT = "exact_prefix"
IGNORED = "exact_prefix_ignored"
FALLBACK = "exact_prefix_fallback"
NO_ROUTES_ADVICE = (
    "exact_prefix needs an endpoint that takes token prompts: start vLLM with --enable-scale-out, or use a server that "
    "honours required_prefix_token_ids, as NeMo RL's does, with exact_prefix_mode: required_prefix"
)
_NO_ROUTE = frozenset({403, 404, 405})
_WITH_IDS = frozenset({CaptureGap.IDS_NOT_LOGPROBS, CaptureGap.BAD_LOGPROB})
"""What may be missing of an answer that can be gone on from."""
_NOT_PROBED = ("messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "stop")
"""Fields of a call that a look at the template goes without."""


class _Way(StrEnum):
    TOKEN_IN = "token_in"
    REQUIRED_PREFIX = "required_prefix"
    UNKNOWN_TEMPLATE = "unknown_template"
    """Token routes, but a template whose answers end in no token of their own."""


class ExactPrefix:
    """Asks a session's calls, for all sessions of one model server."""

    def __init__(self, pool: EndpointPool, mode: ExactPrefixMode) -> None:
        self._pool = pool
        self._mode = mode
        self._tokens = TokenEndpoint(pool)
        self._looking = asyncio.Lock()
        self._way: _Way | None = _Way.REQUIRED_PREFIX if mode is ExactPrefixMode.REQUIRED_PREFIX else None
        self._end_of_turn = -1

    async def complete(self, call: Call, body: ShapedBody) -> Answer:
        """A whole answer. Raises Refusal, EndpointFault once it is final."""
        way = await self._learned(call, body)
        try:
            tip = call.session.tips.find([message.kept for message in call.messages], _tools(call))
            if tip is None:
                return await self._plain(call, body)
            if way is _Way.REQUIRED_PREFIX:
                return await self._with_required_prefix(call, body, tip)
            if way is _Way.UNKNOWN_TEMPLATE:
                raise CannotSplice("no_end_of_turn")
            return await self._with_tokens(call, body, tip)
        except CannotSplice as failure:
            call.notes.append(f"{FALLBACK}:{failure.why}")
            return await self._plain(call, body)

    def remember(self, call: Call, answer: Answer) -> None:
        """An answer as the harness gets it: later calls may go on from it."""
        tokens = answer.tokens if _WITH_IDS.issuperset(answer.gaps) else None
        messages = [message.kept for message in call.messages]
        call.session.tips.add(call.id, messages, _tools(call), answer.for_record(), tokens)

    async def _plain(self, call: Call, body: ShapedBody) -> Answer:
        session = call.session
        return await self._pool.complete(
            body, affinity=session.affinity, progress=call.progress, memory=session.prompts
        )

    # -- token in -------------------------------------------------------------

    async def _with_tokens(self, call: Call, body: ShapedBody, tip: Tip) -> Answer:
        asking, progress = _asking(call), call.progress
        try:
            rendered = await self._tokens.render(body, call.sending, asking)
            # What the engine made room for, should it have asked for a smaller answer.
            sent = body.with_max_tokens(progress.sent.max_tokens if progress.sent else body.max_tokens)
            turns = zip(call.messages[: tip.n_messages], call.sending, strict=False)
            history = await self._tokens.render(
                body, [without_pictures(message, raw) for message, raw in turns], asking, with_prompt=False
            )
            meant = splice(tip.seen, rendered.ids, history=history.ids, end_of_turn=self._end_of_turn)
            placeholders = read_placeholders(rendered.ids, rendered.pictures)
            folded = meant if placeholders is None else fold_pictures(meant, placeholders)
            pictures = picture_parts(call.messages, call.sending)
            if len(pictures) != len(rendered.pictures):
                raise CannotSplice("pictures_not_counted")
            progress.attempts = 0
            grown = len(meant) - len(rendered.ids)
            is_full = sent.max_tokens is not None and rendered.max_tokens < sent.max_tokens
            answer = await self._tokens.generate(
                rendered,
                folded,
                pictures,
                asking,
                max_tokens=max(1, rendered.max_tokens - grown) if is_full else rendered.max_tokens,
                memory=call.session.prompts,
            )
            if answer.tokens is None or not np.array_equal(answer.tokens.prompt_ids, meant):
                raise CannotSplice("prompt_differs")
            answer = await self._read_back(call, body, answer)
        except Refusal as refusal:
            if refusal.kind is not None:
                raise
            # A 400 that is not about the context: the plain way tells whether the request itself is bad.
            raise CannotSplice("refused") from refusal
        call.notes.append(SENT)
        progress.sent = sent
        return answer

    async def _read_back(self, call: Call, body: ShapedBody, answer: Answer) -> Answer:
        """The answer with the text and the calls that its ids stand for."""
        if answer.tokens is None:
            return answer
        sampled, stops = answer.tokens.ids_S, _stops(body)
        # The chat route leaves the token that ended the answer out of the text.
        is_ended = len(sampled) and answer.finish_reason == "stop"
        if is_ended and (not stops or sampled[-1] == self._end_of_turn):
            sampled = sampled[:-1]
        if not len(sampled):
            return answer
        asked = replace(call.progress)
        said = await self._tokens.derender(body, answer.tokens.prompt_ids, sampled, answer.finish_reason, _asking(call))
        # The record is of the request that sampled.
        vars(call.progress).update(vars(asked))
        return replace(
            answer,
            content=_cut(said.content, stops),
            reasoning=said.reasoning,
            reasoning_field=said.reasoning_field,
            calls=said.calls,
            finish_reason="tool_calls" if said.calls else answer.finish_reason,
        )

    # -- required prefix ------------------------------------------------------

    async def _with_required_prefix(self, call: Call, body: ShapedBody, tip: Tip) -> Answer:
        answer = await self._plain(call, _with_prefix(body, call.sending, tip))
        call.progress.sent = replace(body, max_tokens=call.progress.sent.max_tokens if call.progress.sent else None)
        begins = answer.tokens is not None and _begins_with(answer.tokens.prompt_ids, tip.seen)
        call.notes.append(SENT if begins else IGNORED)
        return answer

    # -- what the endpoint can ------------------------------------------------

    async def _learned(self, call: Call, body: ShapedBody) -> _Way:
        """Learned with the first call that the endpoint answers. Raises Refusal when it can nothing of it."""
        async with self._looking:
            if self._way is None:
                self._way = await self._look(call, body)
                log.info("exact prefix", extra={"way": self._way, "end_of_turn": self._end_of_turn})
            return self._way

    async def _look(self, call: Call, body: ShapedBody) -> _Way:
        probe = replace(body, fields={name: said for name, said in body.fields.items() if name not in _NOT_PROBED})
        asking = _asking(call)
        try:
            one, other = [
                await self._tokens.render(probe, _said("a", answer), asking, with_prompt=False) for answer in "bc"
            ]
        except EndpointFault as fault:
            if fault.status not in _NO_ROUTE:
                raise
            if self._mode is ExactPrefixMode.AUTO and await self._honours_prefix(call, probe):
                return _Way.REQUIRED_PREFIX
            raise model_unavailable(f"{NO_ROUTES_ADVICE} ({str(fault)[:300]})") from fault
        end_of_turn = find_end_of_turn(one.ids, other.ids)
        if end_of_turn is None:
            return _Way.UNKNOWN_TEMPLATE
        self._end_of_turn = end_of_turn
        return _Way.TOKEN_IN

    async def _honours_prefix(self, call: Call, probe: ShapedBody) -> bool:
        """Whether a prompt begins with ids that its messages would never give."""
        probe = probe.with_max_tokens(1)
        first = await self._plain(call, replace(probe, fields={**probe.fields, "messages": _said("a")}))
        if first.tokens is None or not len(first.tokens.ids_S):
            return False
        odd = np.repeat(first.tokens.ids_S[:1], 2)
        tip = Tip(replace(first.tokens, ids_S=odd), n_messages=2)
        sending = [Raw(msgspec.json.encode(message)) for message in [*_said("a", "b"), *_said("c")]]
        second = await self._plain(call, _with_prefix(probe, sending, tip))
        return second.tokens is not None and _begins_with(second.tokens.prompt_ids, tip.seen)


def _tools(call: Call) -> bytes:
    return bytes(call.envelope.tools) if call.envelope.has_tools else b""


def _asking(call: Call) -> Asking:
    return Asking(call.session.affinity, call.progress)


def _said(user: str, assistant: str | None = None) -> list[JsonObject]:
    said: list[JsonObject] = [{"role": "user", "content": user}]
    return said if assistant is None else [*said, {"role": "assistant", "content": assistant}]


def _with_prefix(body: ShapedBody, sending: list[Raw], tip: Tip) -> ShapedBody:
    """With the known ids in both forms that servers read: a field of the request, and two of the answer's message."""
    fields = msgspec.json.decode(sending[tip.n_messages - 1], type=dict[str, Raw])
    ids = {"prompt_token_ids": tip.tokens.prompt_ids.tolist(), "generation_token_ids": tip.tokens.ids_S.tolist()}
    messages: list[object] = list(sending)
    messages[tip.n_messages - 1] = {**fields, **ids}
    return replace(body, fields={**body.fields, "messages": messages, "required_prefix_token_ids": tip.seen.tolist()})


def _begins_with(ids: Ids, prefix: Ids) -> bool:
    return np.array_equal(ids[: len(prefix)], prefix)


def _stops(body: ShapedBody) -> list[str]:
    """The strings at which an answer was to end."""
    try:
        said = msgspec.json.decode(msgspec.json.encode(body.fields.get("stop")), type=str | list[str] | None)
    except msgspec.ValidationError:  # the endpoint will say what is wrong with it
        return []
    return [said] if isinstance(said, str) else said or []


def _cut(text: str, stops: list[str]) -> str:
    found = [text.find(stop) for stop in stops if stop and stop in text]
    return text[: min(found)] if found else text
