"""A conversation of the chat dialect as trajectory items: how a rollout that is not finished is read.

Read loosely: the messages are a harness's, as they were sent.
"""

from collections.abc import Iterator, Sequence

from gym_core.servers.model.dialect import TOOL_IMAGES_TEXT
from gym_core.types.model_call import CallAnswer
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
    ReasoningItem,
    ReasoningText,
)
from gym_core.types.wire import JsonObject

_PROMPT_ROLES = ("system", "developer", "user")


def split_prompt(messages: Sequence[JsonObject]) -> tuple[list[JsonObject], list[JsonObject]]:
    """What came before the model first spoke, and the rest."""
    n = next((n for n, m in enumerate(messages) if m.get("role") not in _PROMPT_ROLES), len(messages))
    return list(messages[:n]), list(messages[n:])


def items_of_messages(messages: Sequence[JsonObject]) -> list[OutputItem]:
    """Pictures that a harness sends on in a message of their own, after a tool's, belong to that tool's output."""
    items: list[OutputItem] = []
    for message in messages:
        role = message.get("role")
        if role == "assistant":
            items += _assistant_items(message)
            continue
        parts = input_parts(message.get("content"))
        if role == "tool":
            items.append(FunctionCallOutput(call_id=str(message.get("tool_call_id", "")), output=parts))
        elif items and isinstance(items[-1], FunctionCallOutput) and _is_sent_on(parts):
            items[-1] = items[-1].model_copy(update={"output": [*items[-1].output, *parts[1:]]})
        else:
            items.append(InputMessage(role="user", content=parts))
    return items


def _is_sent_on(parts: Sequence[InputPart]) -> bool:
    head = parts[0] if parts else None
    return isinstance(head, InputText) and head.text == TOOL_IMAGES_TEXT


def items_of_answer(answer: CallAnswer) -> Iterator[OutputItem]:
    if answer.reasoning:
        yield ReasoningItem(id="", content=[ReasoningText(text=answer.reasoning)])
    if answer.content:
        yield OutputMessage(id="", content=[OutputText(text=answer.content)])
    for tool in answer.tool_calls:
        yield FunctionCall(call_id=tool.id, name=tool.name, arguments=tool.arguments, status="in_progress")


def input_parts(content: object) -> list[InputPart]:
    """Texts and pictures of a message's content; what is neither is left out."""
    if isinstance(content, str):
        return [InputText(text=content)]
    parts: list[InputPart] = []
    for part in content if isinstance(content, list) else []:
        if not isinstance(part, dict):
            continue
        url = part.get("image_url")
        url = url.get("url") if isinstance(url, dict) else url
        if isinstance(url, str):
            parts.append(InputImage(image_url=url))
        elif isinstance(part.get("text"), str):
            parts.append(InputText(text=part["text"]))
    return parts


def _assistant_items(message: JsonObject) -> Iterator[OutputItem]:
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        yield ReasoningItem(id="", content=[ReasoningText(text=reasoning)])
    text = "".join(part.text for part in input_parts(message.get("content")) if isinstance(part, InputText))
    if text:
        yield OutputMessage(id="", content=[OutputText(text=text)])
    tools = message.get("tool_calls")
    for tool in tools if isinstance(tools, list) else []:
        function = tool.get("function") if isinstance(tool, dict) else None
        if isinstance(function, dict):
            yield FunctionCall(
                call_id=str(tool.get("id", "")),
                name=str(function.get("name", "")),
                arguments=str(function.get("arguments", "")),
            )
