"""A script for the tiny engine: the scripted policy's turns, with calls written in the text as the prompt asks for."""

import json
from collections.abc import Sequence

from gym_core.types.wire import JsonObject
from model_servers.scripted_model.chat import ChatMessage, DeclaredTool, ToolCall
from model_servers.scripted_model.policy import next_turn

TOOLS = frozenset({"see_next_image", "see_next_picture", "zoom", "count_color", "read"})
"""That the policy calls, where none are declared to the engine: a text dialect, or a prompt of tokens."""
UNABLE = "I am a scripted policy"
XML = "<function=example_function_name>"
"""In the system prompt of the dialect "tagged_xml"."""


def answer(messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None) -> str | None:
    """None, the model's own words, for what the policy has no words for, such as how the gym tries an endpoint."""
    said = [ChatMessage.model_validate(message) for message in messages]
    declared = {DeclaredTool.model_validate(tool).function.name for tool in tools or ()}
    turn = next_turn(said, declared or TOOLS)
    if not turn.calls and turn.text.startswith(UNABLE):
        return None
    written = _as_xml if any(XML in message.text for message in said) else _as_json
    # A call without words: the line break between the two does not come back from an engine's parser as it was.
    return "\n".join(f"<tool_call>\n{written(call)}\n</tool_call>" for call in turn.calls) or turn.text


def _as_json(call: ToolCall) -> str:
    return json.dumps({"name": call.name, "arguments": call.arguments})


def _as_xml(call: ToolCall) -> str:
    parameters = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in call.arguments.items())
    return f"<function={call.name}>\n{parameters}</function>"
