"""Conversations and answers that two engines must read alike, and the pictures in them."""

import io
import json
import random

from PIL import Image

from gym_core.capture.images import make_data_url
from gym_core.types.wire import JsonObject

BASH: JsonObject = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Runs a command and returns its output, <b>at most</b> 30 kB & no colours — é",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}
TOOLS = [BASH]


def picture_url(seed: int, width: int = 56, height: int = 56) -> str:
    """A picture of noise around one colour, the same for the same numbers. 56 x 56 needs no scaling by Qwen2-VL."""
    rng = random.Random(seed)
    colour = [rng.randrange(256) for _ in range(3)]
    pixels = bytes(min(255, max(0, colour[at % 3] + rng.randint(-20, 20))) for at in range(width * height * 3))
    buffer = io.BytesIO()
    Image.frombytes("RGB", (width, height), pixels).save(buffer, "PNG")
    return make_data_url(buffer.getvalue())


def picture(seed: int, width: int = 56, height: int = 56) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": picture_url(seed, width, height)}}


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def user(*parts: JsonObject) -> JsonObject:
    return {"role": "user", "content": list(parts)}


def call(command: str, said: str | None = "ok") -> JsonObject:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {
        "role": "assistant",
        "content": said,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


def result(*parts: JsonObject) -> JsonObject:
    return {"role": "tool", "tool_call_id": "c1", "content": list(parts)}


CONVERSATIONS: dict[str, tuple[list[JsonObject], list[JsonObject] | None]] = {
    "text": ([{"role": "user", "content": "hello there"}], None),
    "system and text parts": (
        [{"role": "system", "content": "be brief"}, user(text("a"), text("b"))],
        None,
    ),
    "one picture": ([user(picture(1), text("what"))], None),
    "two pictures of odd sizes": ([user(picture(2, 50, 130), text("and"), picture(3, 300, 40))], None),
    "tools": ([{"role": "user", "content": "list <b>&é files"}], TOOLS),
    "a call and a picture as its result": (
        [user(picture(4), text("q")), call("ls -a | grep 'é<'"), result(text("done"), picture(5))],
        TOOLS,
    ),
    "text results and reasoning": (
        [
            {"role": "system", "content": [text("one"), text("two")]},
            {"role": "user", "content": "q"},
            {**call("ls", None), "reasoning": "let me see"},
            result(text("first"), text("second")),
            {"role": "assistant", "content": [text("so"), text("what")]},
            {"role": "user", "content": "again"},
        ],
        TOOLS,
    ),
}

LEAK_SHAPES: dict[str, list[JsonObject]] = {
    "a system prompt of text": [{"role": "system", "content": "sys"}, {"role": "user", "content": "q"}],
    "an answer of text": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "r"},
    ],
    "an answer of parts": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [text("a")]},
        {"role": "user", "content": "r"},
    ],
}
"""Each makes a template that prints content as it is print a Python list, strings included."""

GOOD_CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
BROKEN_CALL = '<tool_call>\n{"name": "bash", "argum\n</tool_call>'
NAMELESS_CALL = '<tool_call>\n{"nam\n</tool_call>'
CUT_CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "a\n</tool_call>'

ANSWERS = {
    "text": "abc",
    "a call": GOOD_CALL,
    "text and a call": f"hi\n{GOOD_CALL}",
    "two calls and a tail": f"ok\n{GOOD_CALL}\n{GOOD_CALL}\ntail",
    "a broken call": BROKEN_CALL,
    "a call without a name": NAMELESS_CALL,
    "a call cut within its arguments": CUT_CALL,
    "a call without arguments": '<tool_call>\n{"name": "bash"}\n</tool_call>',
    "an open call": '<tool_call>\n{"name": "bash", "arguments": {"command": "l',
    "something like a tag": "x <tool <b> < y",
    "thought and text": "<think>\nabc\n</think>\n\nxyz",
    "thought and a call": f"<think>\nabc\n</think>\n\n{GOOD_CALL}",
    "thought and a broken call": f"<think>\na\n</think>\n\n{BROKEN_CALL}",
    "the end of a thought alone": "abc\n</think>\n\nxyz",
    "a thought begun late": "abc <think> d </think> e",
    "nothing": "",
}
