"""An endpoint's answer: read whole from a stream or an object, judged complete or broken, and told to a harness.

Strangers' bytes: unknown fields are ignored, and whatever is missing makes the answer broken rather than guessed.
"""

import math
import re
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import Literal

import msgspec
import numpy as np

from gym_core.capture.recorder import CallTokens, Ids
from gym_core.servers.model.answer_form import (
    BrokenAnswer,
    TextPart,
    WrongForm,
    arguments_text,
    content_text,
    fault_of,
)
from gym_core.servers.model.messages import IssuedCall
from gym_core.servers.model.prompt_ids import PromptMemory
from gym_core.types.model_call import CallAnswer, CalledTool, CaptureGap
from gym_core.types.wire import JsonObject

DONE = b"[DONE]"
LEAK_MARKS = (b"{'type': 'text'", b"{'type': 'image", b"{'type': 'input_text'")
"""A content part printed by Python. JSON has no single quotes, so it is a chat template's doing, or quotes one."""

MAX_ERROR_BYTES = 64 << 10
"""Of an endpoint's complaint that are read."""
MAX_LOGPROB = 1e-6
"""Above 0 by more than rounding is no log-probability."""
CUT_LOGPROB = -9999.0
"""What vLLM says of a token that top_k or top_p cut from the distribution."""
MAX_PARTIAL_BYTES = 8 << 20
"""Of a broken answer from which tokens are still read: it happens on the event loop."""

_MAX_ID = 2**31 - 1
_BARE_NUMBER = re.compile(rb'("logprob"\s*:\s*)(?:NaN|-?Infinity)')
"""No JSON, but what some servers write. Generated text cannot look like it: its quotes are escaped."""


_ABSENT = msgspec.Raw(b"")


