"""The dialect `code`: which of several blocks is the action, where it ends, and what is spoken of and no action."""

import ast
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_servers.tool_agent.dialects.code_blocks import CodeBlocks
from agent_servers.tool_agent.dialects.contract import Action, BadCall, Form, ToolCall
from gym_core.servers.chat import SaidMessage
from gym_core.servers.tools import MAX_ARGUMENT_CHARS

FENCE = "```python\nprint(1)\n```"


def read(text: str) -> Action:
    return CodeBlocks().read(SaidMessage(content=text), [], turn=3)


def seen(text: str) -> tuple[str | None, list[Form]]:
    """The code that is run, and what was odd."""
    action = read(text)
    code = None
    forms = [*action.forms, *(call.form for call in action.calls if isinstance(call, BadCall))]
    for call in action.calls:
        if isinstance(call, ToolCall):
            code = json.loads(call.arguments)["code"]
    return code, forms


@pytest.mark.parametrize(
    ("text", "code", "odd"),
    [
        ("<code>\nprint(0)\n</code>\n" + FENCE, "print(1)", [Form.SEVERAL_BLOCKS]),
        (FENCE + "\n<code>print(0)</code>", "print(0)", [Form.SEVERAL_BLOCKS]),
        ("Plan: the `<code>` and `</code>` tags.\n" + FENCE, "print(1)", []),
        (FENCE + "\nThose were the `<code>` and `</code>` tags.", "print(1)", []),
        ("I write in <code> and </code> tags.\n" + FENCE, "print(1)", []),
        (FENCE + "\nThat was in <code> and </code> tags.", "print(1)", []),
        (FENCE + "\nThat was in <code> tags.", "print(1)", []),
        ("I write in <code> tags.\n<code>\nprint(1)\n</code>", "print(1)", []),
        (FENCE + "\nThis prints the value of <code>x</code>.", "print(1)", []),
        (FENCE + "\n<code>x</code> is printed.", "print(1)", []),
        ("I use <code>print()</code> below.\n" + FENCE + "\nThen <code>print()</code> shows it.", "print(1)", []),
        ("<code>\nprint(1)\n</code>\nThe result is in <code>result</code>", "print(1)", []),
        ("I run <code>x = 1</code>, and then <code>x + 1</code>.", "x + 1", [Form.SEVERAL_BLOCKS]),
        ("I run <code>x = 1</code> in <code> and </code> tags.", "x = 1", []),
    ],
)
def test_the_last_block_counts_whatever_it_stands_in(text: str, code: str, odd: list[Form]) -> None:
    assert seen(text) == (code, odd)


@pytest.mark.parametrize(
    "code",
    [
        "print('</code>')",
        "print('<code>')",
        "print('<code>hi</code>')",
        "print('a <code>hi</code> b')",
        "s = '''\n</code>\n'''",
        "x = '</code>'  # <code>",
        "s = '''\n<code>\n```python\nprint(2)\n```\n</code>\n'''",
        "s = 'ends with ```'\nt = 1  # ```",
        "s = '''a ```python\n'''",
    ],
)
@pytest.mark.parametrize("form", ["```python\n{}\n```", "<code>\n```python\n{}\n```\n</code>", "<code>\n{}\n</code>"])
def test_a_tag_or_a_fence_in_the_code_is_a_part_of_it(form: str, code: str) -> None:
    assert seen("I run\n" + form.format(code) + "\nnow")[0] == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<code>\n```\nprint(1)\n```\n</code>", "print(1)"),
        ("<code>```\nprint(1)\n```</code>", "print(1)"),
        ("<code>```python print(1)```</code>", "print(1)"),
        ("<code>\n```print(1)```\n</code>", "print(1)"),
        ("<code>\n```python\nprint(1)```\n</code>", "print(1)"),
        ("<code>\n```python\nprint(1)```</code>", "print(1)"),
        ("<code>\n  print(1)\n  print(2)\n</code>", "print(1)\nprint(2)"),
        ("<code> print(1)\nprint(2)</code>", "print(1)\nprint(2)"),
        ("- so:\n  ```python\n  if x:\n    y = 2\n  ```", "if x:\n  y = 2"),
        ("<code>\n    ```python\n    print(1)\n    ```\n</code>", "print(1)"),
        ("```ipython\nprint(1)\n```", "print(1)"),
        ("```ipython3\nprint(1)\n```", "print(1)"),
        ('```python title=x name="a b" {.numbers}\nprint(1)\n```', "print(1)"),
        ("~~~python\nprint(1)\n~~~", "print(1)"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''"),
        ("I run: ```python\nprint(1)\n```", "print(1)"),
        ("1. ```python\nprint(1)\n```", "print(1)"),
        ("<CODE>\nprint(1)\n</CODE>", "print(1)"),
        ("```python\nprint(1)```", "print(1)"),
        ("```python\nprint(1)```\nand\n```text\n1\n```", "print(1)"),
    ],
)
def test_ways_to_write_a_block(text: str, code: str) -> None:
    assert seen(text) == (code, [])


@pytest.mark.parametrize(
    ("text", "code", "odd"),
    [
        ("<code>\n```python\nprint(1)\n</code>", "print(1)", [Form.UNCLOSED]),
        ("<code>print(1</code>", "print(1", [Form.SYNTAX_ERROR]),
        ("<code>print('</code>') + (</code>", "print('</code>') + (", [Form.SYNTAX_ERROR]),
        ("I run: ```python\nprint(1\n```", "print(1", [Form.SYNTAX_ERROR]),
        ("```python\nx = (  # ```\n```", "x = (  # ```", [Form.SYNTAX_ERROR]),
        (f"{FENCE}\n```python\nprint(2", None, [Form.SEVERAL_BLOCKS, Form.UNCLOSED]),
        ("```python print(1)```", None, [Form.NOT_TAKEN]),
        ("Look.\n```python see below\nprint(1)\n```", None, [Form.NOT_TAKEN]),
        (f"```python print(2)```\n{FENCE}", "print(1)", []),
        ("```python\ns = '" + "é" * (MAX_ARGUMENT_CHARS // 6) + "'\n```", None, [Form.TOO_LONG]),
    ],
)
def test_odd_forms_are_named(text: str, code: str | None, odd: list[Form]) -> None:
    assert seen(text) == (code, odd)


def test_code_that_the_dialect_takes_is_as_long_as_a_tool_takes() -> None:
    code = "#" * (MAX_ARGUMENT_CHARS - len(json.dumps({"code": ""})))
    (call,) = read(f"<code>{code}</code>").calls
    assert isinstance(call, ToolCall)
    assert len(call.arguments) == MAX_ARGUMENT_CHARS
    assert seen(f"<code>{code}#</code>")[1] == [Form.TOO_LONG]


@pytest.mark.parametrize(
    "text",
    [
        "It is 3, as `print(3)` says.",
        "It is 3:\n```\nprint(3)\n```",
        "It is 3:\n```text\nprint(3)\n```",
        "It is 3, from ``` ```python print(3)``` ``` or so.",
        "A block begins with ```python\nas I said. It is 3.",
        "I used the `<code>` and `</code>` tags. It is 3.",
        f"{FENCE}\n<answer>3</answer>",
    ],
)
def test_an_answer_that_quotes_code_ends_the_rollout(text: str) -> None:
    assert read(text) == Action(text)


def test_what_was_thought_is_neither_code_nor_answer() -> None:
    thought = "<think>I'll end with <answer></answer>, but first\n```python\nprint(0)\n```\n</think>"
    assert seen(f"{thought}\n{FENCE}") == ("print(1)", [])
    assert read(f"{thought}\n{FENCE}").text == thought
    assert read(f"{thought} It is 3.").calls == ()
    assert read(f"{thought} <answer>3</answer>").calls == ()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('Look.\n```python\nprint("</think>")\nx = 1\n```', 'print("</think>")\nx = 1'),
        ("<think>hm</think><code>print('<think></think>')</code>", "print('<think></think>')"),
        ("I could write\n```python\nprint(0)\n```\nor\n</think>\n" + FENCE, "print(1)"),
        ("I could write\n```python\nprint(0)\n</think>\n" + FENCE, "print(1)"),
        (FENCE + "\n<think>That was it.</think> Now I wait.", "print(1)"),
        ("<think>hm</think>" + FENCE + "\n</think>", "print(1)"),
    ],
)
def test_code_is_parted_from_thoughts_and_may_name_their_tags(text: str, code: str) -> None:
    assert seen(text) == (code, [])


WORST = [
    "<think>", "</think>", "</think><code>x\n", "```python\n</think>\n", "<think>```python\nx='</think>'\n```\n",
    "<code>", "</code>", "```python\n", "\n```\n", "```", "x```\n", "<code>```", "<code>\n```python\n'</code>'\n```\n",
    "````python\n```\n", "<code>x</code", "\n", " ", "`<code>`", "I: ```python\nx(\n", "<code>(</code>", "~~~ ",
    "'</code>'", "```python x\n", "<code>\n\n\n\n", "```python\n(\n```\n",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("piece", WORST)
@pytest.mark.parametrize("ends", [("", ""), ("<code>" * 20_000, ""), ("", "\n</code>\n```\n" * 20_000)])
def test_no_long_text_takes_long(piece: str, ends: tuple[str, str]) -> None:
    text = ends[0] + piece * (400_000 // len(piece)) + ends[1]
    began = time.process_time()
    read(text)
    assert time.process_time() - began < 4, "a few tenths are usual"


lines = st.lists(
    st.sampled_from(["x = 1", "y = '</code>'", "# ```", "if x:\n    y = 2", "z = '<code>'", "s = '''\n```\n'''", ""]),
    min_size=1,
)
forms = st.sampled_from(
    ["```python\n{}\n```", "~~~py\n{}\n~~~", "<code>\n```python\n{}\n```\n</code>", "<CODE>\n{}\n</CODE>"]
)


@settings(max_examples=80, deadline=None)
@given(lines, forms, st.sampled_from(["", "<code>print(0)</code>\n", FENCE + "\n", "the `<code>` tag\n"]))
def test_code_is_the_same_program_in_every_form(written: list[str], form: str, before: str) -> None:
    code = "\n".join(written)
    if ast.parse(code).body:
        found = seen(before + form.format(code) + "\nThat is it.")[0]
        assert found is not None
        assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(code))
