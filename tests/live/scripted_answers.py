"""A script for the tiny engine: it calls a tool once, then answers."""

from collections.abc import Sequence

from gym_core.types.wire import JsonObject
from tests.live.conversations import GOOD_CALL

FIRST = f"Let me see what is here.\n{GOOD_CALL}"
LAST = "There is nothing to be seen. The answer is \\boxed{red}"
OWN_WORDS = "speak for yourself"


def answer(messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None) -> str | None:
    if messages[0]["content"] == OWN_WORDS:
        return None
    return LAST if any(message["role"] == "tool" for message in messages) else FIRST
