"""The calls of one session on disk: an intent before each call, everything about it after; and the way back.

A call's prompt repeats the conversation so far, as messages and as token ids. Only what an earlier record of the file
does not hold is written, each record naming the one that it builds on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from gym_core.capture.bases import Base, Bases, Shared
from gym_core.capture.payload import NO_ARRAYS, Added, Arrays, Head, PayloadReader, PayloadWriter
from gym_core.capture.payload import Logprobs as Logprobs
from gym_core.capture.segment import SegmentWriter, read_frames
from gym_core.capture.token_table import Ids as Ids
from gym_core.types.model_call import CallOutcome, ModelCall
from gym_core.types.wire import JsonObject

CAPTURE_SUFFIX = ".calls"


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


class CallRecorder:
    """Writes one session's file. Blocking, but short: about 0.1 ms a call without large new content."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._writer = SegmentWriter(path)
        self._payloads = PayloadWriter()
        self._bases = Bases()

    def intend(self, facts: JsonObject) -> None:
        """Note that a call is about to be sent: one without a `keep` after it is reported as lost. Raises OSError."""
        self._append(Head("intent", msgspec.Raw(msgspec.json.encode(facts))), NO_ARRAYS)

    def keep(self, record: CallRecord) -> None:
        """Raises OSError; the file is then as before."""
        tokens = record.tokens
        shared = self._bases.best(record.messages, tokens.prompt_ids if tokens else None)
        tools = record.tools or b"[]"
        head = Head(
            "call",
            msgspec.Raw(msgspec.json.encode(record.facts)),
            Added(shared.n_messages, [msgspec.Raw(message) for message in record.messages[shared.n_messages :]]),
            msgspec.Raw(b"null" if tools == shared.base.tools else tools),
            n_back=shared.n_back,
        )
        arrays, ids = NO_ARRAYS, shared.base.ids
        if tokens is not None:
            n_prompt = len(tokens.prompt_ids)
            head.n_prompt_kept, head.n_prompt_added = shared.n_ids, n_prompt - shared.n_ids
            head.n_sampled = len(tokens.ids_S)
            head.n_logprobs = 0 if tokens.logprobs_S is None else len(tokens.logprobs_S)
            logprobs = NO_ARRAYS.logprobs if tokens.logprobs_S is None else tokens.logprobs_S
            ids = np.concatenate([tokens.prompt_ids, tokens.ids_S])
            arrays = Arrays(ids[shared.n_ids :], logprobs)
        self._append(head, arrays)
        self._bases.add(Base(record.messages, tools, ids), shared)

    def close(self) -> None:
        self._writer.close()

    def _append(self, head: Head, arrays: Arrays) -> None:
        payload = self._payloads.encode(head, arrays)
        try:
            self._writer.append(payload)
        except OSError:
            self._payloads.take_back()
            raise
        self._payloads.written()


def read_captured(path: Path) -> Iterator[CapturedCall]:
    """The session's calls in the order they ended, then those that were sent and never ended, as `lost`.

    O(new content) a call, but for one copy of its ids. A torn end is skipped. Raises FileNotFoundError, and
    SegmentDamaged or ValueError for damage elsewhere.
    """
    payloads, bases = PayloadReader(), Bases()
    open_intents: dict[str, JsonObject] = {}
    for frame in read_frames(path):
        head, arrays, is_first = payloads.decode(frame)
        if is_first:
            bases = Bases()
        facts = msgspec.json.decode(head.facts, type=JsonObject)
        if head.kind == "intent":
            open_intents[facts["call_id"]] = facts
            continue
        open_intents.pop(facts["call_id"], None)
        yield _restore(head, facts, arrays, bases)
    for facts in open_intents.values():
        yield CapturedCall(facts | {"outcome": CallOutcome.LOST}, (), b"[]", None)


def _restore(head: Head, facts: JsonObject, arrays: Arrays, bases: Bases) -> CapturedCall:
    """Adds to the bases what the call leaves behind."""
    added, base = head.messages or Added(0, []), bases.find(head.n_back)
    if added.keep > len(base.messages) or head.n_prompt_kept > len(base.ids):
        raise ValueError(f"call {facts['call_id']!r} builds on a record that is not there")
    messages = (*base.messages[: added.keep], *map(bytes, added.add))
    tools = base.tools if bytes(head.tools) == b"null" else bytes(head.tools)
    tokens, ids = None, base.ids
    if head.n_prompt_added >= 0:
        ids = np.concatenate([base.ids[: head.n_prompt_kept], arrays.ids])
        n_prompt = head.n_prompt_kept + head.n_prompt_added
        tokens = CallTokens(ids[:n_prompt], ids[n_prompt:], arrays.logprobs if head.n_logprobs else None)
    bases.add(Base(messages, tools, ids), Shared(head.n_back, base, added.keep, head.n_prompt_kept))
    return CapturedCall(facts, messages, tools, tokens)
