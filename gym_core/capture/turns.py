"""What one message of a conversation says, whatever way it is written.

Two messages are one turn when they say the same: content null, "" or absent, a string or a list with one text part,
tool arguments with other white space or key order. Pictures count by their SHA-256. Reasoning does not count: chat
templates and harnesses drop it. White space of a text does.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import Raw

from gym_core.capture.images import REFERENCE_PREFIX, parse_data_url
from gym_core.types.model_call import CallAnswer

_DIGEST_BYTES = 16
_MAX_EXACT = 2**53
"""Whole numbers below it are exact in JavaScript."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one message says."""

    key: bytes
    """Digest; equal for messages that say the same."""
    role: str
    """"" for a message that could not be read: its key is of its bytes."""
    text: str = ""
    """Its text parts, joined."""
    reasoning: str = ""
    """Not in `key`."""
    images: tuple[str, ...] = ()
    """SHA-256, in order."""
    calls_tools: bool = False


class _ImageUrl(msgspec.Struct, gc=False):
    url: str
    detail: str | None = None


class _Part(msgspec.Struct, gc=False):
    type: Literal["text", "image_url", "refusal"]
    text: str | None = None
    refusal: str | None = None
    image_url: _ImageUrl | None = None


class _Function(msgspec.Struct, gc=False):
    name: str
    arguments: str = ""


class _ToolCall(msgspec.Struct, gc=False):
    function: _Function
    id: str = ""


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | list[_Part] | None = None
    name: str | None = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning: Raw = Raw(b"null")
    reasoning_content: Raw = Raw(b"null")


class _Role(msgspec.Struct, gc=False):
    role: str = ""


def _number(text: str) -> int | float:
    """JavaScript harnesses write 1.0 as 1 and 6e4 as 60000."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < _MAX_EXACT else value


_MESSAGE = msgspec.json.Decoder(_Message)
_ROLE = msgspec.json.Decoder(_Role)
_ARGUMENTS = msgspec.json.Decoder(float_hook=_number)
_CANONICAL = msgspec.json.Encoder(order="sorted")


def read_turn(raw: bytes) -> Turn:
    """The turn that a message's JSON makes. Never raises: what cannot be read is equal to nothing but itself."""
    try:
        message = _MESSAGE.decode(raw)
        parts = _parts_of(message.content)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        return Turn(_digest(b"raw:" + raw), _role_of(raw))
    if message.refusal:
        parts.append(("refusal", message.refusal, ""))
    calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    return Turn(
        _key(message.role, parts, calls, (message.name or "", message.tool_call_id or "")),
        message.role,
        "".join(text for kind, text, _ in parts if kind == "text"),
        _string(message.reasoning) or _string(message.reasoning_content),
        tuple(name for kind, name, _ in parts if kind == "image"),
        bool(calls),
    )


def answer_turn(answer: CallAnswer) -> Turn:
    """The turn that an answer makes when a harness sends it back."""
    parts = [("text", answer.content, "")] if answer.content else []
    calls = [(call.id, call.name, call.arguments) for call in answer.tool_calls]
    key = _key("assistant", parts, calls, ("", ""))
    return Turn(key, "assistant", answer.content, answer.reasoning, calls_tools=bool(calls))


def _key(
    role: str,
    parts: Sequence[tuple[str, str, str]],
    calls: Sequence[tuple[str, str, str]],
    names: tuple[str, str],
) -> bytes:
    canonical_calls = [(call_id, name, _canonical(arguments)) for call_id, name, arguments in calls]
    return _digest(msgspec.json.encode((role, parts, canonical_calls, names)))


def _parts_of(content: str | list[_Part] | None) -> list[tuple[str, str, str]]:
    """(kind, text or SHA-256, detail); empty texts say nothing and are left out. Raises ValueError."""
    if not content:
        return []
    if isinstance(content, str):
        return [("text", content, "")]
    parts = []
    for part in content:
        if part.image_url is not None:
            detail = part.image_url.detail or ""
            parts.append(("image", _image_hash(part.image_url.url), "" if detail == "auto" else detail))
        elif part.text or part.refusal:
            parts.append((part.type, part.text or part.refusal or "", ""))
    return parts


def _image_hash(url: str) -> str:
    if url.startswith(REFERENCE_PREFIX):
        return url.removeprefix(REFERENCE_PREFIX)
    return hashlib.sha256(parse_data_url(url)).hexdigest()


def _canonical(arguments: str) -> str:
    try:
        return "json:" + _CANONICAL.encode(_ARGUMENTS.decode(arguments or "{}")).decode()
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return "text:" + arguments


def _string(raw: Raw) -> str:
    value = bytes(raw)
    return str(msgspec.json.decode(value)) if value[:1] == b'"' else ""


def _role_of(raw: bytes) -> str:
    try:
        return _ROLE.decode(raw).role
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
