"""What a policy writes that a chat template prints otherwise: `--script` of the tiny engine, and grammars for vLLM.

The first user message says which shape an answer is to have, as `shape NAME SEED`; later answers are of the same shape.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gym_core.types.wire import JsonObject

SHAPE = re.compile(r"shape (\w+) (\d+)")
CALL = r'<tool_call>\n\{"name": "bash", "arguments": \{"command": "[a-z]{2,8}"\}\}\n</tool_call>'


@dataclass(frozen=True)
class Shape:
    written: str | None
    """`WORD` stands for small letters, drawn anew each time; None lets the model speak."""
    regex: str | None
    """The same as a grammar, for an engine that has them."""
    max_tokens: int = 80


SHAPES = {
    "text": Shape("WORD has WORD WORD on its left, WORD", r"[A-Za-z ]{10,30}"),
    "cut": Shape("WORD WORD WORD WORD WORD WORD WORD WORD", None, max_tokens=6),
    "call": Shape('<tool_call>\n{"name": "bash", "arguments": {"command": "WORD"}}\n</tool_call>', CALL),
    "compact": Shape(
        '<tool_call>{"name":"bash","arguments":{"command":"WORD"}}</tool_call>',
        r'<tool_call>\{"name":"bash","arguments":\{"command":"[a-z]{2,8}"\}\}</tool_call>',
    ),
    "both": Shape(
        'WORD\n<tool_call>\n{"name": "bash", "arguments": {"command": "WORD"}}\n</tool_call>',
        r"[a-z]{3,9}\n" + CALL,
    ),
    "two": Shape(
        '<tool_call>\n{"name": "bash", "arguments": {"command": "WORD"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "bash", "arguments": {"command":"WORD"}}\n</tool_call>',
        CALL + r"\n" + CALL,
    ),
    "angle": Shape(
        '<tool_call>\n{"name": "bash", "arguments": {"command": "WORD<b && c>\'d"}}\n</tool_call>',
        r'<tool_call>\n\{"name": "bash", "arguments": \{"command": "a<b && c>\x27d"\}\}\n</tool_call>',
    ),
    "free": Shape(None, None, max_tokens=24),
}


def write(messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None) -> str | None:
    said = [(message["role"], str(message["content"])) for message in messages]
    found = next((match for _, text in said if (match := SHAPE.search(text))), None)
    written = SHAPES[found[1]].written if found else None
    if found is None or written is None:
        return None
    rng = random.Random(f"{found[0]} {sum(role == 'assistant' for role, _ in said)}")
    return re.sub("WORD", lambda _: "".join(rng.choices("abcdefgeiou", k=rng.randint(3, 8))), written)
