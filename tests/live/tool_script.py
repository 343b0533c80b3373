"""A script for the tiny engine: the scripted policy's turns, calls written as `<tool_call>` JSON in the text."""

import json
from collections.abc import Sequence

from gym_core.types.wire import JsonObject
from model_servers.scripted_model.chat import ChatMessage
from model_servers.scripted_model.policy import next_turn

TOOLS = frozenset({"see_next_image"})
KNOWN = "Call see_next_image"
RESPONSE = "<tool_response>"


def answer(messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None) -> str | None:
    """None, the model's own words, for what the gym asks to try the endpoint."""
    if KNOWN not in json.dumps(messages):
        return None
    turn = next_turn([_as_sent(message) for message in messages], TOOLS)
    calls = [json.dumps({"name": call.name, "arguments": call.arguments}) for call in turn.calls]
    # A call without words: the line break between the two does not come back from an engine's parser as it was.
    return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls) or turn.text


def _as_sent(message: JsonObject) -> ChatMessage:
    """Results that a text dialect wrote into a user message are a tool's all the same."""
    said = ChatMessage.model_validate(message)
    is_result = said.role == "user" and said.text.startswith(RESPONSE)
    return said.model_copy(update={"role": "tool"}) if is_result else said
