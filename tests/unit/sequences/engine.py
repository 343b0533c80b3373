"""An engine of a few lines whose tokens can be read: a character is a token, and a picture is a run of placeholders.

It renders a conversation as a chat template would, and samples an answer as a policy might: in other tokens than its
own tokenizer would make of the text (a pair of letters in one token), with reasoning, or cut short.
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gym_core.capture.recorder import CallTokens, CapturedCall
from gym_core.types.wire import JsonObject

SYSTEM, USER, ASSISTANT, TOOL, END, VISION_START, VISION_END, PAD = range(1, 9)
ROLES = {"system": SYSTEM, "user": USER, "assistant": ASSISTANT, "tool": TOOL}
_LETTER, _PAIR = 100, 1_000_000
PADS = 4
"""Placeholders of every picture: all are of one size."""


def spell(text: str) -> list[int]:
    return [_LETTER + ord(letter) for letter in text]


def spell_in_pairs(text: str) -> list[int]:
    """The same text in fewer tokens: every ninth letter and the next are one token."""
    ids = []
    for at in range(0, len(text), 9):
        first = text[at : at + 2]
        ids += [_PAIR + ord(first[0]) * 1000 + ord(first[1])] if len(first) == 2 else spell(first)
        ids += spell(text[at + 2 : at + 9])
    return ids


def decode(ids: Sequence[int]) -> str:
    return "".join(_text_of(token) for token in ids)


def _text_of(token: int) -> str:
    if token >= _PAIR:
        return chr((token - _PAIR) // 1000) + chr((token - _PAIR) % 1000)
    return chr(token - _LETTER) if token >= _LETTER else f"<{token}>"


def picture(name: str) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": f"sha256:{digest(name)}"}}


def digest(name: str) -> str:
    return f"{zlib.crc32(name.encode()):08x}" * 8


def user(*parts: str | JsonObject) -> JsonObject:
    return {
        "role": "user",
        "content": [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts],
    }


def system(text: str) -> JsonObject:
    return {"role": "system", "content": text}


def result(call_id: str, text: str) -> JsonObject:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


@dataclass(frozen=True)
class Said:
    """An answer, and how it was sampled."""

    content: str = ""
    reasoning: str = ""
    tool_ids: tuple[str, ...] = ()
    in_pairs: bool = False
    ends: bool = True
    """False for one that was cut by a limit: no END."""
    argument: str = "1"

    def calls(self) -> list[JsonObject]:
        return [
            {"id": name, "type": "function", "function": {"name": "look", "arguments": f'{{"at": {self.argument}}}'}}
            for name in self.tool_ids
        ]

    def echo(self, **changes: object) -> JsonObject:
        """As a harness sends it back."""
        message: JsonObject = {"role": "assistant", "content": self.content or None, "reasoning": self.reasoning}
        return message | ({"tool_calls": self.calls()} if self.tool_ids else {}) | changes

    def answer(self) -> JsonObject:
        calls = [{"id": c["id"]} | c["function"] for c in self.calls()]
        n = len(self.sampled())
        return {
            "content": self.content, "reasoning": self.reasoning, "tool_calls": calls,
            "finish_reason": "stop" if self.ends else "length", "input_tokens": 1, "output_tokens": n,
        }  # fmt: skip

    def sampled(self) -> list[int]:
        spelled = spell_in_pairs if self.in_pairs else spell
        return spelled(_said_text(self.reasoning, self.content, self.calls())) + ([END] if self.ends else [])


def _said_text(reasoning: str, content: str, calls: Sequence[JsonObject]) -> str:
    thought = f"[{reasoning}]" if reasoning else ""
    return thought + content + "".join(json.dumps(call["function"]) for call in calls)


def render(messages: Sequence[JsonObject], tools: str = "[]", *, with_reasoning: bool = True) -> list[int]:
    """The prompt of a conversation, up to where the answer begins."""
    ids = spell(tools) if tools != "[]" else []
    for message in messages:
        ids.append(ROLES[message["role"]])
        content = message.get("content") or ""
        if message["role"] == "assistant":
            reasoning = message.get("reasoning", "") if with_reasoning else ""
            ids += spell(_said_text(reasoning, content, message.get("tool_calls", ())))
        elif isinstance(content, str):
            ids += spell(content)
        else:
            for part in content:
                ids += spell(part["text"]) if part["type"] == "text" else [VISION_START, *[PAD] * PADS, VISION_END]
        ids.append(END)
    return [*ids, ASSISTANT]


@dataclass
class Recorded:
    """A session's calls as they would be read back."""

    calls: list[CapturedCall] = field(default_factory=list)
    with_reasoning: bool = True
    """Whether the template keeps the reasoning of earlier answers."""

    def ask(
        self,
        messages: Sequence[JsonObject],
        said: Said,
        *,
        tools: str = "[]",
        prompt: Sequence[int] | None = None,
        **facts: object,
    ) -> str:
        """Another call; returns its id. `prompt` is what the engine made of the messages, its template's by default."""
        call_id = f"c{len(self.calls)}"
        prompt = render(messages, tools, with_reasoning=self.with_reasoning) if prompt is None else prompt
        sampled = said.sampled()
        tokens = CallTokens(
            np.array(prompt, np.int32), np.array(sampled, np.int32), self.logprobs(call_id, len(sampled))
        )
        own: JsonObject = {
            "call_id": call_id, "session_id": "s", "index": len(self.calls), "sent_at": 0.0,
            "outcome": "answered", "answer": said.answer(), "gaps": [],
        }  # fmt: skip
        kept = tuple(json.dumps(message).encode() for message in messages)
        self.calls.append(CapturedCall(own | facts, kept, tools.encode(), tokens))
        return call_id

    @staticmethod
    def logprobs(call_id: str, n: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        """Other numbers for each token of each call, so that none can stand for another."""
        return -np.arange(1, n + 1, dtype=np.float32) - 1000 * int(call_id[1:])
