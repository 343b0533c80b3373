"""The endpoint's own tool calling: it declares the tools to the model in its template and reads the calls itself."""

from collections.abc import Sequence
from typing import Literal

from agent_servers.tool_agent.dialects.contract import (
    MAX_ACTION_CHARS,
    Action,
    BadCall,
    CallResult,
    Form,
    ToolCall,
    call_id,
)
from gym_core.servers.chat import CalledTool, SaidMessage, chat_content, chat_part
from gym_core.servers.model.dialect import TOOL_IMAGES_TEXT
from gym_core.types.responses import InputImage
from gym_core.types.tool import ToolFunction
from gym_core.types.wire import JsonObject

ToolImages = Literal["tool", "user"]
"""Where a tool's pictures go: into its own message, or into a user message after it."""


class OpenAiCalls:
    def __init__(self, tool_images: ToolImages) -> None:
        self._tool_images = tool_images

    def request_fields(self, functions: Sequence[ToolFunction]) -> JsonObject:
        return {"tools": [function.as_openai() for function in functions]} if functions else {}

    def system_text(self, functions: Sequence[ToolFunction]) -> str:
        return ""

    def read(self, said: SaidMessage, functions: Sequence[ToolFunction], *, turn: int) -> Action:
        called = said.tool_calls or []
        calls = [_read_call(call, call_id(turn, index)) for index, call in enumerate(called)]
        return Action(said.content or "", tuple(calls))

    def observe(self, results: Sequence[CallResult]) -> list[JsonObject]:
        if self._tool_images == "tool":
            return [_tool_message(result, chat_content(result.content)) for result in results]
        pictures = [part for result in results for part in result.content if isinstance(part, InputImage)]
        messages = [_tool_message(result, _text(result)) for result in results]
        if pictures:
            told = [{"type": "text", "text": TOOL_IMAGES_TEXT}, *map(chat_part, pictures)]
            messages.append({"role": "user", "content": told})
        return messages


def _read_call(called: CalledTool, id_: str) -> ToolCall | BadCall:
    arguments = called.function.arguments_text
    if not called.function.name:
        return BadCall(id_, Form.NOT_A_CALL, "the call names no tool", arguments[:1000], called.id)
    if len(arguments) > MAX_ACTION_CHARS:
        return BadCall(id_, Form.TOO_LONG, "the arguments are too long", arguments[:1000], called.id)
    return ToolCall(id_, called.function.name, arguments, called.id)


def _tool_message(result: CallResult, content: str | list[JsonObject]) -> JsonObject:
    return {"role": "tool", "tool_call_id": result.call.endpoint_id or result.call.call_id, "content": content}


def _text(result: CallResult) -> str:
    text = "\n".join(part.text for part in result.content if not isinstance(part, InputImage))
    n_images = sum(isinstance(part, InputImage) for part in result.content)
    return text or ("The image follows." if n_images else "")
