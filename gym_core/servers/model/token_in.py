"""A call that goes on from known ids, with an engine that takes ids for a prompt (vLLM's `--enable-scale-out`).

The engine renders the conversation; of that render only what comes after the last known answer is put behind the known
ids; the engine samples from those, with the pictures beside them, and reads the sampled ids back. Beside what a plain
call costs, that is two renders, the second of text alone, and one read-back. The pictures travel twice.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from gym_core.capture.recorder import Ids
from gym_core.servers.model.answer import Answer
from gym_core.servers.model.call import Call
from gym_core.servers.model.endpoint import EndpointPool
from gym_core.servers.model.refusal import Refusal
from gym_core.servers.model.request import ShapedBody
from gym_core.servers.model.splice import CannotSplice, find_end_of_turn, fold_pictures, read_placeholders, splice
from gym_core.servers.model.tips import Tip
from gym_core.servers.model.token_endpoint import Asking, Rendered, TokenEndpoint, picture_parts, without_pictures
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

_NOT_PROBED = ("messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "stop")
"""Fields of a call that a look at the template goes without."""


@dataclass(frozen=True)
class _Prompt:
    rendered: Rendered
    """By the template."""
    meant: Ids
    """What the engine is to see."""
    folded: Ids
    """The same with one placeholder a picture."""
    pictures: list[JsonObject]


class TokenIn:
    """For one endpoint pool and one template."""

    def __init__(self, pool: EndpointPool) -> None:
        self._endpoint = TokenEndpoint(pool)
        self._end_of_turn: int | None = None

    async def look(self, call: Call, body: ShapedBody) -> None:
        """Learn how the template closes an answer. Raises EndpointFault, with the status of an endpoint that has no
        such routes, and Refusal."""
        fields = {name: said for name, said in body.fields.items() if name not in _NOT_PROBED}
        asking = _asking(call)
        probe = replace(body, fields=fields)
        try:
            one = await self._endpoint.render(probe, _answered("b"), asking, with_prompt=False)
            other = await self._endpoint.render(probe, _answered("c"), asking, with_prompt=False)
        except Refusal as refusal:
            if refusal.kind is not None:
                raise
            # Some templates print no conversation that ends with an answer.
            log.warning("template cannot be looked at", extra={"refusal": str(refusal)[:200]})
            return
        self._end_of_turn = find_end_of_turn(one.ids, other.ids)

    async def complete(self, call: Call, body: ShapedBody, tip: Tip) -> Answer:
        """Raises CannotSplice, Refusal, EndpointFault."""
        if self._end_of_turn is None:
            raise CannotSplice("no_end_of_turn")
        try:
            prompt = await self._render(call, body, tip, self._end_of_turn)
            # What the engine made room for, should it have asked for a smaller answer.
            progress = call.progress
            sent = body.with_max_tokens(progress.sent.max_tokens if progress.sent else body.max_tokens)
            # The record's attempts are those of the request that samples.
            progress.attempts = 0
            answer = await self._endpoint.generate(
                prompt.rendered,
                prompt.folded,
                prompt.pictures,
                _asking(call),
                max_tokens=_room(prompt, sent.max_tokens),
                memory=call.session.prompts,
            )
            if answer.tokens is None or not np.array_equal(answer.tokens.prompt_ids, prompt.meant):
                raise CannotSplice("prompt_differs")
            answer = await self._read_back(call, body, answer, self._end_of_turn)
        except Refusal as refusal:
            if refusal.kind is not None:
                raise
            # A 400 that is not about the context: the plain way tells whether the request itself is bad.
            raise CannotSplice("refused") from refusal
        progress.sent = sent
        call.notes.append("exact_prefix")
        return answer

    async def _render(self, call: Call, body: ShapedBody, tip: Tip, end_of_turn: int) -> _Prompt:
        asking = _asking(call)
        turns = zip(call.messages[: tip.n_messages], call.sending, strict=False)
        known = [without_pictures(message, raw) for message, raw in turns]
        history = await self._endpoint.render(body, known, asking, with_prompt=False)
        rendered = await self._endpoint.render(body, call.sending, asking)
        meant = splice(tip.seen, rendered.ids, history=history.ids, end_of_turn=end_of_turn)
        pictures = picture_parts(call.messages, call.sending)
        if len(pictures) != len(rendered.pictures):
            raise CannotSplice("pictures_not_counted")
        placeholders = read_placeholders(rendered.ids, rendered.pictures)
        folded = meant if placeholders is None else fold_pictures(meant, placeholders)
        return _Prompt(rendered, meant, folded, pictures)

    async def _read_back(self, call: Call, body: ShapedBody, answer: Answer, end_of_turn: int) -> Answer:
        """The answer with the text and the calls that its ids stand for."""
        if answer.tokens is None:
            return answer
        sampled, stops = answer.tokens.ids_S, _stops(body)
        # The chat route leaves the token that ended the answer out of the text.
        is_ended = len(sampled) > 0 and answer.finish_reason == "stop"
        if is_ended and (not stops or sampled[-1] == end_of_turn):
            sampled = sampled[:-1]
        if not len(sampled):
            return answer
        progress = replace(call.progress)
        said = await self._endpoint.derender(
            body, answer.tokens.prompt_ids, sampled, answer.finish_reason, _asking(call)
        )
        # The record is of the request that sampled.
        vars(call.progress).update(vars(progress))
        return replace(
            answer,
            content=_cut(said.content, stops),
            reasoning=said.reasoning,
            reasoning_field=said.reasoning_field,
            calls=said.calls,
            finish_reason="tool_calls" if said.calls else answer.finish_reason,
        )


def _asking(call: Call) -> Asking:
    return Asking(call.session.affinity, call.progress)


def _answered(text: str) -> list[JsonObject]:
    return [{"role": "user", "content": "a"}, {"role": "assistant", "content": text}]


def _room(prompt: _Prompt, asked: int | None) -> int | None:
    """Tokens of the answer: where the engine had room for fewer than asked, a longer prompt leaves fewer still."""
    room = prompt.rendered.max_tokens
    if room is None or asked is None:
        return room or asked
    grown = len(prompt.meant) - len(prompt.rendered.ids)
    return max(1, room - grown) if room < asked else asked


def _stops(body: ShapedBody) -> Sequence[str]:
    """The strings at which an answer was to end."""
    try:
        said = msgspec.json.decode(msgspec.json.encode(body.fields.get("stop")), type=str | list[str] | None)
    except msgspec.ValidationError:  # the endpoint will say what is wrong with it
        return ()
    return (said,) if isinstance(said, str) else said or ()


def _cut(text: str, stops: Sequence[str]) -> str:
    found = [text.find(stop) for stop in stops if stop and stop in text]
    return text[: min(found)] if found else text
