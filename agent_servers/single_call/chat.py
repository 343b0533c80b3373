"""One chat completion: the request made of a body, the turn made of a reply. Pure, and sparing with copies."""

import re

import msgspec

from gym_core.errors import AgentError, EpisodeError, FailureKind, InvalidTask, ModelUnavailable
from gym_core.servers.agent import Turn
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
from gym_core.types.session import ModelAccess
from gym_core.types.wire import JsonObject

MODEL_ALIAS = "policy"
"""The policy server puts the real name."""

_CONTEXT_FULL = re.compile(r"maximum (context|model) length|context_length_exceeded", re.IGNORECASE)


def make_request(body: ResponsesBody, access: ModelAccess) -> bytes:
    """The JSON of a chat-completions request. Raises InvalidTask for what one call without tools cannot carry."""
    messages = [_message(item) for item in body.items]
    if body.instructions:
        messages.insert(0, {"role": "system", "content": body.instructions})
    request: JsonObject = {
        "model": MODEL_ALIAS,
        "messages": messages,
        "max_tokens": min(body.max_output_tokens or access.max_output_tokens, access.max_output_tokens),
    }
    sampling = {"temperature": body.temperature, "top_p": body.top_p}
    return msgspec.json.encode(request | {name: value for name, value in sampling.items() if value is not None})


def _message(item: OutputItem) -> JsonObject:
    if isinstance(item, OutputMessage):
        return {"role": "assistant", "content": item.text}
    if not isinstance(item, InputMessage):
        raise InvalidTask(f"single_call cannot carry a {item.type!r} item")
    role = "user" if item.role == "user" else "system"
    if isinstance(item.content, str):
        return {"role": role, "content": item.content}
    if any(isinstance(part, InputImage) for part in item.content):
        return {"role": role, "content": [_part(part) for part in item.content]}
    # A string: some chat templates print a list of one text part as Python.
    return {"role": role, "content": "\n".join(part.text for part in item.content if part.type == "input_text")}


def _part(part: InputPart) -> JsonObject:
    if part.type == "input_text":
        return {"type": "text", "text": part.text}
    if not part.image_url.startswith("data:image/"):
        raise InvalidTask(f"image {part.image_url[:40]!r} is not a data URL")
    return {"type": "image_url", "image_url": {"url": part.image_url}}


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message
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


def turn_of(status: int, content: bytes, *, context_tokens: int) -> Turn:
    """The turn in a reply of the policy server; never raises."""
    if status != 200:
        return Turn(output=[], failure=_refusal(status, content))
    try:
        completion = _completions.decode(content)
        choice = completion.choices[0]
    except (msgspec.MsgspecError, UnicodeDecodeError, IndexError) as error:
        return Turn(output=[], failure=ModelUnavailable(f"not a chat completion: {error}"))
    counted = completion.usage or _Usage()
    total = counted.prompt_tokens + counted.completion_tokens
    usage = Usage(input_tokens=counted.prompt_tokens, output_tokens=counted.completion_tokens, total_tokens=total)
    return Turn(_items(completion.id or "1", choice), usage, _ending(choice, is_full=total >= context_tokens))


def _items(completion_id: str, choice: _Choice) -> list[OutputItem]:
    message = choice.message
    items: list[OutputItem] = []
    if thought := message.reasoning_content or message.reasoning:
        items.append(ReasoningItem(id=f"rs_{completion_id}", content=[ReasoningText(text=thought)]))
    if message.content:
        is_whole = choice.finish_reason == "stop"
        items.append(
            OutputMessage(
                id=f"msg_{completion_id}",
                status="completed" if is_whole else "incomplete",
                content=[OutputText(text=message.content)],
            )
        )
    return items


def _ending(choice: _Choice, *, is_full: bool) -> EpisodeError | None:
    match choice.finish_reason:
        case "length" if is_full:
            return AgentError("the context is full", kind=FailureKind.CONTEXT_LIMIT)
        case "length":
            return AgentError("the reply reached the output limit", kind=FailureKind.OUTPUT_CAP)
        case "content_filter":
            return AgentError("a content filter stopped the model", kind=FailureKind.NO_FINAL_ANSWER)
        case None:
            return ModelUnavailable("the endpoint's reply had no finish reason")
    if not (choice.message.content or "").strip():
        return AgentError("the model ended with an empty answer", kind=FailureKind.NO_FINAL_ANSWER)
    return None


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
