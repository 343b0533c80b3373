"""The calls of one session on disk: an intent before each call, everything about it after; and the way back.

A call's prompt repeats the conversation so far, as messages and as token ids. Only what the previous record of the file
does not hold is written: 27 times less for a long session.

Payload: zstd of (uint32 length of head, head as JSON, prompt ids added int32, sampled ids int32, log-probabilities
float32), all little-endian.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import zstandard

from gym_core.capture.segment import SegmentWriter, read_frames
from gym_core.types.model_call import CallOutcome, ModelCall
from gym_core.types.wire import JsonObject

CAPTURE_SUFFIX = ".calls"
_ZSTD_LEVEL = 3
_MAX_PAYLOAD_BYTES = 1 << 30
_LENGTH = struct.Struct("<I")

Ids = npt.NDArray[np.int32]
Logprobs = npt.NDArray[np.float32]


def capture_path(captures_dir: Path, session_id: str) -> Path:
    return captures_dir / (session_id + CAPTURE_SUFFIX)


@dataclass(frozen=True)
class CallTokens:
    """Token part of one call. Whole only when the call's `gaps` are []: else it is what came, for the record alone.

    `logprobs_S` then has one entry per sampled token.
    """

    prompt_ids: Ids
    ids_S: Ids
    logprobs_S: Logprobs | None


@dataclass(frozen=True)
class CallRecord:
    """One finished call, on its way to disk."""

    facts: JsonObject
    """The fields of `ModelCall` but for the conversation and the tokens."""
    messages: Sequence[bytes]
    """JSON of each message, images as references."""
    tools: bytes
    """JSON list, b"" for none."""
    tokens: CallTokens | None


@dataclass(frozen=True)
class CapturedCall:
    """One call as it is read back, lean: messages that calls share are one object, token ids are arrays."""

    facts: JsonObject
    """The fields of `ModelCall` but for the conversation and the tokens."""
    messages: tuple[bytes, ...]
    tools: bytes
    """JSON list."""
    tokens: CallTokens | None

    def as_model_call(self) -> ModelCall:
        fields: JsonObject = {
            "messages": [msgspec.json.decode(message) for message in self.messages],
            "tools": msgspec.json.decode(self.tools),
        }
        if self.tokens is not None:
            fields |= {"prompt_token_ids": self.tokens.prompt_ids.tolist(), "token_ids": self.tokens.ids_S.tolist()}
            if self.tokens.logprobs_S is not None:
                fields["logprobs"] = self.tokens.logprobs_S.tolist()
        return ModelCall.model_validate(self.facts | fields)


class _Added(msgspec.Struct):
    """What a record adds to the one before it in the file."""

    keep: int
    add: list[msgspec.Raw]


class _Head(msgspec.Struct, omit_defaults=True):
    kind: str
    """"intent" or "call"."""
    facts: msgspec.Raw
    messages: _Added | None = None
    tools: msgspec.Raw = msgspec.Raw(b"null")
    """null means as in the record before."""
    n_prompt_kept: int = 0
    n_prompt_added: int = -1
    """-1 means no token ids."""
    n_sampled: int = 0
    n_logprobs: int = 0


@dataclass
class _Previous:
    """What the last record of the file leaves behind for the next one to build on."""

    messages: Sequence[bytes] = ()
    tools: bytes = b""
    """b"" equals no record's, so the first record of a writer always names its tools."""
    ids: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    """Prompt and sampled ids."""


