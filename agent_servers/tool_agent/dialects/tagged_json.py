"""Hermes: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, one block a call, as Qwen3 writes it."""

import json
import re
from collections.abc import Sequence
from functools import partial

from agent_servers.tool_agent.dialects.contract import (
    MAX_ACTION_CHARS,
    MAX_CALLS_A_TURN,
    Action,
    BadCall,
    CallResult,
    Form,
    ToolCall,
    beside,
    call_id,
    encodable,
    json_text,
)
from agent_servers.tool_agent.dialects.tagged import CLOSE, OPEN, observe_in_user_message
from agent_servers.tool_agent.dialects.thoughts import only_thought, without_thoughts
from gym_core.servers.chat import SaidMessage
from gym_core.types.tool import ToolFunction
from gym_core.types.wire import JsonObject

# The wording of Qwen's published chat templates (Apache-2.0), which models of this dialect were trained on.
_SYSTEM = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{signatures}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""

_json = json.JSONDecoder()
_OPENER = re.compile(OPEN)


class TaggedJson:
    def request_fields(self, functions: Sequence[ToolFunction]) -> JsonObject:
        return {}

    def system_text(self, functions: Sequence[ToolFunction]) -> str:
        if not functions:
            return ""
        signatures = "\n".join(json.dumps(function.as_openai(), ensure_ascii=False) for function in functions)
        return _SYSTEM.format(signatures=signatures)

    def read(self, said: SaidMessage, functions: Sequence[ToolFunction], *, turn: int) -> Action:
        text = said.content or ""
        calls: list[ToolCall | BadCall] = []
        spans: list[tuple[int, int]] = []
        forms: list[Form] = []
        spoken = without_thoughts(said, partial(_is_in_json, text))
        start = spoken.find(OPEN)
        while start >= 0:
            if len(calls) == MAX_CALLS_A_TURN:
                forms.append(Form.TOO_MANY)
                spans.append((start, len(text)))
                break
            call, end = _read_block(spoken, start + len(OPEN), call_id(turn, len(calls)))
            if end is None:
                end = len(text)
                if isinstance(call, ToolCall):
                    forms.append(Form.UNCLOSED)
            calls.append(call)
            spans.append((start, end))
            start = spoken.find(OPEN, end)
        calls += only_thought(said, spoken, _OPENER, call_id(turn, 0))
        return Action(beside(text, spans) if spans else text, tuple(calls), tuple(forms))

    def observe(self, results: Sequence[CallResult]) -> list[JsonObject]:
        return observe_in_user_message(results)


def _read_block(text: str, start: int, id_: str) -> tuple[ToolCall | BadCall, int | None]:
    """The call of a block whose content begins at `start`, and where the block ends; None when it is not closed."""
    begin = _skip_space(text, start)
    # Decoded before its end is looked for: the closing tag may stand in a string.
    value, json_end, problem = _decode(text[begin : begin + MAX_ACTION_CHARS])
    if problem is None:
        after = _skip_space(text, begin + json_end)
        is_closed = text.startswith(CLOSE, after)
        return _as_call(value, text[begin : begin + json_end], id_), after + len(CLOSE) if is_closed else None
    close = text.find(CLOSE, start)
    content = text[start : close if close >= 0 else len(text)]
    if close < 0:
        bad = BadCall(
            id_, Form.UNCLOSED, f"{OPEN} is not closed, and its content is no JSON: {problem}", content[:1000]
        )
        return bad, None
    if not content.strip():
        return BadCall(id_, Form.EMPTY, f"the {OPEN} block is empty", ""), close + len(CLOSE)
    form = Form.TOO_LONG if len(content) > MAX_ACTION_CHARS else Form.NOT_JSON
    return BadCall(id_, form, f"the content of {OPEN} is no JSON: {problem}", content[:1000]), close + len(CLOSE)


def _is_in_json(text: str, at: int) -> bool:
    """Whether this is part of the whole JSON of a block."""
    opened = text.rfind(OPEN, 0, at)
    if opened < 0:
        return False
    begin = _skip_space(text, opened + len(OPEN))
    _, end, problem = _decode(text[begin : begin + MAX_ACTION_CHARS])
    return problem is None and at < begin + end


def _decode(text: str) -> tuple[object, int, str | None]:
    """A JSON value at the start of the text, where it ends, and what is wrong instead."""
    try:
        value, end = _json.raw_decode(text)
    except json.JSONDecodeError as error:
        return None, 0, f"{error.msg} at position {error.pos}"
    except (RecursionError, ValueError) as error:  # ValueError: a number of thousands of digits
        return None, 0, f"{type(error).__name__}"
    return value, end, None


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _as_call(value: object, written: str, id_: str) -> ToolCall | BadCall:
    match value:
        case {"name": str(name), "arguments": str(arguments)} if name:
            return ToolCall(id_, encodable(name), encodable(arguments))  # JSON text in JSON: some models write it so
        case {"name": str(name), "arguments": arguments} if name:
            return ToolCall(id_, encodable(name), json_text(arguments))
        case {"name": str(name)} if name:
            return ToolCall(id_, encodable(name), "{}")
    reason = 'a call is {"name": ..., "arguments": {...}}, and this is not one'
    return BadCall(id_, Form.NOT_A_CALL, reason, written[:1000])
