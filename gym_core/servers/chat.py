"""Chat completions as a harness uses them: the messages of a body, and what a reply of the policy server says.

Pure, and sparing with copies.
"""

import re
from collections.abc import Sequence

import msgspec

from gym_core.errors import AgentError, EpisodeError, FailureKind, InvalidTask, ModelUnavailable
from gym_core.types.responses import (
    InputImage,
    InputMessage,
    InputPart,
    OutputItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ReasoningText,
    ResponsesBody,
    Usage,
)
from gym_core.types.wire import JsonObject

MODEL_ALIAS = "policy"
"""The policy server puts the real name."""

_CONTEXT_FULL = re.compile(r"maximum (context|model) length|context_length_exceeded", re.IGNORECASE)


def chat_messages(body: ResponsesBody) -> list[JsonObject]:
    """The body's messages, its instructions first. Raises InvalidTask for calls of an earlier turn."""
    messages = [_message(item) for item in body.items]
    if body.instructions:
        messages.insert(0, {"role": "system", "content": body.instructions})
    return messages


def add_to_system(messages: list[JsonObject], text: str) -> None:
    """Put `text` at the end of the first system message: many chat templates take no second one."""
    first = messages[0] if messages else None
    if first is not None and first["role"] == "system" and isinstance(first["content"], str):
        messages[0] = {"role": "system", "content": f"{first['content']}\n\n{text}"}
    else:
        messages.insert(0, {"role": "system", "content": text})


def sampling_fields(body: ResponsesBody) -> JsonObject:
    sampling = {"temperature": body.temperature, "top_p": body.top_p}
    return {name: value for name, value in sampling.items() if value is not None}


def chat_content(parts: Sequence[InputPart]) -> str | list[JsonObject]:
    """A message's content: a string without images, as some chat templates print a list of one text as Python.

    Raises InvalidTask for an image that is no `data:` URL.
    """
    if any(isinstance(part, InputImage) for part in parts):
        return [chat_part(part) for part in parts]
    return "\n".join(part.text for part in parts if part.type == "input_text")


def chat_part(part: InputPart) -> JsonObject:
    if part.type == "input_text":
        return {"type": "text", "text": part.text}
    if not part.image_url.startswith("data:image/"):
        raise InvalidTask(f"image {part.image_url[:40]!r} is not a data URL")
    return {"type": "image_url", "image_url": {"url": part.image_url}}


def _message(item: OutputItem) -> JsonObject:
    if isinstance(item, OutputMessage):
        return {"role": "assistant", "content": item.text}
    if not isinstance(item, InputMessage):
        raise InvalidTask(f"this harness cannot go on from a {item.type!r} item")
    role = "user" if item.role == "user" else "system"
    content = item.content if isinstance(item.content, str) else chat_content(item.content)
    return {"role": role, "content": content}


class CalledFunction(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b'""')
    """A string by the dialect; some endpoints send an object."""

    @property
    def arguments_text(self) -> str:
        found = msgspec.json.decode(self.arguments)
        if found is None:  # as some endpoints write a call without arguments
            return ""
        return found if isinstance(found, str) else bytes(self.arguments).decode("utf-8", "replace")


class CalledTool(msgspec.Struct, frozen=True):
    function: CalledFunction
    id: str | None = None


class SaidMessage(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[CalledTool] | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: SaidMessage
    finish_reason: str | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(msgspec.Struct, frozen=True):
    choices: list[_Choice]
    id: str = ""
    usage: _Usage | None = None


class _Problem(msgspec.Struct, frozen=True):
    message: str = ""
    code: str | int | None = None


class _Refusal(msgspec.Struct, frozen=True):
    error: _Problem


_completions = msgspec.json.Decoder(_Completion)
_refusals = msgspec.json.Decoder(_Refusal)


class Completion(msgspec.Struct, frozen=True):
    """One answer of the model."""

    id: str
    said: SaidMessage
    finish_reason: str | None
    usage: Usage

    @property
    def text(self) -> str:
        return self.said.content or ""

    def reasoning_items(self) -> list[OutputItem]:
        thought = self.said.reasoning_content or self.said.reasoning
        return [ReasoningItem(id=f"rs_{self.id}", content=[ReasoningText(text=thought)])] if thought else []

    def message_items(self, text: str) -> list[OutputItem]:
        """`text` as this answer's message; none where it is empty."""
        status = "completed" if self.finish_reason in ("stop", "tool_calls") else "incomplete"
        message = {"id": f"msg_{self.id}", "status": status, "content": [OutputText(text=text)]}
        return [OutputMessage.model_validate(message)] if text else []

    def cut(self, *, context_tokens: int) -> EpisodeError | None:
        """What kept the model from ending its answer by itself; None when nothing did."""
        match self.finish_reason:
            case "length" if self.usage.total_tokens >= context_tokens:
                return AgentError("the context is full", kind=FailureKind.CONTEXT_LIMIT)
            case "length":
                return AgentError("the reply reached the output limit", kind=FailureKind.OUTPUT_CAP)
            case "content_filter":
                return AgentError("a content filter stopped the model", kind=FailureKind.NO_FINAL_ANSWER)
            case None:
                return ModelUnavailable("the endpoint's reply had no finish reason")
        return None

    def empty(self) -> EpisodeError | None:
        """The failure that a final answer without text is."""
        if self.text.strip():
            return None
        return AgentError("the model ended with an empty answer", kind=FailureKind.NO_FINAL_ANSWER)


def read_completion(status: int, content: bytes) -> Completion:
    """The answer in a reply of the policy server.

    Raises ModelUnavailable, and AgentError (`context_limit`) for a prompt that is too long.
    """
    if status != 200:
        raise _refusal(status, content)
    try:
        completion = _completions.decode(content)
        choice = completion.choices[0]
    except (msgspec.MsgspecError, UnicodeDecodeError, IndexError) as error:
        raise ModelUnavailable(f"not a chat completion: {error}") from error
    counted = completion.usage or _Usage()
    usage = Usage(
        input_tokens=counted.prompt_tokens,
        output_tokens=counted.completion_tokens,
        total_tokens=counted.prompt_tokens + counted.completion_tokens,
    )
    return Completion(completion.id or "1", choice.message, choice.finish_reason, usage)


def _refusal(status: int, content: bytes) -> EpisodeError:
    """The policy server's first and only answer: but for a prompt that is too long, the model had no part in it."""
    try:
        problem = _refusals.decode(content).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = _Problem(message=repr(content[:200]))
    reason = f"HTTP {status} {problem.code or ''}: {problem.message}"[:600]
    if _CONTEXT_FULL.search(f"{problem.code} {problem.message}"):
        return AgentError(reason, kind=FailureKind.CONTEXT_LIMIT)
    return ModelUnavailable(reason)