class CallRecorder:
    """Writes one session's file. Blocking, but short: about 0.1 ms a call without large new content."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._writer = SegmentWriter(path)
        self._previous = _Previous()
        self._compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)

    def intend(self, facts: JsonObject) -> None:
        """Note that a call is about to be sent: one without a `keep` after it is reported as lost."""
        self._append(_Head("intent", msgspec.Raw(msgspec.json.encode(facts))), b"")

    def keep(self, record: CallRecord) -> None:
        """Raises OSError; the file is then as before."""
        previous = self._previous
        n_same = _common_prefix(previous.messages, record.messages)
        tools = record.tools or b"[]"
        head = _Head(
            "call",
            msgspec.Raw(msgspec.json.encode(record.facts)),
            _Added(n_same, [msgspec.Raw(message) for message in record.messages[n_same:]]),
            msgspec.Raw(b"null" if tools == previous.tools else tools),
        )
        arrays = b""
        ids = previous.ids
        if record.tokens is not None:
            arrays, ids = _pack_tokens(head, record.tokens, previous.ids)
        self._append(head, arrays)
        self._previous = _Previous(record.messages, tools, ids)

    def close(self) -> None:
        self._writer.close()

    def _append(self, head: _Head, arrays: bytes) -> None:
        encoded = msgspec.json.encode(head)
        self._writer.append(self._compressor.compress(_LENGTH.pack(len(encoded)) + encoded + arrays))


def _pack_tokens(head: _Head, tokens: CallTokens, seen: Ids) -> tuple[bytes, Ids]:
    n_same = _common_ids(seen, tokens.prompt_ids)
    added = tokens.prompt_ids[n_same:]
    head.n_prompt_kept, head.n_prompt_added, head.n_sampled = n_same, len(added), len(tokens.ids_S)
    arrays = [added.tobytes(), tokens.ids_S.tobytes()]
    if tokens.logprobs_S is not None:
        head.n_logprobs = len(tokens.logprobs_S)
        arrays.append(tokens.logprobs_S.tobytes())
    return b"".join(arrays), np.concatenate([tokens.prompt_ids, tokens.ids_S])


def _common_prefix(a: Sequence[bytes], b: Sequence[bytes]) -> int:
    n = 0
    for left, right in zip(a, b, strict=False):
        if left is not right and left != right:
            break
        n += 1
    return n


def _common_ids(a: Ids, b: Ids) -> int:
    n = min(len(a), len(b))
    differs = a[:n] != b[:n]
    return int(differs.argmax()) if differs.any() else n


def read_calls(path: Path) -> Iterator[ModelCall]:
    """The session's calls in the order they ended, then those that were sent and never ended, as `lost`.

    A torn end is skipped. Raises FileNotFoundError, and SegmentDamaged or ValueError for damage elsewhere.
    """
    return (call.as_model_call() for call in read_captured(path))


def read_captured(path: Path) -> Iterator[CapturedCall]:
    """As `read_calls`, without decoding the conversations: O(new content) a call, but for one copy of its ids."""
    previous = _Previous()
    open_intents: dict[str, JsonObject] = {}
    decompressor = zstandard.ZstdDecompressor()
    for frame in read_frames(path):
        payload = decompressor.decompress(frame, max_output_size=_MAX_PAYLOAD_BYTES)
        (n_head,) = _LENGTH.unpack_from(payload)
        head = msgspec.json.decode(payload[_LENGTH.size : _LENGTH.size + n_head], type=_Head)
        facts = msgspec.json.decode(head.facts, type=JsonObject)
        if head.kind == "intent":
            open_intents[facts["call_id"]] = facts
            continue
        open_intents.pop(facts["call_id"], None)
        call, previous = _restore(head, facts, payload[_LENGTH.size + n_head :], previous)
        yield call
    for facts in open_intents.values():
        yield CapturedCall(facts | {"outcome": CallOutcome.LOST}, (), b"[]", None)


def _restore(head: _Head, facts: JsonObject, arrays: bytes, previous: _Previous) -> tuple[CapturedCall, _Previous]:
    added = head.messages or _Added(0, [])
    if added.keep > len(previous.messages) or head.n_prompt_kept > len(previous.ids):
        raise ValueError(f"call {facts['call_id']!r} builds on a record that is not there")
    messages = (*previous.messages[: added.keep], *map(bytes, added.add))
    tools = previous.tools if bytes(head.tools) == b"null" else bytes(head.tools)
    tokens, ids = None, previous.ids
    if head.n_prompt_added >= 0:
        prompt = np.concatenate([ids[: head.n_prompt_kept], np.frombuffer(arrays, "<i4", head.n_prompt_added)])
        sampled = np.frombuffer(arrays, "<i4", head.n_sampled, 4 * head.n_prompt_added)
        ids = np.concatenate([prompt, sampled])
        offset = 4 * (head.n_prompt_added + head.n_sampled)
        logprobs = np.frombuffer(arrays, "<f4", head.n_logprobs, offset) if head.n_logprobs else None
        tokens = CallTokens(prompt, sampled, logprobs)
    return CapturedCall(facts, messages, tools, tokens), _Previous(messages, tools, ids)
