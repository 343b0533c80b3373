"""The messages of a chat request, read once each: what may be sent on, what is kept, and which images they hold.

A conversation comes back whole with every call, so a session remembers each message it has read. A message leaves this
module byte for byte as it came, unless a harness re-serialised a tool call that this server had issued.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gym_core.capture.images import make_reference, parse_data_url, sniff_media_type
from gym_core.servers.model.refusal import Refusal, bad_request

MAX_REMEMBERED_MESSAGES = 20_000
MAX_REMEMBERED_BYTES = 64 << 20
_NEEDLE_BYTES = 128


class _ImageUrl(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    url: Raw
    detail: str | None = None


class _Part(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Only what we know: engines act on further fields (a `uuid` names an image in a cache that all sessions share)."""

    type: Literal["text", "image_url", "refusal"]
    text: Raw = Raw(b"")
    refusal: Raw = Raw(b"")
    image_url: _ImageUrl | UnsetType = UNSET
    cache_control: Raw = Raw(b"")


class _Function(msgspec.Struct, gc=False):
    name: str
    arguments: str = ""


class _ToolCall(msgspec.Struct, gc=False):
    function: _Function
    id: str = ""
    type: str = "function"


class _Message(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Raw = Raw(b"null")
    name: Raw = Raw(b"")
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: Raw = Raw(b"")
    reasoning: Raw = Raw(b"")
    reasoning_content: Raw = Raw(b"")
    refusal: Raw = Raw(b"")
    annotations: Raw = Raw(b"")
    audio: None = None
    function_call: None = None


_MESSAGE = msgspec.json.Decoder(_Message)
_PARTS = msgspec.json.Decoder(list[_Part])
_URL = msgspec.json.Decoder(str)


@dataclass(frozen=True)
class IssuedCall:
    """A tool call as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ReadMessage:
    kept: bytes
    """JSON for the record: images are references."""
    images: tuple[str, ...] = ()
    """SHA-256, in order."""
    url_heads: tuple[str, ...] = ()
    """What stood before the base64 text of each; "" for the type that its bytes are."""
    rewritten: bytes | None = None
    """JSON towards the endpoint; None means the message goes as it came."""
    role: str = "user"


KeepImage = Callable[[bytes], str]
"""Image bytes to their SHA-256; keeps them somewhere or not."""


def only_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_message(raw: bytes, issued: Mapping[str, IssuedCall], keep_image: KeepImage) -> ReadMessage:
    """Raises Refusal for what no endpoint may be sent."""
    try:
        str(raw, "utf-8")
        message = _MESSAGE.decode(raw)
        content = bytes(message.content)
        parts = _PARTS.decode(content) if content[:1] == b"[" else []
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise bad_request(f"messages: {error}"[:300]) from error
    if content[:1] not in (b'"', b"n", b"["):
        raise bad_request("messages: content is a string, a list of parts or null")
    rewritten = _restored(raw, message.tool_calls or (), issued)
    kept = raw if rewritten is None else rewritten
    images, heads = [], []
    for part in parts:
        if isinstance(part.image_url, _ImageUrl):
            url = bytes(part.image_url.url)
            image, head = _image(url)
            images.append(keep_image(image))
            heads.append(head)
            kept = _replaced(kept, url, b'"' + make_reference(images[-1]).encode() + b'"')
    return ReadMessage(kept, tuple(images), tuple(heads), rewritten, message.role)


def _replaced(text: bytes, old: bytes, new: bytes) -> bytes:
    """`text.replace(old, new)`, for an `old` that is most of the text.

    Searched by its beginning: the built-in first studies the whole needle, a millisecond for a picture of 300 KB.
    """
    beginning, pieces, done = old[:_NEEDLE_BYTES], [], 0
    at = text.find(beginning)
    while at >= 0:
        is_old = text.startswith(old, at)
        if is_old:
            pieces += [text[done:at], new]
            done = at + len(old)
        at = text.find(beginning, done if is_old else at + 1)
    return b"".join([*pieces, text[done:]])


def _image(url_json: bytes) -> tuple[bytes, str]:
    """Its bytes, and its URL's head where they do not tell it."""
    try:
        url = _URL.decode(url_json)
        content = parse_data_url(url)
        head = url[: url.index(",") + 1]
        return content, "" if head == f"data:{sniff_media_type(content)};base64," else head
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise Refusal(400, "image_not_allowed", f"images must be base64 `data:` URLs; {error}"[:300]) from error


def _restored(raw: bytes, calls: Sequence[_ToolCall], issued: Mapping[str, IssuedCall]) -> bytes | None:
    """The message with each tool call of ours spelled as the model spelled it; None when nothing differs."""
    differs = False
    for call in calls:
        original = issued.get(call.id)
        if original is not None and _is_object(original.arguments):
            spelled = _Function(original.name, original.arguments)
            differs = differs or call.function != spelled
            call.function = spelled
    if not differs:
        return None
    fields = msgspec.json.decode(raw, type=dict[str, Raw])
    fields["tool_calls"] = Raw(msgspec.json.encode(calls))
    return msgspec.json.encode(fields)


def _is_object(arguments: str) -> bool:
    """Chat templates parse the arguments: an endpoint would refuse a history with ones that are no JSON object."""
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.MsgspecError, RecursionError):
        return False


@dataclass
class MessageMemory:
    """What a session has read. Bounded: past its limits it starts again, which costs time and nothing else."""

    keep_image: KeepImage
    issued: dict[str, IssuedCall] = field(default_factory=dict)
    _seen: dict[tuple[int, int], ReadMessage] = field(default_factory=dict)
    _bytes: int = 0

    def recall(self, raw: bytes) -> ReadMessage | None:
        """Costs a hash: a quarter of a millisecond a megabyte."""
        # hash() of bytes is SipHash under a secret of this process: 4 GB/s, and nobody outside can aim at a collision.
        return self._seen.get((len(raw), hash(raw)))

    def read(self, raw: bytes, known_as: bytes | None = None) -> ReadMessage:
        """`known_as` is how it will be recalled, when that is not as it is."""
        known_as = raw if known_as is None else known_as
        message = read_message(raw, self.issued, self.keep_image)
        if len(self._seen) >= MAX_REMEMBERED_MESSAGES or self._bytes > MAX_REMEMBERED_BYTES:
            self._seen.clear()
            self._bytes = 0
        self._seen[len(known_as), hash(known_as)] = message
        self._bytes += len(message.kept)
        return message
