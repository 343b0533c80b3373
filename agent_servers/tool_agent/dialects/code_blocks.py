"""Code as the action: a python fence, or a `<code>` block that may hold one. The last block of an answer counts.

The code becomes a call of the tool `python` with the one argument `code`. `<answer>` ends the episode, whatever else
stands there. Code is kept as it was written, backslashes and all.
"""

import ast
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_servers.tool_agent.dialects.contract import (
    MAX_ACTION_CHARS,
    Action,
    BadCall,
    CallResult,
    Form,
    ToolCall,
    beside,
    call_id,
)
from agent_servers.tool_agent.dialects.tagged import observe_in_user_message
from gym_core.servers.chat import SaidMessage
from gym_core.types.tool import ToolFunction
from gym_core.types.wire import JsonObject

CODE_TOOL, CODE_ARGUMENT = "python", "code"
_CODE_OPEN, _CODE_CLOSE, _ANSWER = "<code>", "</code>", "<answer>"
_FENCE_OPEN = re.compile(r"(?:^[ \t]{0,20}|(?<=<code>))```[ \t]?(?:python3?|py)[ \t\r]*$", re.IGNORECASE | re.MULTILINE)
_FENCE_CLOSE = re.compile(r"^[ \t]{0,20}```[ \t\r]*$", re.MULTILINE)
_MAX_CLOSES = 8
"""So many fences are tried as the end of one block."""
_MAX_CHECKED_CHARS = 20_000
"""The syntax of longer code is not looked at: that takes its time."""

_SYSTEM = """You can run Python. Write the code in one block, the last one of your message:
<code>
```python
print("hello")
```
</code>
What it prints and shows comes back to you. When you know the answer, write it in <answer></answer> and no code."""


@dataclass(frozen=True)
class _Block:
    start: int
    end: int
    code: str | None
    """None: it has no end."""
    forms: tuple[Form, ...] = ()


class CodeBlocks:
    def request_fields(self, functions: Sequence[ToolFunction]) -> JsonObject:
        return {}

    def system_text(self, functions: Sequence[ToolFunction]) -> str:
        return _SYSTEM if any(function.name == CODE_TOOL for function in functions) else ""

    def read(self, said: SaidMessage, functions: Sequence[ToolFunction], *, turn: int) -> Action:
        text = said.content or ""
        blocks = [] if _ANSWER in text else list(_tagged_blocks(text)) or list(_fenced_blocks(text, 0, len(text)))
        if not blocks:
            return Action(text)
        last = blocks[-1]
        forms = (*last.forms, *([Form.SEVERAL_BLOCKS] if len(blocks) > 1 else []))
        return Action(beside(text, [(last.start, last.end)]), (_as_call(last, text, call_id(turn, 0)),), forms)

    def observe(self, results: Sequence[CallResult]) -> list[JsonObject]:
        return observe_in_user_message(results)


def _as_call(block: _Block, text: str, id_: str) -> ToolCall | BadCall:
    written = text[block.start : block.end]
    if block.code is None:
        return BadCall(id_, Form.UNCLOSED, "the code block is not closed", written[:1000])
    if not block.code.strip():
        return BadCall(id_, Form.EMPTY, "the code block is empty", written[:1000])
    if len(block.code) > MAX_ACTION_CHARS:
        return BadCall(id_, Form.TOO_LONG, f"the code is longer than {MAX_ACTION_CHARS} characters", written[:1000])
    return ToolCall(id_, CODE_TOOL, json.dumps({CODE_ARGUMENT: block.code}))


def _tagged_blocks(text: str) -> Iterator[_Block]:
    """`<code>` blocks in order: what a python fence in them holds, or all of it."""
    start = text.find(_CODE_OPEN)
    while start >= 0:
        inside = start + len(_CODE_OPEN)
        close = text.find(_CODE_CLOSE, inside)
        end = len(text) if close < 0 else close
        fenced = list(_fenced_blocks(text, inside, end))
        block_end = end if close < 0 else end + len(_CODE_CLOSE)
        if fenced:
            last = fenced[-1]
            odd = [Form.UNCLOSED] if close < 0 and last.code is not None else []
            odd += [Form.SEVERAL_BLOCKS] if len(fenced) > 1 else []
            yield _Block(start, block_end, last.code, (*last.forms, *odd))
        elif close < 0:
            yield _Block(start, block_end, None)
        else:
            code = text[inside:end].strip("\r\n")
            yield _Block(start, block_end, code, _syntax(code))
        start = -1 if close < 0 else text.find(_CODE_OPEN, block_end)


def _fenced_blocks(text: str, start: int, end: int) -> Iterator[_Block]:
    at = start
    while opened := _FENCE_OPEN.search(text, at, end):
        block = _fenced_block(text, opened, end)
        yield block
        at = block.end


def _fenced_block(text: str, opened: "re.Match[str]", end: int) -> _Block:
    """To the first fence that makes the code valid, else to the first one."""
    begin = min(opened.end() + 1, end)
    first: _Block | None = None
    at = begin
    for _ in range(_MAX_CLOSES):
        closed = _FENCE_CLOSE.search(text, at, end)
        if closed is None:
            break
        code = text[begin : max(begin, closed.start() - 1)]
        syntax = _syntax(code)
        if first is None:
            first = _Block(opened.start(), closed.end(), code, syntax)
        if not syntax:
            nested = (Form.NESTED_FENCES,) if closed.start() >= first.end else ()
            return _Block(opened.start(), closed.end(), code, nested)
        at = closed.end()
        if _FENCE_OPEN.search(text, first.end, at):  # that one closes another block
            break
    return first or _Block(opened.start(), end, None)


def _syntax(code: str) -> tuple[Form, ...]:
    if len(code) > _MAX_CHECKED_CHARS:
        return ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (Form.SYNTAX_ERROR,)
    return ()
