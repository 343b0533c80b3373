"""What the policy wrote, split into reasoning, text and tool calls: at once, or piece by piece as it is written.

The two differ where vLLM's do, and the difference is the point: a call whose JSON is broken comes back as text when the
answer is whole, and as a named call without arguments, or as nothing at all, when it is streamed.
"""

import json
import re
import uuid
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass

OPEN, CLOSE = "<tool_call>", "</tool_call>"
THINK, END_OF_THOUGHT = "<think>", "</think>"
CALL = re.compile(r"<tool_call>(.*?)</tool_call>|<tool_call>(.*)", re.DOTALL)
NAME = re.compile(r'"name"\s*:\s*"([^"]+)"')
ARGUMENTS = re.compile(r'"arguments"\s*:\s*')


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: str
    """JSON."""


@dataclass(frozen=True)
class Answer:
    content: str | None
    calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None


@dataclass(frozen=True)
class Delta:
    """One event of a stream; at most one field is set, but for a call's start, which has an id and a name."""

    content: str | None = None
    reasoning: str | None = None
    index: int = 0
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None

    @property
    def is_call(self) -> bool:
        return self.name is not None or self.arguments is not None


def make_call_id() -> str:
    return f"chatcmpl-tool-{uuid.uuid4().hex[:16]}"


def read_answer(text: str, *, with_tools: bool, with_reasoning: bool) -> Answer:
    """All calls, or none of them if one is broken."""
    reasoning = None
    if with_reasoning:
        thought = _read_thought(text)
        reasoning, text = thought.text or None, thought.rest or ""
    if with_tools and OPEN in text:
        with suppress(ValueError, KeyError, TypeError):
            calls = [_read_call(json.loads(closed or unclosed)) for closed, unclosed in CALL.findall(text)]
            before = text[: text.find(OPEN)]
            return Answer(before if before.strip() else None, tuple(calls), reasoning)
    return Answer(None if with_reasoning and not text else text, (), reasoning)


def _read_call(call: dict[str, object]) -> ToolCall:
    return ToolCall(str(call["name"]), json.dumps(call["arguments"], ensure_ascii=False))


@dataclass(frozen=True)
class _Thought:
    text: str
    rest: str | None
    """What follows; None while the thought goes on."""


def _read_thought(text: str) -> _Thought:
    """A thought ends where it says so or where a call begins; an answer that does neither is all thought."""
    ends = [(at, tag) for tag in (END_OF_THOUGHT, OPEN) if (at := text.find(tag)) >= 0]
    if not ends:
        return _Thought(text.replace(THINK, ""), None)
    at, tag = min(ends)
    return _Thought(text[:at].replace(THINK, ""), text[at:].removeprefix(END_OF_THOUGHT))


class AnswerStream:
    """Reads an answer as it grows. Feed it text in any pieces."""

    def __init__(self, *, with_tools: bool, with_reasoning: bool) -> None:
        self._with_tools = with_tools
        self._thinking = with_reasoning
        self._thought = ""
        self._text = ""
        self._sent_chars = 0
        self._names: list[str] = []
        self._arguments: list[str] = []

    def feed(self, piece: str) -> Iterator[Delta]:
        if self._thinking:
            self._thought += piece
            thought = _read_thought(self._thought)
            if thought.rest is None:
                held = max(_overlap(self._thought, tag) for tag in (THINK, END_OF_THOUGHT, OPEN))
                thought = _read_thought(self._thought[: len(self._thought) - held])
            if len(thought.text) > self._sent_chars:
                yield Delta(reasoning=thought.text[self._sent_chars :])
                self._sent_chars = len(thought.text)
            if thought.rest is None:
                return
            self._thinking, self._sent_chars, piece = False, 0, thought.rest
        self._text += piece
        if not self._with_tools:
            if piece:
                yield Delta(content=piece)
            return
        yield from self._content()
        for index, (body, is_whole) in enumerate(_bodies(self._text)):
            if not (yield from self._call(index, body, is_whole)):
                break

    def _content(self) -> Iterator[Delta]:
        """Text before the first call; what may be the beginning of a tag is held back."""
        end = self._text.find(OPEN)
        if end < 0:
            end = len(self._text) - _overlap(self._text, OPEN)
        if end > self._sent_chars:
            yield Delta(content=self._text[self._sent_chars : end])
            self._sent_chars = end

    def _call(self, index: int, body: str, is_whole: bool) -> Generator[Delta, None, bool]:
        """Returns whether the call has a name yet; later calls wait for it."""
        if index == len(self._names):
            if not (match := NAME.search(body)):
                return False
            self._names.append(match.group(1))
            self._arguments.append("")
            yield Delta(index=index, call_id=make_call_id(), name=match.group(1))
        arguments = _arguments(body, is_whole)
        if len(arguments) > len(self._arguments[index]):
            yield Delta(index=index, arguments=arguments[len(self._arguments[index]) :])
            self._arguments[index] = arguments
        return True


def _bodies(text: str) -> Iterator[tuple[str, bool]]:
    """What stands in each call so far, and whether it is complete."""
    at = text.find(OPEN)
    while at >= 0:
        start = at + len(OPEN)
        end = text.find(CLOSE, start)
        if end < 0:
            body = text[start:]
            body = body[: len(body) - _overlap(body, CLOSE)].strip()
            yield body, _is_json(body)
            return
        yield text[start:end].strip(), True
        at = text.find(OPEN, end)


def _arguments(body: str, is_whole: bool) -> str:
    """Of a whole call the brace that closes the call itself is left out; of an unfinished one nothing is."""
    match = ARGUMENTS.search(body)
    if not match:
        return ""
    arguments = body[match.end() :]
    return arguments.rstrip().removesuffix("}").rstrip() if is_whole else arguments


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _overlap(text: str, tag: str) -> int:
    """Characters at the end of the text that begin the tag."""
    return next((n for n in range(min(len(text), len(tag) - 1), 0, -1) if text.endswith(tag[:n])), 0)