class _FunctionDelta(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: msgspec.Raw = _ABSENT


class _CallDelta(msgspec.Struct, gc=False):
    index: int = 0
    id: str | None = None
    function: _FunctionDelta | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | list[TextPart] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Logprob(msgspec.Struct, gc=False):
    logprob: float | None = None
    """null is how some servers write NaN."""


class _Logprobs(msgspec.Struct, gc=False):
    content: list[_Logprob] | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _PromptDetails | None = None

    @property
    def cached_tokens(self) -> int:
        """0 where the endpoint does not say."""
        return (self.prompt_tokens_details and self.prompt_tokens_details.cached_tokens) or 0


class _Chunk(msgspec.Struct, gc=False):
    id: str = ""
    choices: list[_Choice] = []
    usage: _Usage | None = None
    prompt_token_ids: msgspec.Raw = _ABSENT
    error: msgspec.Raw = _ABSENT


_CHUNK = msgspec.json.Decoder(_Chunk)


@dataclass(frozen=True)
class Answer:
    id: str
    content: str
    reasoning: str
    reasoning_field: Literal["reasoning", "reasoning_content"]
    """As the endpoint names it."""
    calls: tuple[IssuedCall, ...]
    finish_reason: str
    input_tokens: int
    output_tokens: int
    has_usage: bool
    tokens: CallTokens | None
    """What came of them; `gaps` says whether it is all."""
    notes: tuple[str, ...]
    gaps: tuple[CaptureGap, ...] = ()
    cached_input_tokens: int = 0
    """Of the input tokens, those that the endpoint says it had cached."""

    def with_own_ids(self, taken: Iterable[str]) -> "Answer":
        """Each tool call under an id that no other call of the session has; the endpoint's own where it is free."""
        if not self.calls:
            return self
        used = set(taken)
        calls = []
        for call in self.calls:
            own = call.id if call.id and len(call.id) <= 128 and call.id not in used else f"call_{uuid.uuid4().hex}"
            used.add(own)
            calls.append(replace(call, id=own))
        return replace(self, calls=tuple(calls))

    def for_record(self) -> CallAnswer:
        return CallAnswer(
            content=self.content,
            reasoning=self.reasoning,
            tool_calls=[CalledTool(id=call.id, name=call.name, arguments=call.arguments) for call in self.calls],
            finish_reason=self.finish_reason,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
        )


@dataclass(frozen=True)
class PartialAnswer:
    """What came of an answer that never got whole."""

    tokens: CallTokens
    gaps: tuple[CaptureGap, ...]


_GAPS = (
    CaptureGap.NO_END,
    CaptureGap.NO_DONE,
    CaptureGap.NO_FINISH_REASON,
    CaptureGap.NO_PROMPT_IDS,
    CaptureGap.NO_USAGE,
    CaptureGap.IDS_NOT_LOGPROBS,
    CaptureGap.IDS_NOT_USAGE,
    CaptureGap.BAD_LOGPROB,
)


@dataclass
class _Gathered:
    memory: PromptMemory
    id: str = ""
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    reasoning_field: Literal["reasoning", "reasoning_content"] = "reasoning_content"
    calls: dict[int, list[str]] = field(default_factory=dict)
    """Index to [id, name, pieces of arguments...]."""
    whole_calls: set[int] = field(default_factory=set)
    """Indices of those whose arguments came as an object."""
    finish_reason: str | None = None
    usage: _Usage | None = None
    prompt_ids: Ids | None = None
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    has_done: bool = True
    """False for a stream that did not end in [DONE]; objects need none."""
    has_end: bool = True

    def add(self, chunk: _Chunk) -> None:
        if chunk.error is not _ABSENT and bytes(chunk.error) != b"null":
            complaint = bytes(chunk.error)[:MAX_ERROR_BYTES].decode("utf-8", "replace")
            raise BrokenAnswer(f"error within the stream: {complaint}")
        if not self.id:
            self.id = chunk.id
        if chunk.usage:
            self.usage = chunk.usage
        if chunk.prompt_token_ids is not _ABSENT:
            self.prompt_ids = self.memory.read(bytes(chunk.prompt_token_ids))
        for choice in chunk.choices:
            if choice.index == 0:
                self._add_choice(choice)

    def _add_choice(self, choice: _Choice) -> None:
        if choice.finish_reason:
            self.finish_reason = choice.finish_reason
        if choice.token_ids:
            self.ids += choice.token_ids
        if choice.logprobs and choice.logprobs.content:
            for entry in choice.logprobs.content:
                self.logprobs.append(math.nan if entry.logprob is None else entry.logprob)
        said = choice.delta or choice.message
        if said is None:
            return
        if said.content or said.refusal:
            self.content.append(content_text(said.content) or said.refusal or "")
        if said.reasoning_content:
            self.reasoning.append(said.reasoning_content)
        elif said.reasoning:
            self.reasoning_field = "reasoning"
            self.reasoning.append(said.reasoning)
        for position, call in enumerate(said.tool_calls or ()):
            # Objects carry no index: there the position counts.
            self._add_call(call, call.index if choice.delta else position)

    def _add_call(self, call: _CallDelta, index: int) -> None:
        found = self.calls.setdefault(index, ["", ""])
        found[0] = found[0] or call.id or ""
        if call.function:
            found[1] = found[1] or call.function.name or ""
            text, is_whole = arguments_text(call.function.arguments)
            if text and (index in self.whole_calls or (is_whole and any(found[2:]))):
                raise WrongForm("a tool call's `function.arguments` is an object and has more pieces")
            if is_whole:
                self.whole_calls.add(index)
            found.append(text)

    def finish(self) -> Answer:
        if not self.finish_reason and self.has_done:
            raise WrongForm("the answer is whole, and has no `choices[0].finish_reason`")
        if not self.finish_reason:
            raise BrokenAnswer("the answer ended without a finish reason")
        calls = tuple(
            IssuedCall(id_, name, "".join(pieces)) for _, (id_, name, *pieces) in sorted(self.calls.items()) if name
        )
        if len(calls) < len(self.calls) or (self.finish_reason == "tool_calls" and not calls):
            self.notes.append("malformed_tool_call")
        usage = self.usage or _Usage()
        return Answer(
            id=self.id or f"chatcmpl-{uuid.uuid4().hex}",
            content="".join(self.content),
            reasoning="".join(self.reasoning),
            reasoning_field=self.reasoning_field,
            calls=calls,
            finish_reason=self.finish_reason,
            input_tokens=usage.prompt_tokens,
            cached_input_tokens=usage.cached_tokens,
            output_tokens=usage.completion_tokens,
            has_usage=self.usage is not None,
            tokens=self._tokens(),
            notes=(*self.notes, *self._incomplete_note()),
            gaps=self._gaps(),
        )

    def leave(self) -> PartialAnswer | None:
        """What there is, whatever it is; None when no token came."""
        tokens = self._tokens()
        return PartialAnswer(tokens, self._gaps()) if tokens is not None else None

    def _incomplete_note(self) -> list[str]:
        """Said only of an endpoint that gives tokens at all."""
        if self.prompt_ids is None and not self.ids:
            return []
        is_odd = self.usage is not None and len(self.ids) != self.usage.completion_tokens
        is_odd = is_odd or (len(self.logprobs) not in (0, len(self.ids)))
        return ["token_ids_incomplete"] if is_odd or self.prompt_ids is None or not self.are_ids else []

    def _gaps(self) -> tuple[CaptureGap, ...]:
        n_ids, usage = len(self.ids) if self.are_ids else 0, self.usage
        found = (
            not self.has_end,
            not self.has_done,
            not self.finish_reason,
            self.prompt_ids is None,
            usage is None,
            n_ids != len(self.logprobs),
            usage is not None and n_ids != usage.completion_tokens,
            not _are_logprobs(self.logprobs),
        )
        return tuple(compress(_GAPS, found)) if any(found) else ()

    @cached_property
    def are_ids(self) -> bool:
        """Looked at once all have come."""
        return not self.ids or (min(self.ids) >= 0 and max(self.ids) <= _MAX_ID)

    def _tokens(self) -> CallTokens | None:
        """All that came; None when nothing did."""
        if self.prompt_ids is None and not self.ids:
            return None
        return CallTokens(
            np.empty(0, np.int32) if self.prompt_ids is None else self.prompt_ids,
            np.array(self.ids if self.are_ids else (), np.int32),
            np.array(self.logprobs, np.float32) if self.logprobs else None,
        )


def read_stream(raw: bytes, memory: PromptMemory | None = None) -> Answer:
    """A whole event stream. Raises BrokenAnswer."""
    gathered = _Gathered(memory or PromptMemory(), has_done=False)
    _read_events(raw, gathered)
    if not gathered.has_done:
        gathered.notes.append("no_done")
    return gathered.finish()


def read_object(raw: bytes, memory: PromptMemory | None = None) -> Answer:
    """A whole `chat.completion` object. Raises BrokenAnswer."""
    gathered = _Gathered(memory or PromptMemory())
    gathered.add(_decode(raw))
    return gathered.finish()


def read_partial(raw: bytes, *, has_end: bool) -> PartialAnswer | None:
    """The tokens of an answer that failed or broke off; None when none came. `has_end`: the reply itself was whole."""
    if len(raw) > MAX_PARTIAL_BYTES:
        return None
    gathered = _Gathered(PromptMemory(), has_done=False, has_end=has_end)
    with suppress(BrokenAnswer):
        _read_events(raw, gathered)
    return gathered.leave()


def _are_logprobs(values: list[float]) -> bool:
    # The sum tells of any NaN, which min and max may pass over.
    return not values or (math.isfinite(sum(values)) and min(values) > CUT_LOGPROB and max(values) <= MAX_LOGPROB)


def _read_events(raw: bytes, gathered: _Gathered) -> None:
    """One token an event: this loop is what a call costs per token."""
    decode, add = _CHUNK.decode, gathered.add
    for line in raw.split(b"\n"):
        if not line.startswith(b"data:"):
            continue
        data = line[5:]
        try:
            chunk = decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            data = data.strip()
            if data == DONE:
                gathered.has_done = True
                return
            chunk = _decode(data)
        add(chunk)


def _decode(data: bytes) -> _Chunk:
    try:
        return _CHUNK.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        plain = _BARE_NUMBER.sub(rb"\1null", data)
        if plain != data:
            return _decode(plain)
        raise fault_of(error, data) from error


def quotes_list_content(text: bytes) -> bool:
    return any(mark in text for mark in LEAK_MARKS)


def as_object(answer: Answer, model: str, created: int) -> JsonObject:
    """A `chat.completion` for a client that did not ask for a stream."""
    message: JsonObject = {"role": "assistant", "content": answer.content or (None if answer.calls else "")}
    if answer.reasoning:
        message[answer.reasoning_field] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [_call_object(call) for call in answer.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish_reason}
    return _head(answer, model, created, "chat.completion") | {"choices": [choice], "usage": _usage(answer)}


def as_events(answer: Answer, model: str, created: int, *, wants_usage: bool) -> bytes:
    """The same as a stream, in as few events as a harness can tell apart."""
    head = _head(answer, model, created, "chat.completion.chunk")
    deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
    if answer.reasoning:
        deltas.append({answer.reasoning_field: answer.reasoning})
    if answer.content:
        deltas.append({"content": answer.content})
    deltas += [{"tool_calls": [{"index": position} | _call_object(call)]} for position, call in enumerate(answer.calls)]
    choices: list[JsonObject] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": answer.finish_reason})
    chunks = [head | {"choices": [choice]} for choice in choices]
    if wants_usage:
        chunks.append(head | {"choices": [], "usage": _usage(answer)})
    return b"".join(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def _head(answer: Answer, model: str, created: int, kind: str) -> JsonObject:
    return {"id": answer.id, "object": kind, "created": created, "model": model}


def _call_object(call: IssuedCall) -> JsonObject:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _usage(answer: Answer) -> JsonObject:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }
