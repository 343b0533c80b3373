"""Code as the action: a python fence, or a `<code>` block that may hold one. The last block of an answer counts.

The code becomes a call of the tool `python` with the one argument `code`. `<answer>` ends the episode, whatever else
stands there. Code is kept as it was written, backslashes and all, but for indentation that all of it shares. What a
model thought is neither code nor answer.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from agent_servers.tool_agent.dialects.code_marks import PYTHON
from agent_servers.tool_agent.dialects.code_spans import Block, find_blocks
from agent_servers.tool_agent.dialects.code_syntax import Syntax, SyntaxReader, dedented
from agent_servers.tool_agent.dialects.contract import (
    Action,
    BadCall,
    CallResult,
    Form,
    ToolCall,
    beside,
    call_id,
)
from agent_servers.tool_agent.dialects.tagged import observe_in_user_message
from agent_servers.tool_agent.dialects.thoughts import only_thought, without_thoughts
from gym_core.servers.chat import SaidMessage
from gym_core.servers.tools import MAX_ARGUMENT_CHARS
from gym_core.types.tool import ToolFunction
from gym_core.types.wire import JsonObject

CODE_TOOL, CODE_ARGUMENT = "python", "code"
_ANSWER = "<answer>"
_OPENER = re.compile(rf"<code>|(?:`{{3,}}|~{{3,}}){PYTHON}\b", re.IGNORECASE)

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
        spoken = without_thoughts(said, _WholeCode(text).holds)
        if _ANSWER in spoken:
            return Action(text)
        found = find_blocks(spoken, 0)
        id_ = call_id(turn, 0)
        if not found.blocks:
            odd = (_not_taken(spoken.strip(), id_),) if found.has_odd_fence else ()
            return Action(text, odd or only_thought(said, spoken, _OPENER, id_))
        last = found.blocks[-1]
        forms = (*last.forms, *([Form.SEVERAL_BLOCKS] if len(found.blocks) > 1 else []))
        return Action(beside(text, [(last.start, last.end)]), (_as_call(last, spoken, id_),), forms)

    def observe(self, results: Sequence[CallResult]) -> list[JsonObject]:
        return observe_in_user_message(results)


@dataclass(frozen=True)
class _WholeCode:
    """The code in a text whose thoughts are not known yet, where it compiles; read when it is first asked for."""

    text: str

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        syntax = SyntaxReader(self.text)
        codes = [block.code for block in find_blocks(self.text, 0).blocks if block.code]
        return [code for code in codes if syntax.look(*code) is Syntax.GOOD]

    def holds(self, at: int) -> bool:
        return any(begin <= at < end for begin, end in self._spans)


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
