"""Code as the action: a python fence, or a `<code>` block that may hold one. The last block of an answer counts.

The code becomes a call of the tool `python` with the one argument `code`. `<answer>` ends the episode, whatever else
stands there. Code is kept as it was written, backslashes and all, but for indentation that all of it shares. What a
model thought, before its last `</think>`, is neither code nor answer.
"""

import json
from collections.abc import Sequence

from agent_servers.tool_agent.dialects.code_spans import Block, find_blocks
from agent_servers.tool_agent.dialects.code_syntax import dedented
from agent_servers.tool_agent.dialects.contract import (
    Action,
    BadCall,
    CallResult,
    Form,
    ToolCall,
    beside,
    call_id,
    thoughts_end,
)
from agent_servers.tool_agent.dialects.tagged import observe_in_user_message
from gym_core.servers.chat import SaidMessage
from gym_core.servers.tools import MAX_ARGUMENT_CHARS
from gym_core.types.tool import ToolFunction
from gym_core.types.wire import JsonObject

CODE_TOOL, CODE_ARGUMENT = "python", "code"
_ANSWER = "<answer>"

_SYSTEM = """You can run Python. Write the code in one block, the last one of your message:
<code>
```python
print("hello")
```
</code>
What it prints and shows comes back to you. When you know the answer, write it in <answer></answer> and no code."""


class CodeBlocks:
    def request_fields(self, functions: Sequence[ToolFunction]) -> JsonObject:
        return {}

    def system_text(self, functions: Sequence[ToolFunction]) -> str:
        return _SYSTEM if any(function.name == CODE_TOOL for function in functions) else ""

    def read(self, said: SaidMessage, functions: Sequence[ToolFunction], *, turn: int) -> Action:
        text = said.content or ""
        start = thoughts_end(text)
        if text.find(_ANSWER, start) >= 0:
            return Action(text)
        found = find_blocks(text, start)
        id_ = call_id(turn, 0)
        if not found.blocks:
            return Action(text, (_not_taken(text[start:], id_),)) if found.has_odd_fence else Action(text)
        last = found.blocks[-1]
        forms = (*last.forms, *([Form.SEVERAL_BLOCKS] if len(found.blocks) > 1 else []))
        return Action(beside(text, [(last.start, last.end)]), (_as_call(last, text, id_),), forms)

    def observe(self, results: Sequence[CallResult]) -> list[JsonObject]:
        return observe_in_user_message(results)


def _as_call(block: Block, text: str, id_: str) -> ToolCall | BadCall:
    written = text[block.start : min(block.end, block.start + 1000)]
    if block.code is None:
        return BadCall(id_, Form.UNCLOSED, "the code block is not closed", written)
    code = dedented(text[block.code[0] : block.code[1]])
    if not code.strip():
        return BadCall(id_, Form.EMPTY, "the code block is empty", written)
    arguments = json.dumps({CODE_ARGUMENT: code})
    if len(arguments) > MAX_ARGUMENT_CHARS:
        why = f"the code is longer than {MAX_ARGUMENT_CHARS} characters, as JSON"
        return BadCall(id_, Form.TOO_LONG, why, written)
    return ToolCall(id_, CODE_TOOL, arguments)


def _not_taken(said: str, id_: str) -> BadCall:
    why = "a fence names Python and has more on its first line: put the code on lines of its own, between two fences"
    return BadCall(id_, Form.NOT_TAKEN, why, said[:1000])
