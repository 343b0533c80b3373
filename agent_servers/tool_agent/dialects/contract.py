"""Action dialects: how a model writes its calls, and how it is told what came of them. Pure.

Whatever the dialect, a call is one `ToolCall`. A form that is none, or an odd one, has a name (`Form`) and never
raises: what a model writes wrongly is told to the model.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gym_core.servers.chat import SaidMessage
from gym_core.types.responses import InputPart
from gym_core.types.tool import ToolFunction
from gym_core.types.wire import JsonObject

MAX_CALLS_A_TURN = 64
"""What a model writes past it is not read."""
MAX_ACTION_CHARS = 200_000
"""Of one block; a longer one is no call."""
RESPONSE_OPEN, RESPONSE_CLOSE = "<tool_response>", "</tool_response>"


class Form(StrEnum):
    """An odd way of writing an action. Those of a `BadCall` are told to the model, the others noted."""

    UNCLOSED = "unclosed"
    """No closing tag or fence."""
    EMPTY = "empty"
    NOT_JSON = "not_json"
    NOT_A_CALL = "not_a_call"
    """Well-formed, but without the name of a tool."""
    TOO_LONG = "too_long"
    NOT_TAKEN = "not_taken"
    """A fence that names Python and has more on its first line; told where there is no other code."""
    TOO_MANY = "too_many"
    """Calls past MAX_CALLS_A_TURN were left out."""
    SEVERAL_BLOCKS = "several_blocks"
    """Of code; the last one counts."""
    NESTED_FENCES = "nested_fences"
    """A fence inside the code; it ends at the one that makes it valid."""
    NO_TAG = "no_tag"
    """A `<function=...>` without a `<tool_call>` before it; it is a call all the same."""
    SYNTAX_ERROR = "syntax_error"
    """As this Python reads it; the code is run all the same, where it may be another Python."""
    IN_THOUGHTS = "in_thoughts"
    """Nothing was said but thoughts, and what looks like a call stands in them."""


@dataclass(frozen=True)
class ToolCall:
    """One call, in whatever dialect it was written."""

    call_id: str
    """Ours, new in the whole rollout."""
    name: str
    arguments: str
    """JSON text; whether it fits is the tool's to say."""
    endpoint_id: str | None = None
    """By which the endpoint knows it; several may have one. What goes back to the endpoint says this, and no record."""


@dataclass(frozen=True)
class BadCall:
    """What was meant as a call and is none."""

    call_id: str
    form: Form
    reason: str
    """For the model."""
    text: str
    """What it wrote."""
    endpoint_id: str | None = None


@dataclass(frozen=True)
class Action:
    """What one answer of the model asks for. Without calls it is a final answer."""

    text: str
    """What the model said beside its calls."""
    calls: tuple[ToolCall | BadCall, ...] = ()
    forms: tuple[Form, ...] = ()
    """What was odd and understood all the same."""


@dataclass(frozen=True)
class CallResult:
    call: ToolCall | BadCall
    content: tuple[InputPart, ...]


class Dialect(Protocol):
    """One way to write calls. `turn` numbers the model's answers, so that call ids are new in each."""

    def request_fields(self, functions: Sequence[ToolFunction]) -> JsonObject:
        """Fields of the request that declare the tools; {} where the system prompt does."""
        ...

    def system_text(self, functions: Sequence[ToolFunction]) -> str:
        """What the system prompt says of the tools; "" where the request declares them."""
        ...

    def read(self, said: SaidMessage, functions: Sequence[ToolFunction], *, turn: int) -> Action:
        """Never raises, and takes time in proportion to what was said."""
        ...

    def observe(self, results: Sequence[CallResult]) -> list[JsonObject]:
        """The chat messages that tell the model what came of its calls, in their order."""
        ...


def call_id(turn: int, index: int) -> str:
    return f"call_{turn}_{index}"


def encodable(text: str) -> str:
    """The text with "?" for halves of surrogate pairs, which JSON can name and no byte stream can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def json_text(value: object) -> str:
    return encodable(json.dumps(value, ensure_ascii=False))


def beside(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text without these parts of it, which are in order and do not overlap."""
    kept, at = [], 0
    for start, end in spans:
        kept.append(text[at:start].strip())
        at = end
    kept.append(text[at:].strip())
    return "\n\n".join(piece for piece in kept if piece)
