"""Calls for a harness that declares its tools in the system prompt: what it declared, calls as text, results told.

The two forms with `<tool_call>` are known, JSON and Qwen3-Coder's; which one is in the prompt's own example.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from model_servers.scripted_model.chat import ChatMessage, DeclaredFunction, DeclaredTool, ToolCall, Turn

TOLD = "<tool_response>"
"""How a user message begins that tells what came of calls."""

_TOOLS_OPEN, _TOOLS_CLOSE = "<tools>", "</tools>"
_XML_MARK = "<function="
_RESULT = re.compile(r"<tool_response>\n?(.*?)\n?</tool_response>", re.DOTALL)


@dataclass(frozen=True)
class TextTools:
    """Tools that a system prompt declares, with the form of their calls."""

    names: frozenset[str]
    is_xml: bool

    def written(self, turn: Turn) -> Turn:
        """The turn with its calls in its text."""
        write = _as_xml if self.is_xml else _as_json
        return Turn("\n".join([turn.text, *map(write, turn.calls)]))


def declared_in_text(messages: Sequence[ChatMessage]) -> TextTools | None:
    """By the first message that is the system's; None where that declares no tool."""
    system = next((message.text for message in messages if message.role == "system"), "")
    start, end = system.find(_TOOLS_OPEN), system.rfind(_TOOLS_CLOSE)
    if not 0 <= start < end:
        return None
    names = map(_name, system[start + len(_TOOLS_OPEN) : end].splitlines())
    return TextTools(frozenset(name for name in names if name), _XML_MARK in system[end:])


def results_told(text: str) -> list[str]:
    """Of a message that tells of calls, one text a call; the whole where it has no ends."""
    return _RESULT.findall(text) or [text]


def _name(line: str) -> str | None:
    for form in (DeclaredTool, DeclaredFunction):
        try:
            found = form.model_validate_json(line)
        except ValidationError:
            continue
        return found.function.name if isinstance(found, DeclaredTool) else found.name
    return None


def _as_json(call: ToolCall) -> str:
    return f"<tool_call>\n{json.dumps({'name': call.name, 'arguments': call.arguments})}\n</tool_call>"


def _as_xml(call: ToolCall) -> str:
    parameters = [
        f"<parameter={name}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>"
        for name, value in call.arguments.items()
    ]
    return "\n".join(["<tool_call>", f"<function={call.name}>", *parameters, "</function>", "</tool_call>"])
