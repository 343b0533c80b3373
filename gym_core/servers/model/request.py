"""A chat-completions body from a stranger: its envelope, and the body that goes to the endpoint instead.

Only fields listed here pass. The last of two equal keys wins, as in every JSON reader behind us, and our own fields are
set after, so that a client can neither switch the capture off nor reach an engine's switches. Messages and tools travel
as the bytes they came in.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
from msgspec import Raw

from gym_core.servers.model.refusal import bad_request
from gym_core.types.session import Sampling
from gym_core.types.wire import JsonObject

CHAT_PATH = "/chat/completions"
MAX_UNCOUNTED_BYTES = 4 << 20
MAX_COMMAS = 2_000_000
"""In a larger body: each message object costs a hundred bytes of memory while it is read."""
MAX_MESSAGES = 20_000
_LONG_BYTES = 32 << 10
_ABSENT = Raw(b"")
_FULL_LIST = re.compile(rb"\[\s*[^\s\]]")
_UNKNOWN_FIELD = re.compile(r"unknown field `([A-Za-z0-9_.-]{1,40})`")


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class Envelope(msgspec.Struct, forbid_unknown_fields=True):
    """The top level of a body. Sampling fields stay raw: the endpoint judges their values."""

    messages: list[Raw]
    model: Raw = _ABSENT
    tools: Raw = _ABSENT
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    return_token_ids: bool | None = None
    tool_choice: Raw = _ABSENT
    parallel_tool_calls: Raw = _ABSENT
    temperature: Raw = _ABSENT
    top_p: Raw = _ABSENT
    top_k: Raw = _ABSENT
    min_p: Raw = _ABSENT
    presence_penalty: Raw = _ABSENT
    frequency_penalty: Raw = _ABSENT
    repetition_penalty: Raw = _ABSENT
    seed: Raw = _ABSENT
    stop: Raw = _ABSENT
    response_format: Raw = _ABSENT
    reasoning_effort: Raw = _ABSENT

    @property
    def has_tools(self) -> bool:
        return _FULL_LIST.match(memoryview(self.tools)) is not None

    @property
    def wants_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def asked_tokens(self) -> int | None:
        asked = self.max_completion_tokens or self.max_tokens
        return asked if asked and asked > 0 else None


class _LenientEnvelope(Envelope, forbid_unknown_fields=False):
    pass


PASSED_FIELDS = (
    "tool_choice", "parallel_tool_calls", "temperature", "top_p", "top_k", "min_p", "presence_penalty",
    "frequency_penalty", "repetition_penalty", "seed", "stop", "response_format", "reasoning_effort",
)  # fmt: skip
"""What a client may say about sampling; everything else in a body is ours to set."""

_STRICT = msgspec.json.Decoder(Envelope)
_LENIENT = msgspec.json.Decoder(_LenientEnvelope)


def parse(body: bytes) -> tuple[Envelope, str | None]:
    """The envelope, and the first field that was dropped. Raises Refusal."""
    if len(body) > MAX_UNCOUNTED_BYTES and body.count(b",") > MAX_COMMAS:
        raise bad_request(f"the body has more than {MAX_COMMAS} commas")
    dropped = None
    try:
        try:
            envelope = _STRICT.decode(body)
        except msgspec.ValidationError as error:
            if "unknown field" not in str(error):
                raise
            found = _UNKNOWN_FIELD.search(str(error))
            dropped = found[1] if found else "unprintable"
            envelope = _LENIENT.decode(body)
    except RecursionError as error:
        raise bad_request("the body is nested too deeply") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise bad_request(f"not a chat-completions body: {error}"[:300]) from error
    for name in ("tools", *PASSED_FIELDS):
        try:
            str(getattr(envelope, name), "utf-8")
        except UnicodeDecodeError as error:
            raise bad_request(f"{name}: not UTF-8") from error
    if not envelope.messages:
        raise bad_request("messages: at least one is needed")
    if len(envelope.messages) > MAX_MESSAGES:
        raise bad_request(f"messages: more than {MAX_MESSAGES}")
    return envelope, dropped


@dataclass(frozen=True)
class Shape:
    """What this server sets on every body, whatever the client says."""

    model: str
    max_output_tokens: int
    overrides: JsonObject = field(default_factory=dict)
    """Sampling that is pinned."""
    extra: JsonObject = field(default_factory=dict)
    """Fields from the server's own config."""

    def for_session(self, sampling: Sampling) -> "Shape":
        """With a session's sampling pinned too; what the server's config pins stays."""
        said = sampling.model_dump(exclude_none=True)
        most = min(self.max_output_tokens, said.pop("max_output_tokens", self.max_output_tokens))
        return replace(self, max_output_tokens=most, overrides=said | self.overrides)


