"""What a model itself can do, by a few answers of it: tell two colours apart, call a tool. Whole seconds, so no run
begins with it."""

import asyncio
import re
from typing import Literal

import msgspec

from gym_core.servers.model.probe_prompts import SMALL_PX, coloured_picture_part
from gym_core.servers.model.probe_wire import ProbeClient, ProbeReply
from gym_core.types.checkup import AbilityReport, ColourAnswer
from gym_core.types.wire import JsonObject

Colour = Literal["red", "blue"]
RGB: dict[Colour, tuple[int, int, int]] = {"red": (220, 20, 20), "blue": (20, 40, 220)}
_MAX_TOKENS = 2048
"""Enough to reason about a plain picture; a model that does not reason stops by itself."""
_SHOWN_CHARS = 80
_QUESTION = "Which colour is this picture, red or blue? Reply with that one word."
_TOOL: JsonObject = {
    "type": "function",
    "function": {
        "name": "note_number",
        "description": "Write a number down.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    },
}


class _ToolCall(msgspec.Struct):
    function: msgspec.Raw = msgspec.Raw(b"")


class _Message(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    message: _Message


class _Completion(msgspec.Struct):
    choices: list[_Choice]


async def look_at_abilities(client: ProbeClient) -> AbilityReport:
    """Three answers, side by side. Never raises for what the endpoint does."""
    red, blue, tool = await asyncio.gather(_name_colour(client, "red"), _name_colour(client, "blue"), _use_tool(client))
    called, refusal = _called(tool)
    report = AbilityReport(called_tool=called, refusal=refusal)
    answers: list[ColourAnswer] = []
    for shown, reply in (("red", red), ("blue", blue)):
        message = _message(reply)
        if message is None:
            return report.model_copy(update={"message": _complaint(reply)})
        answers.append(ColourAnswer(shown=shown, said=(message.content or "").strip()[-_SHOWN_CHARS:]))
    tells = all(_last_colour(answer.said) == answer.shown for answer in answers)
    return report.model_copy(update={"colours": answers, "tells_colours": tells})


async def _name_colour(client: ProbeClient, colour: Colour) -> ProbeReply:
    content = [{"type": "text", "text": _QUESTION}, coloured_picture_part(SMALL_PX, RGB[colour])]
    messages: list[JsonObject] = [{"role": "user", "content": content}]
    return await client.complete(messages, max_tokens=_MAX_TOKENS, temperature=0.0)


async def _use_tool(client: ProbeClient) -> ProbeReply:
    messages: list[JsonObject] = [{"role": "user", "content": "Call note_number with the number 7."}]
    return await client.complete(messages, max_tokens=_MAX_TOKENS, temperature=0.0, tools=[_TOOL], tool_choice="auto")


def _called(reply: ProbeReply) -> tuple[bool, str | None]:
    message = _message(reply)
    return (False, _complaint(reply)) if message is None else (bool(message.tool_calls), None)


def _message(reply: ProbeReply) -> _Message | None:
    found = reply.read(_Completion)
    return found.choices[0].message if found and found.choices else None


def _complaint(reply: ProbeReply) -> str:
    return f"HTTP {reply.status}: {reply.text[:400]}"


def _last_colour(text: str) -> str | None:
    """The colour that an answer ends up with."""
    found: list[str] = re.findall(r"\b(red|blue)\b", text.lower())
    return found[-1] if found else None
