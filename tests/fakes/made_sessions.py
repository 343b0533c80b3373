"""Sessions that nobody played: what a policy said and its tools gave back, as the harness tells it and as the policy
server kept it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from gym_core.capture.images import AssetStore, make_reference
from gym_core.capture.recorder import CallRecord, CallRecorder, CallTokens, capture_path, read_captured
from gym_core.capture.sequences import join
from gym_core.types.model_call import CallOutcome
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputPart,
    InputText,
    OutputItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ReasoningText,
)
from gym_core.types.sample import SequenceSummary
from gym_core.types.session import CaptureSummary
from gym_core.types.wire import JsonObject

_STARTED_AT = 1_790_000_000.0
_SYSTEM = "You are a coding agent."
_INTENT = ("call_id", "session_id", "index", "sent_at")
_IMAGE_TOKENS = 64
_IMAGE_TOKEN_ID = 7


@dataclass(frozen=True)
class MadeTurn:
    """One answer of the model and what its tool gave back."""

    text: str = ""
    tool: str = ""
    """Name of the tool that it calls; "" for none."""
    arguments: JsonObject | str = ""
    """A text stays as it is, JSON or not."""
    output: str = ""
    pictures: Sequence[bytes] = ()
    """That the tool returns."""
    reasoning: str = ""
    call_s: float = 1.0
    tool_s: float = 0.4

    @property
    def arguments_text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass
class MadeSession:
    """A prompt and its turns. `assets` gets the pictures as soon as `transcript` or `calls` needs them."""

    session_id: str
    question: str
    pictures: Sequence[bytes]
    """Of the task."""
    turns: Sequence[MadeTurn]
    assets: AssetStore
    started_at: float = _STARTED_AT
    has_token_ids: bool = False
    drifts_at: frozenset[int] = frozenset()
    """Calls whose prompt does not go on from what was sampled before. Needs token ids."""
    _references: dict[int, str] = field(default_factory=dict)

    def transcript(self) -> list[OutputItem]:
        items: list[OutputItem] = []
        for number, turn in enumerate(self.turns):
            if turn.reasoning:
                items.append(ReasoningItem(id=f"rs_{number}", content=[ReasoningText(text=turn.reasoning)]))
            if turn.text:
                items.append(OutputMessage(id=f"msg_{number}", content=[OutputText(text=turn.text)]))
            if turn.tool:
                call_id = f"call_{number}"
                items.append(FunctionCall(call_id=call_id, name=turn.tool, arguments=turn.arguments_text))
                items.append(FunctionCallOutput(call_id=call_id, output=self._output(turn)))
        return items

    def _output(self, turn: MadeTurn) -> str | list[InputPart]:
        images = [InputImage(image_url=self._reference(picture)) for picture in turn.pictures]
        return [InputText(text=turn.output), *images] if images else turn.output

    def keep_calls(self, captures: Path, n_calls: int | None = None) -> tuple[CaptureSummary, SequenceSummary | None]:
        """Write the first ones, or all, as the policy server does, and say what it says of a session of all of them.

        Those that are in its file already stay.
        """
        path = capture_path(captures, self.session_id)
        known = sum(1 for _ in read_captured(path)) if path.exists() else 0
        recorder = CallRecorder(path)
        records = list(self.calls())
        for record in records[known:n_calls]:
            recorder.intend({name: record.facts[name] for name in _INTENT})
            recorder.keep(record)
        recorder.close()
        sequences = join(read_captured(path)).summary if self.has_token_ids else None
        return self._summary(records), sequences

    def calls(self) -> Iterator[CallRecord]:
        """The prompt of each repeats the conversation so far."""
        messages = [_encoded("system", _SYSTEM), self._user(self.question, self.pictures)]
        shown = [self._sha256(picture) for picture in self.pictures]
        known, tokens, at = 0, _Tokens(), self.started_at
        tokens.add(_SYSTEM + self.question, len(shown))
        for number, turn in enumerate(self.turns):
            facts = self._facts(number, turn, at, shown, known)
            sampled = tokens.sample(turn.text + turn.reasoning + turn.arguments_text)
            facts["answer"] |= {"input_tokens": len(sampled.prompt_ids), "output_tokens": len(sampled.ids_S)}
            yield CallRecord(facts, list(messages), b"[]", sampled if self.has_token_ids else None)
            known, at = len(shown), at + turn.call_s + turn.tool_s
            messages += self._answered(number, turn)
            shown += [self._sha256(picture) for picture in turn.pictures]
            if number + 1 in self.drifts_at:
                tokens.drift()
            tokens.add(turn.output, len(turn.pictures))

    def _answered(self, number: int, turn: MadeTurn) -> list[bytes]:
        spelled = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": turn.tool, "arguments": turn.arguments_text},
            }
        ]
        answer = {"role": "assistant", "content": turn.text} | ({"tool_calls": spelled} if turn.tool else {})
        messages = [msgspec.json.encode(answer)]
        if turn.tool:
            messages.append(_encoded("tool", turn.output, tool_call_id=f"call_{number}"))
        if turn.pictures:
            messages.append(self._user("Attached media from tool result:", turn.pictures))
        return messages

    def _facts(self, number: int, turn: MadeTurn, at: float, shown: list[str], known: int) -> JsonObject:
        calls = [{"id": f"call_{number}", "name": turn.tool, "arguments": turn.arguments_text}] if turn.tool else []
        return {
            "call_id": f"mc_{number:032x}",
            "session_id": self.session_id,
            "index": number,
            "sent_at": at,
            "outcome": CallOutcome.ANSWERED,
            "sampling": {"model": "made", "temperature": 1.0, "max_tokens": 32768},
            "images": list(shown),
            "images_added": shown[known:],
            "answer": {
                "content": turn.text,
                "reasoning": turn.reasoning,
                "tool_calls": calls,
                "finish_reason": "tool_calls" if turn.tool else "stop",
            },
            "endpoint_status": 200,
            "attempts": 1,
            "endpoint": 0,
            "timings": {"queued_s": 0.0, "first_byte_s": turn.call_s / 3, "total_s": turn.call_s},
            "notes": [],
            "gaps": [] if self.has_token_ids else ["no_prompt_ids", "ids_not_usage"],
        }

    def _summary(self, records: Sequence[CallRecord]) -> CaptureSummary:
        answers = [record.facts["answer"] for record in records]
        seen = [sha256 for record in records for sha256 in record.facts["images_added"]]
        return CaptureSummary(
            session_id=self.session_id,
            calls=len(records),
            first_call_at=self.started_at,
            last_finish_reason=answers[-1]["finish_reason"] if answers else None,
            tool_calls=sum(bool(turn.tool) for turn in self.turns),
            input_tokens=sum(answer["input_tokens"] for answer in answers),
            output_tokens=sum(answer["output_tokens"] for answer in answers),
            model_seconds=self.model_s,
            images=list(dict.fromkeys(seen)),
            has_token_ids=self.has_token_ids,
            has_logprobs=self.has_token_ids,
        )

    @property
    def model_s(self) -> float:
        return sum(turn.call_s for turn in self.turns)

    @property
    def seconds(self) -> float:
        return self.model_s + sum(turn.tool_s for turn in self.turns)

    def _user(self, text: str, pictures: Sequence[bytes]) -> bytes:
        images = [{"type": "image_url", "image_url": {"url": self._reference(picture)}} for picture in pictures]
        return msgspec.json.encode({"role": "user", "content": [{"type": "text", "text": text}, *images]})

    def _reference(self, picture: bytes) -> str:
        """Each picture is hashed and written once: a session shows the same one in every call."""
        if id(picture) not in self._references:
            self._references[id(picture)] = make_reference(self.assets.put(picture))
        return self._references[id(picture)]

    def _sha256(self, picture: bytes) -> str:
        return self._reference(picture).removeprefix("sha256:")


def _encoded(role: str, text: str, **more: str) -> bytes:
    return msgspec.json.encode({"role": role, **more, "content": text})


class _Tokens:
    """The conversation in tokens: one for four characters of text."""

    def __init__(self) -> None:
        self._ids: list[int] = []

    def add(self, text: str, n_images: int) -> None:
        self._ids += [1, *_ids_of(text)]
        for _ in range(n_images):
            self._ids += [2, *[_IMAGE_TOKEN_ID] * _IMAGE_TOKENS, 3]

    def sample(self, text: str) -> CallTokens:
        sampled = [*_ids_of(text), 4]
        prompt = np.array(self._ids, np.int32)
        self._ids += sampled
        logprobs = -1 / (np.arange(len(sampled), dtype=np.float32) + 2)
        return CallTokens(prompt, np.array(sampled, np.int32), logprobs.astype(np.float32))

    def drift(self) -> None:
        """The end of what was sampled is written in other tokens."""
        self._ids[-3:] = [9, 9, 9, 4]


def _ids_of(text: str) -> list[int]:
    """At most 2,000, whatever the text: long ones would tell nothing more."""
    return [100 + ord(character) % 5000 for character in text[:8000:4]]
