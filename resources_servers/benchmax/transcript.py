"""Between the gym's items and the chat messages of environments: prompts one way, trajectories the other. Pure."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputMessage,
    InputPart,
    InputText,
    OutputItem,
    OutputMessage,
    OutputText,
)
from gym_core.types.wire import JsonObject

MoveImage = Callable[[str], str]
"""From the URL of a picture to the URL that is kept."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _TextPart(_Part):
    type: Literal["text"]
    text: str


class _ImageUrl(_Part):
    url: str
    detail: Literal["auto", "low", "high"] = "auto"


class _ImagePart(_Part):
    type: Literal["image_url"]
    image_url: _ImageUrl


class _PromptMessage(BaseModel):
    """A message of the prompt. Calls and results of tools are refused: no harness goes on from them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Annotated[_TextPart | _ImagePart, Field(discriminator="type")]]


_prompt = TypeAdapter(Annotated[list[_PromptMessage], Field(min_length=1)])


def prompt_items(prompt_messages: object, move_image: MoveImage) -> list[OutputItem]:
    """The input of a row. Raises ValueError naming the message."""
    try:
        messages = _prompt.validate_python(prompt_messages)
    except ValidationError as error:
        places = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)]
        raise ValueError("prompt_messages: " + "; ".join(places[:4])) from error
    return [_item(message, index, move_image) for index, message in enumerate(messages)]


def _item(message: _PromptMessage, index: int, move_image: MoveImage) -> OutputItem:
    content = message.content
    if message.role == "assistant":
        if not isinstance(content, str):
            raise ValueError(f"prompt_messages.{index}: an assistant's message is one text")
        return OutputMessage(id=f"prompt_{index}", content=[OutputText(text=content)])
    parts = content if isinstance(content, str) else [_input_part(part, move_image) for part in content]
    return InputMessage(role=message.role, content=parts)


def _input_part(part: _TextPart | _ImagePart, move_image: MoveImage) -> InputPart:
    if isinstance(part, _TextPart):
        return InputText(text=part.text)
    return InputImage(image_url=move_image(part.image_url.url), detail=part.image_url.detail)


def chat_messages(output: Sequence[OutputItem], show_image: MoveImage) -> list[JsonObject]:
    """A trajectory as assistant and tool messages. Reasoning has no place in them."""
    messages: list[JsonObject] = []
    for item in output:
        match item:
            case OutputMessage():
                messages.append({"role": "assistant", "content": item.text})
            case FunctionCall():
                _speaker(messages).setdefault("tool_calls", []).append(_call(item))
            case FunctionCallOutput():
                content = _content(item.output, show_image)
                messages.append({"role": "tool", "tool_call_id": item.call_id, "content": content})
            case InputMessage():
                messages.append({"role": item.role, "content": _content(item.content, show_image)})
    return messages


def _speaker(messages: list[JsonObject]) -> JsonObject:
    """The assistant's message that a call belongs to."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _call(item: FunctionCall) -> JsonObject:
    return {"id": item.call_id, "type": "function", "function": {"name": item.name, "arguments": item.arguments}}


def _content(content: str | list[InputPart], show_image: MoveImage) -> str | list[JsonObject]:
    if isinstance(content, str):
        return content
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, InputText)
        else {"type": "image_url", "image_url": {"url": show_image(part.image_url)}}
        for part in content
    ]
