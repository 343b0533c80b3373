"""The Responses dialect in terms of chat completions, both ways. Pure.

A tool's pictures become a user message after the tool's own message: chat completions take no image elsewhere, and it
is what OpenCode does. Reasoning goes back as `reasoning_content` of the assistant turn that it belongs to.
"""

import time
import uuid
from collections.abc import Iterable

from gym_core.servers.model.answer import Answer
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    IncompleteDetails,
    InputImage,
    InputMessage,
    InputPart,
    OutputItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ReasoningText,
    ResponsesBody,
    ResponsesReply,
    Usage,
)
from gym_core.types.wire import JsonObject

TOOL_IMAGES_TEXT = "Attached media from tool result:"
_SAME_NAME = ("temperature", "top_p", "parallel_tool_calls")


def chat_body(body: ResponsesBody) -> JsonObject:
    """A chat-completions body. Raises ValueError for what has no counterpart."""
    chat: JsonObject = {"model": body.model or "", "messages": _messages(body)}
    if body.tools:
        chat["tools"] = [_tool(tool) for tool in body.tools]
        chat["tool_choice"] = _tool_choice(body.tool_choice)
    if body.max_output_tokens is not None:
        chat["max_tokens"] = body.max_output_tokens
    chat |= {name: value for name in _SAME_NAME if (value := getattr(body, name)) is not None}
    if body.reasoning and body.reasoning.get("effort"):
        chat["reasoning_effort"] = body.reasoning["effort"]
    if body.text and (form := body.text.get("format")) and form.get("type") != "text":
        chat["response_format"] = _response_format(form)
    return chat


def _messages(body: ResponsesBody) -> list[JsonObject]:
    messages: list[JsonObject] = [{"role": "system", "content": body.instructions}] if body.instructions else []
    pictures: list[InputPart] = []
    for item in body.items:
        if pictures and not isinstance(item, FunctionCallOutput):
            messages.append(_tool_images(pictures))
            pictures = []
        match item:
            case InputMessage():
                messages.append({"role": item.role, "content": _content(item)})
            case FunctionCallOutput():
                text, images = _tool_output(item)
                messages.append({"role": "tool", "tool_call_id": item.call_id, "content": text})
                pictures += images
            case _:
                _add_to_turn(messages, item)
    if pictures:
        messages.append(_tool_images(pictures))
    return messages


def _add_to_turn(messages: list[JsonObject], item: ReasoningItem | OutputMessage | FunctionCall) -> None:
    """Reasoning, text and calls that follow each other are one assistant message."""
    last = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
    starts_anew = last is None or (isinstance(item, ReasoningItem) and ("tool_calls" in last or last["content"]))
    if starts_anew or last is None:
        last = {"role": "assistant", "content": ""}
        messages.append(last)
    match item:
        case ReasoningItem():
            last["reasoning_content"] = last.get("reasoning_content", "") + "".join(part.text for part in item.content)
        case OutputMessage():
            last["content"] += item.text
        case FunctionCall():
            function = {"name": item.name, "arguments": item.arguments}
            last.setdefault("tool_calls", []).append({"id": item.call_id, "type": "function", "function": function})


def _content(message: InputMessage) -> str | list[JsonObject]:
    return message.content if isinstance(message.content, str) else [_part(part) for part in message.content]


def _part(part: InputPart) -> JsonObject:
    if isinstance(part, InputImage):
        detail = {} if part.detail == "auto" else {"detail": part.detail}
        return {"type": "image_url", "image_url": {"url": part.image_url} | detail}
    return {"type": "text", "text": part.text}


def _tool_output(item: FunctionCallOutput) -> tuple[str, list[InputPart]]:
    if isinstance(item.output, str):
        return item.output, []
    images: list[InputPart] = [part for part in item.output if isinstance(part, InputImage)]
    return "\n".join(part.text for part in item.output if not isinstance(part, InputImage)), images


def _tool_images(pictures: Iterable[InputPart]) -> JsonObject:
    return {"role": "user", "content": [{"type": "text", "text": TOOL_IMAGES_TEXT}, *map(_part, pictures)]}


def _tool(tool: JsonObject) -> JsonObject:
    if tool.get("type") != "function":
        raise ValueError(f"tools: only functions can be offered, not {str(tool.get('type'))[:40]!r}")
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: tool[name] for name in names if tool.get(name) is not None}}


def _tool_choice(choice: str | JsonObject) -> str | JsonObject:
    if isinstance(choice, dict) and choice.get("type") == "function":
        return {"type": "function", "function": {"name": choice.get("name")}}
    return choice


def _response_format(form: JsonObject) -> JsonObject:
    if form.get("type") != "json_schema":
        return form
    return {"type": "json_schema", "json_schema": {name: value for name, value in form.items() if name != "type"}}


def responses_reply(answer: Answer, model: str) -> ResponsesReply:
    output: list[OutputItem] = []
    if answer.reasoning:
        output.append(ReasoningItem(id=_id("rs"), content=[ReasoningText(text=answer.reasoning)]))
    if answer.content or not answer.calls:
        output.append(OutputMessage(id=_id("msg"), content=[OutputText(text=answer.content)]))
    output += [
        FunctionCall(id=_id("fc"), call_id=call.id, name=call.name, arguments=call.arguments) for call in answer.calls
    ]
    is_cut = answer.finish_reason == "length"
    return ResponsesReply(
        id=_id("resp"),
        created_at=time.time(),
        status="incomplete" if is_cut else "completed",
        model=model,
        output=output,
        usage=Usage(
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            total_tokens=answer.input_tokens + answer.output_tokens,
        ),
        incomplete_details=IncompleteDetails(reason="max_output_tokens") if is_cut else None,
    )


def _id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"
