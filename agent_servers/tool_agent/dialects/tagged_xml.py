"""Qwen3-Coder's form: `<tool_call><function=zoom><parameter=x0>0.1</parameter></function></tool_call>`.

Values are text; a parameter that is not a string by its schema is read as JSON where it is JSON. Models of this form
forget the opening `<tool_call>`: a function that is closed is a call without it, too.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
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
    json_text,
)
from agent_servers.tool_agent.dialects.tagged import CLOSE, OPEN, observe_in_user_message, parameter_schema
from agent_servers.tool_agent.dialects.thoughts import only_thought, without_thoughts
from gym_core.servers.chat import SaidMessage
from gym_core.types.tool import ToolFunction
from gym_core.types.wire import JsonObject

_BARE = re.compile(r"<function=[^>\n]{1,200}>")
_LATE_CLOSE = re.compile(r"\s{0,100}" + CLOSE)
_FUNCTION = re.compile(r"\s{0,100}<function=([^>\n]{0,200})>")
_PARAMETER = re.compile(r"<parameter=([^>\n]{1,200})>")
_OPENER = re.compile(rf"{OPEN}|{_BARE.pattern}")
_AROUND_VALUE = re.compile(rf"{OPEN}|<function=|</?parameter\b")
_FUNCTION_CLOSE, _PARAMETER_CLOSE = "</function>", "</parameter>"

# The wording of the published template of Qwen3-Coder (Apache-2.0), shortened.
_SYSTEM = """# Tools

You have access to the following functions:

<tools>
{signatures}
</tools>

If you choose to call a function, reply in the following format, several times for several calls:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
</function>
</tool_call>"""


class TaggedXml:
    def request_fields(self, functions: Sequence[ToolFunction]) -> JsonObject:
        return {}

    def system_text(self, functions: Sequence[ToolFunction]) -> str:
        if not functions:
            return ""
        signatures = "\n".join(
            json.dumps(function.as_openai()["function"], ensure_ascii=False) for function in functions
        )
        return _SYSTEM.format(signatures=signatures)

    def read(self, said: SaidMessage, functions: Sequence[ToolFunction], *, turn: int) -> Action:
        text = said.content or ""
        calls: list[ToolCall | BadCall] = []
        spans: list[tuple[int, int]] = []
        forms: list[Form] = []
        spoken = without_thoughts(said, partial(_is_in_value, text))
        block = _next_block(spoken, 0)
        while block is not None:
            if len(calls) == MAX_CALLS_A_TURN:
                forms.append(Form.TOO_MANY)
                spans.append((block.start, len(text)))
                break
            call = _read_block(spoken[block.inner[0] : block.inner[1]], functions, call_id(turn, len(calls)))
            if block.form is not None and isinstance(call, ToolCall):
                forms.append(block.form)
            calls.append(call)
            spans.append((block.start, block.end))
            block = _next_block(spoken, block.end)
        calls += only_thought(said, spoken, _OPENER, call_id(turn, 0))
        return Action(beside(text, spans) if spans else text, tuple(calls), tuple(forms))

    def observe(self, results: Sequence[CallResult]) -> list[JsonObject]:
        return observe_in_user_message(results)


@dataclass(frozen=True)
class _Block:
    start: int
    inner: tuple[int, int]
    """Of what its tags hold."""
    end: int
    form: Form | None
    """What is odd about its tags."""


def _next_block(text: str, at: int) -> _Block | None:
    """The first from there on."""
    opened = text.find(OPEN, at)
    limit = opened if opened >= 0 else len(text)
    if (bare := _BARE.search(text, at, limit)) and (close := text.find(_FUNCTION_CLOSE, bare.end(), limit)) >= 0:
        inner_end = close + len(_FUNCTION_CLOSE)
        late = _LATE_CLOSE.match(text, inner_end)
        return _Block(bare.start(), (bare.start(), inner_end), late.end() if late else inner_end, Form.NO_TAG)
    if opened < 0:
        return None
    close = text.find(CLOSE, opened)
    inner_end = len(text) if close < 0 else close
    end = len(text) if close < 0 else close + len(CLOSE)
    return _Block(opened, (opened + len(OPEN), inner_end), end, Form.UNCLOSED if close < 0 else None)


def _is_in_value(text: str, at: int) -> bool:
    """Whether this is part of a parameter's value, which has an end of its own."""
    following = _AROUND_VALUE.search(text, at)
    if following is None or not text.startswith(_PARAMETER_CLOSE, following.start()):
        return False
    return text.rfind("<parameter=", 0, at) > text.rfind(_PARAMETER_CLOSE, 0, at)


def _read_block(block: str, functions: Sequence[ToolFunction], id_: str) -> ToolCall | BadCall:
    def bad(form: Form, reason: str) -> BadCall:
        return BadCall(id_, form, reason, block[:1000])

    if not block.strip():
        return bad(Form.EMPTY, f"the {OPEN} block is empty")
    if len(block) > MAX_ACTION_CHARS:
        return bad(Form.TOO_LONG, f"the {OPEN} block is too long")
    head = _FUNCTION.match(block)
    if head is None or not head[1].strip():
        return bad(Form.NOT_A_CALL, f"a {OPEN} block begins with <function=name>, and this one does not")
    name = head[1].strip()
    end = block.find(_FUNCTION_CLOSE, head.end())
    if end < 0:
        return bad(Form.UNCLOSED, f"<function={name}> is not closed")
    arguments: JsonObject = {}
    at = head.end()
    while opened := _PARAMETER.search(block, at, end):
        value_end = block.find(_PARAMETER_CLOSE, opened.end(), end)
        if value_end < 0:
            return bad(Form.UNCLOSED, f"<parameter={opened[1]}> is not closed")
        parameter = opened[1].strip()
        schema = parameter_schema(functions, name, parameter)
        arguments[parameter] = _value(_without_frame(block[opened.end() : value_end]), schema)
        at = value_end + len(_PARAMETER_CLOSE)
    return ToolCall(id_, name, json_text(arguments))


def _without_frame(text: str) -> str:
    """Without the one line break that the form puts at each end."""
    return text.removeprefix("\n").removesuffix("\n")


def _value(text: str, schema: JsonObject) -> object:
    if not schema or schema.get("type") == "string":
        return text
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value
