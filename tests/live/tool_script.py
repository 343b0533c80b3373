"""A script for the tiny engine: the scripted policy's turns, calls written as `<tool_call>` JSON in the text."""

import json
from collections.abc import Sequence

from gym_core.types.wire import JsonObject
from model_servers.scripted_model.chat import ChatMessage
from model_servers.scripted_model.policy import next_turn

TOOLS = frozenset({"see_next_image", "zoom", "count_color"})
"""That the players call. A text dialect declares none, so that the policy is told of all of them."""
UNABLE = "I am a scripted policy"


def answer(messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None) -> str | None:
    """None, the model's own words, for what the policy has no words for, such as how the gym tries an endpoint."""
    turn = next_turn([ChatMessage.model_validate(message) for message in messages], TOOLS)
    calls = [json.dumps({"name": call.name, "arguments": call.arguments}) for call in turn.calls]
    if not calls and turn.text.startswith(UNABLE):
        return None
    # A call without words: the line break between the two does not come back from an engine's parser as it was.
    return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls) or turn.text
