"""The part of a chat-completions request that the scripted policy reads, and the turn it makes of it.

Requests come from strangers: unknown fields are ignored, images are decoded by players alone, nothing is trusted.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from gym_core.types.wire import JsonObject


class _Stranger(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ImageUrl(_Stranger):
    url: str = ""


class ContentPart(_Stranger):
    type: str
    text: str | None = None
    image_url: ImageUrl | None = None


class CalledFunction(_Stranger):
    name: str
    arguments: str = ""


class MessageToolCall(_Stranger):
    id: str
    function: CalledFunction


class ChatMessage(_Stranger):
    role: str
    content: str | list[ContentPart] | None = None
    tool_calls: list[MessageToolCall] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.text)
        return self.content or ""

    @property
    def has_image(self) -> bool:
        return isinstance(self.content, list) and any(part.type == "image_url" for part in self.content)

    @property
    def image_urls(self) -> list[str]:
        parts = self.content if isinstance(self.content, list) else []
        return [part.image_url.url for part in parts if part.image_url]


class DeclaredFunction(_Stranger):
    name: str


class DeclaredTool(_Stranger):
    function: DeclaredFunction


class StreamOptions(_Stranger):
    include_usage: bool = False


class ChatRequest(_Stranger):
    messages: list[ChatMessage]
    model: str = "scripted_model"
    tools: list[DeclaredTool] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None

    @property
    def tool_names(self) -> frozenset[str]:
        return frozenset(tool.function.name for tool in self.tools or ())


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: JsonObject


@dataclass(frozen=True)
class Turn:
    """What the assistant says and does next. Without calls it is the final turn."""

    text: str
    calls: tuple[ToolCall, ...] = ()

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.calls else "stop"


def conversation_digest(messages: Sequence[ChatMessage]) -> str:
    """A name for the conversation so far: ids made from it are new at each turn and the same when it is asked again."""
    text = "\x00".join(f"{message.role}\x00{message.text}\x00{message.tool_calls}" for message in messages)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
