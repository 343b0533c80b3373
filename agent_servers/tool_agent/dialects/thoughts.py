"""What a model thought, in a content that its endpoint did not part from it. No call in it is one. Pure."""

import re
from collections.abc import Callable

from agent_servers.tool_agent.dialects.contract import BadCall, Form
from gym_core.servers.chat import SaidMessage

_TAG = re.compile(r"<(/?)think>")
_MAX_LOOKS = 64
"""Tags past it are not asked whether they stand in a call, so that no text takes long."""


def without_thoughts(said: SaidMessage, is_in_call: Callable[[int], bool]) -> str:
    """The content with a line break for each character of the thoughts, so that all else stands where it stood.

    A thought goes from `<think>` to `</think>`. The first may have no `<think>`, which some templates put into the
    prompt; later, such an end is a slip. `is_in_call` says of a tag, by where it begins, whether it is part of what a
    call says.
    """
    text = said.content or ""
    if said.reasoning_content or said.reasoning:
        return text  # the endpoint took the thoughts out; a tag that is left is the model's word
    pieces: list[str] = []
    at, opened = 0, -1
    for number, tag in enumerate(_TAG.finditer(text)):
        if number < _MAX_LOOKS and is_in_call(tag.start()):
            continue
        if not tag[1]:
            opened = tag.start() if opened < 0 else opened
        elif opened >= 0 or not pieces:
            begin = max(opened, 0)
            pieces += [text[at:begin], "\n" * (tag.end() - begin)]
            at, opened = tag.end(), -1
    return "".join([*pieces, text[at:]])


def only_thought(said: SaidMessage, spoken: str, opener: re.Pattern[str], id_: str) -> tuple[BadCall, ...]:
    """For the model, where nothing is `spoken` and a call seems to begin in the thoughts; else ()."""
    text = said.content or ""
    found = None if spoken.strip() else opener.search(text)
    if found is None:
        return ()
    why = "the call stands before </think>, among the thoughts, and was not run: write it after them"
    return (BadCall(id_, Form.IN_THOUGHTS, why, text[found.start() : found.start() + 1000]),)