@dataclass(frozen=True)
class ShapedBody:
    """A body towards the endpoint, still in parts: an attempt may have to leave one out or shrink one."""

    fields: Mapping[str, object]
    max_tokens: int | None
    token_field: str
    """"max_tokens" or "max_completion_tokens", as the client said it."""
    path: str = CHAT_PATH
    """Where it goes, below an endpoint's base URL; a token route as `Endpoint.at` knows it."""

    def encode(self) -> list[bytes | memoryview]:
        """JSON in pieces: a long message, which holds pictures, is sent from where it lies."""
        fields = dict(self.fields)
        if self.max_tokens is not None:
            fields[self.token_field] = self.max_tokens
        messages = fields.get("messages")
        if not isinstance(messages, list):
            return [msgspec.json.encode(fields)]
        del fields["messages"]
        pieces: list[bytes | memoryview] = []
        text = bytearray(msgspec.json.encode(fields | {"messages": []})[: -len("]}")])
        for place, message in enumerate(messages):
            view = memoryview(message if isinstance(message, Raw) else msgspec.json.encode(message))
            text += b"," if place else b""
            if len(view) < _LONG_BYTES:
                text += view
            else:
                pieces += [bytes(text), view]
                text.clear()
        return [*pieces, bytes(text + b"]}")]

    def narrowed(self, without: frozenset[str], token_field: str | None) -> "ShapedBody":
        """For an endpoint that does not take some of it."""
        fields = {name: value for name, value in self.fields.items() if name not in without}
        return replace(self, fields=fields, token_field=token_field or self.token_field)

    def with_max_tokens(self, max_tokens: int | None) -> "ShapedBody":
        return replace(self, max_tokens=max_tokens)

    @property
    def sampling(self) -> JsonObject:
        """Everything but the conversation, for the record."""
        said = {name: value for name, value in self.fields.items() if name not in ("messages", "tools")}
        decoded: JsonObject = msgspec.json.decode(msgspec.json.encode(said))
        return decoded | ({self.token_field: self.max_tokens} if self.max_tokens is not None else {})


def shape(envelope: Envelope, messages: list[Raw], shape_: Shape, ours: dict[str, object]) -> ShapedBody:
    """The body for the endpoint: the client's conversation and sampling, the server's pins, then `ours` on top."""
    fields: dict[str, object] = {"model": shape_.model, "messages": messages}
    if envelope.has_tools:
        fields["tools"] = envelope.tools
    for name in PASSED_FIELDS:
        value = getattr(envelope, name)
        if value is not _ABSENT:
            fields[name] = value
    if not envelope.has_tools:
        fields.pop("tool_choice", None)
        fields.pop("parallel_tool_calls", None)
    fields |= shape_.overrides | shape_.extra | ours
    max_tokens = min(envelope.asked_tokens or shape_.max_output_tokens, shape_.max_output_tokens)
    token_field = "max_completion_tokens" if envelope.max_completion_tokens else "max_tokens"
    for name in ("max_tokens", "max_completion_tokens"):
        pinned = fields.pop(name, None)
        if isinstance(pinned, int):
            max_tokens, token_field = pinned, name
    return ShapedBody(fields, max_tokens, token_field)
