"""The dialects: each form, each odd form with its name, and whatever else a model may write."""

import ast
import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_servers.tool_agent.dialects.code_blocks import CODE_TOOL
from agent_servers.tool_agent.dialects.contract import (
    MAX_ACTION_CHARS,
    MAX_CALLS_A_TURN,
    Action,
    BadCall,
    CallResult,
    Form,
    ToolCall,
)
from agent_servers.tool_agent.dialects.names import DialectName, dialect_of
from gym_core.servers.chat import SaidMessage
from gym_core.types.responses import InputImage, InputText
from gym_core.types.tool import ToolFunction

ZOOM = ToolFunction(
    name="zoom",
    description="Enlarges.",
    parameters={"type": "object", "properties": {"x": {"type": "number"}, "label": {"type": "string"}, "box": {}}},
)
PYTHON = ToolFunction(name=CODE_TOOL, description="Runs code.", parameters={"type": "object"})
FUNCTIONS = [ZOOM, PYTHON]
NAMES: list[DialectName] = ["openai", "tagged_json", "tagged_xml", "code"]
PICTURE = InputImage(image_url="data:image/png;base64,AAAA")


def read(name: DialectName, text: str) -> Action:
    return dialect_of(name, tool_images="user").read(SaidMessage(content=text), FUNCTIONS, turn=3)


def forms(action: Action) -> list[Form]:
    return [*action.forms, *(call.form for call in action.calls if isinstance(call, BadCall))]


def calls(action: Action) -> list[tuple[str, object]]:
    return [(c.name, json.loads(c.arguments)) for c in action.calls if isinstance(c, ToolCall)]


def code_of(action: Action) -> str:
    ((name, arguments),) = calls(action)
    assert name == CODE_TOOL
    assert isinstance(arguments, dict)
    return str(arguments["code"])


@pytest.mark.parametrize("name", NAMES)
def test_a_text_without_a_call_is_a_final_answer_word_for_word(name: DialectName) -> None:
    said = "  It is \\boxed{3} | <b> ``` <tool_ call> \n"
    assert read(name, said) == Action(said)


# -- <tool_call> JSON -------------------------------------------------------

GOOD = '<tool_call>\n{"name": "zoom", "arguments": {"x": 0.5}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "found", "odd", "beside"),
    [
        (GOOD, [("zoom", {"x": 0.5})], [], ""),
        (f"Look.\n{GOOD}", [("zoom", {"x": 0.5})], [], "Look."),
        (f"{GOOD}\n{GOOD}", [("zoom", {"x": 0.5})] * 2, [], ""),
        (f"a {GOOD} b {GOOD} c", [("zoom", {"x": 0.5})] * 2, [], "a\n\nb\n\nc"),
        (GOOD.removesuffix("\n</tool_call>"), [("zoom", {"x": 0.5})], [Form.UNCLOSED], ""),
        ('<tool_call>{"name": "zoom", "arguments": {"x": 0.', [], [Form.UNCLOSED], ""),
        ("<tool_call>", [], [Form.UNCLOSED], ""),
        ("<tool_call> \n </tool_call>", [], [Form.EMPTY], ""),
        ("<tool_call>zoom(1)</tool_call>", [], [Form.NOT_JSON], ""),
        ("<tool_call>{'name': 'zoom'}</tool_call>", [], [Form.NOT_JSON], ""),
        ('<tool_call>{"name": 3, "arguments": {}}</tool_call>', [], [Form.NOT_A_CALL], ""),
        ('<tool_call>{"name": "", "arguments": {}}</tool_call>', [], [Form.NOT_A_CALL], ""),
        ('<tool_call>[{"name": "zoom"}]</tool_call>', [], [Form.NOT_A_CALL], ""),
        ('<tool_call>{"name": "zoom"}</tool_call>', [("zoom", {})], [], ""),
        ('<tool_call>{"name": "zoom", "arguments": "{\\"x\\": 1}"}</tool_call>', [("zoom", {"x": 1})], [], ""),
        (f"<tool_call>{{</tool_call>{GOOD}", [("zoom", {"x": 0.5})], [Form.NOT_JSON], ""),
        (
            '<tool_call>{"name": "zoom", "arguments": {"label": "a </tool_call> b \\\\n é"}}</tool_call> end',
            [("zoom", {"label": "a </tool_call> b \\n é"})],
            [],
            "end",
        ),
        (f'<tool_call>"{"x" * MAX_ACTION_CHARS}"</tool_call>', [], [Form.TOO_LONG], ""),
        ("<tool_call>" + "[" * 5000 + "</tool_call>", [], [Form.NOT_JSON], ""),
        ("<tool_call>" + "9" * 6000 + "</tool_call>", [], [Form.NOT_JSON], ""),
        ('<tool_call>{"name": "\\ud800", "arguments": ["\\udc00é"]}</tool_call>', [("?", ["?é"])], [], ""),
    ],
)
def test_tagged_json(text: str, found: list[tuple[str, object]], odd: list[Form], beside: str) -> None:
    action = read("tagged_json", text)
    assert (calls(action), forms(action), action.text) == (found, odd, beside)
    assert len({call.call_id for call in action.calls}) == len(action.calls)


def test_calls_past_the_limit_are_left_out_and_noted() -> None:
    action = read("tagged_json", GOOD * (MAX_CALLS_A_TURN + 5))
    assert (len(action.calls), forms(action)) == (MAX_CALLS_A_TURN, [Form.TOO_MANY])


# -- <tool_call> XML --------------------------------------------------------


def xml(body: str, name: str = "zoom") -> str:
    return f"<tool_call>\n<function={name}>\n{body}\n</function>\n</tool_call>"


def parameter(name: str, value: str) -> str:
    return f"<parameter={name}>\n{value}\n</parameter>"


@pytest.mark.parametrize(
    ("text", "found", "odd"),
    [
        (xml(parameter("x", "0.5")), [("zoom", {"x": 0.5})], []),
        (xml("<parameter=x>0.5</parameter>"), [("zoom", {"x": 0.5})], []),
        (xml(""), [("zoom", {})], []),
        (xml(parameter("label", "0.5")), [("zoom", {"label": "0.5"})], []),
        (xml(parameter("label", "a\n\\n\nb ")), [("zoom", {"label": "a\n\\n\nb "})], []),
        (xml(parameter("x", "half")), [("zoom", {"x": "half"})], []),
        (xml(parameter("other", "0.5")), [("zoom", {"other": "0.5"})], []),
        (xml(parameter("x", "1") + parameter("label", "é 图")), [("zoom", {"x": 1, "label": "é 图"})], []),
        (xml(parameter("x", "1")) + xml("", "python"), [("zoom", {"x": 1}), ("python", {})], []),
        (xml(parameter("x", "1")).removesuffix("</tool_call>"), [("zoom", {"x": 1})], [Form.UNCLOSED]),
        ("<tool_call><function=zoom><parameter=x>1", [], [Form.UNCLOSED]),
        ("<tool_call><function=zoom><parameter=x>1</function></tool_call>", [], [Form.UNCLOSED]),
        ("<tool_call></tool_call>", [], [Form.EMPTY]),
        (GOOD, [], [Form.NOT_A_CALL]),
        ("<tool_call><function=></function></tool_call>", [], [Form.NOT_A_CALL]),
        ("<tool_call>" + "x" * (MAX_ACTION_CHARS + 1) + "</tool_call>", [], [Form.TOO_LONG]),
    ],
)
def test_tagged_xml(text: str, found: list[tuple[str, object]], odd: list[Form]) -> None:
    action = read("tagged_xml", text)
    assert (calls(action), forms(action)) == (found, odd)


BARE = f"<function=zoom>\n{parameter('x', '1')}\n</function>"


@pytest.mark.parametrize(
    ("text", "found", "odd", "beside"),
    [
        (BARE, [("zoom", {"x": 1})], [Form.NO_TAG], ""),
        (f"I look. {BARE}\n</tool_call>\n", [("zoom", {"x": 1})], [Form.NO_TAG], "I look."),
        (f"{BARE}\n{BARE}", [("zoom", {"x": 1})] * 2, [Form.NO_TAG] * 2, ""),
        (xml("") + BARE, [("zoom", {}), ("zoom", {"x": 1})], [Form.NO_TAG], ""),
        (f"With <function=zoom>: {xml('')}", [("zoom", {})], [], "With <function=zoom>:"),
        ("<function=zoom> is how one writes it", [], [], "<function=zoom> is how one writes it"),
    ],
)
def test_a_function_without_its_tag_is_a_call_where_it_is_closed(
    text: str, found: list[tuple[str, object]], odd: list[Form], beside: str
) -> None:
    action = read("tagged_xml", text)
    assert (calls(action), forms(action), action.text) == (found, odd, beside)


# -- thoughts ---------------------------------------------------------------


@pytest.mark.parametrize(("name", "call"), [("tagged_json", GOOD), ("tagged_xml", xml("")), ("tagged_xml", BARE)])
def test_a_call_in_thoughts_is_not_run(name: DialectName, call: str) -> None:
    thought = f"<think>I could write {call}, but no.</think>\n"
    assert read(name, f"{thought}It is 3.") == Action(f"{thought}It is 3.")
    said = read(name, f"{thought}{call}")
    assert (len(calls(said)), said.text) == (1, thought.strip())
    untagged = read(name, f"I could write {call}, but no.</think>{call}")
    assert len(calls(untagged)) == 1


def xml_label(label: str) -> str:
    return f"<tool_call><function=zoom><parameter=label>{label}</parameter></function></tool_call>"


def json_label(label: str) -> str:
    return f'<tool_call>{{"name": "zoom", "arguments": {{"label": "{label}"}}}}</tool_call>'


@pytest.mark.parametrize("label", ["</think>", "a <think> b", "a <think> b </think> c"])
@pytest.mark.parametrize("before", ["", "<think>hm</think>", "I would use <tool_call>.</think>"])
@pytest.mark.parametrize(("name", "written"), [("tagged_json", json_label), ("tagged_xml", xml_label)])
def test_an_argument_may_name_the_tags_of_thoughts(
    name: DialectName, written: Callable[[str], str], before: str, label: str
) -> None:
    assert calls(read(name, before + written(label))) == [("zoom", {"label": label})]


@pytest.mark.parametrize("thought", [SaidMessage(reasoning_content="hm"), SaidMessage(reasoning="hm")])
@pytest.mark.parametrize(
    ("name", "call"), [("tagged_json", GOOD), ("tagged_xml", xml("")), ("code", "```python\nprint(1)\n```")]
)
def test_a_tag_beside_thoughts_that_the_endpoint_gave_apart_drops_no_call(
    name: DialectName, call: str, thought: SaidMessage
) -> None:
    said = msgspec.structs.replace(thought, content=f"{call}\n</think>")
    assert len(calls(dialect_of(name, tool_images="user").read(said, FUNCTIONS, turn=3))) == 1


@pytest.mark.parametrize("begin", ["", "<think>"])
@pytest.mark.parametrize(
    ("name", "call"),
    [("tagged_json", GOOD), ("tagged_xml", xml("")), ("tagged_xml", BARE), ("code", "```python\nprint(1)\n```")],
)
def test_an_answer_of_nothing_but_thoughts_with_a_call_is_told_to_the_model(
    name: DialectName, call: str, begin: str
) -> None:
    action = read(name, f"{begin}I look.\n{call}\n</think>\n")
    assert (calls(action), forms(action)) == ([], [Form.IN_THOUGHTS])
    assert read(name, f"{begin}I look.</think>\n").calls == ()


# -- code -------------------------------------------------------------------

FENCE = "```python\nprint(1)\n```"


@pytest.mark.parametrize(
    ("text", "code", "odd"),
    [
        (FENCE, "print(1)", []),
        (f"Look.\n{FENCE}\nDone.", "print(1)", []),
        (FENCE.replace("python", "py"), "print(1)", []),
        (FENCE.replace("python", "Python3"), "print(1)", []),
        (FENCE.replace("\n", "\r\n"), "print(1)\r", []),
        (f"<code>\n{FENCE}\n</code>", "print(1)", []),
        (f"<code>{FENCE}\n</code>", "print(1)", []),
        ("<code>\nprint(1)\n</code>", "print(1)", []),
        (f"{FENCE}\nand\n```python\nprint(2)\n```", "print(2)", [Form.SEVERAL_BLOCKS]),
        (f"<code>\n{FENCE}\n</code> <code>print(3)</code>", "print(3)", [Form.SEVERAL_BLOCKS]),
        (f"<code>\n{FENCE}\n", "print(1)", [Form.UNCLOSED]),
        ('```python\ns = """\n```\n"""\n```', 's = """\n```\n"""', [Form.NESTED_FENCES]),
        ("```python\nprint(1\n```", "print(1", [Form.SYNTAX_ERROR]),
        ("```python\nprint(1\n```\nthen\n```text\nx\n```", "print(1", [Form.SYNTAX_ERROR]),
        (
            "```python\nprint(1\n```\n```python\nprint(2)\n```",
            "print(2)",
            [Form.SEVERAL_BLOCKS],
        ),
        ("```python\nprint('\\n\\\\d', r'\\d')\n```", "print('\\n\\\\d', r'\\d')", []),
        ("```python\nnaïve = '图 😀'\n```", "naïve = '图 😀'", []),
        ("```python\nx = '\\0' \x00\n```", "x = '\\0' \x00", [Form.SYNTAX_ERROR]),
    ],
)
def test_code(text: str, code: str, odd: list[Form]) -> None:
    action = read("code", text)
    assert (code_of(action), forms(action)) == (code, odd)


@pytest.mark.parametrize(
    ("text", "odd"),
    [
        ("```python\nprint(1)", Form.UNCLOSED),
        ("<code>\nprint(1)", Form.UNCLOSED),
        ("```python\n```", Form.EMPTY),
        ("<code> \n </code>", Form.EMPTY),
        ("<code>" + "x" * (MAX_ACTION_CHARS + 1) + "</code>", Form.TOO_LONG),
    ],
)
def test_a_code_block_that_cannot_be_run_is_a_bad_call(text: str, odd: Form) -> None:
    action = read("code", text)
    assert (calls(action), forms(action)) == ([], [odd])


@pytest.mark.parametrize("text", [f"<answer>\\boxed{{3}}</answer>\n{FENCE}", "```\nprint(1)\n```", "`print(1)`"])
def test_an_answer_tag_and_a_fence_of_no_language_are_no_code(text: str) -> None:
    assert read("code", text) == Action(text)


def test_what_stands_beside_the_code_is_kept() -> None:
    assert read("code", f"First.\n{FENCE}\nThen.").text == "First.\n\nThen."


# -- the endpoint's own calls -----------------------------------------------


def test_the_endpoints_calls_are_taken_in_its_order_and_its_ids_kept_beside_ours() -> None:
    said = msgspec.json.decode(
        json.dumps(
            {
                "content": "Look.",
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "zoom", "arguments": '{"x": 1}'}},
                    {"function": {"name": "zoom", "arguments": {"x": 2}}},
                    {"id": "c", "function": {"arguments": "{}"}},
                    {"id": "d", "function": {"name": "zoom", "arguments": "{"}},
                ],
            }
        ),
        type=SaidMessage,
    )
    action = dialect_of("openai", tool_images="user").read(said, FUNCTIONS, turn=3)
    first, second, third, fourth = action.calls
    assert first == ToolCall("call_3_0", "zoom", '{"x": 1}', "a")
    assert isinstance(second, ToolCall)
    assert (second.call_id, json.loads(second.arguments)) == ("call_3_1", {"x": 2})
    assert isinstance(third, BadCall)
    assert (third.form, third.endpoint_id) == (Form.NOT_A_CALL, "c")
    assert fourth == ToolCall("call_3_3", "zoom", "{", "d")  # its tool says what is wrong


# -- telling the model ------------------------------------------------------

CUT = CallResult(ToolCall("call_0_0", "zoom", "{}", "a"), (PICTURE, InputText(text="cut")))
SAID = CallResult(ToolCall("b", "zoom", "{}"), (InputText(text="none"),))
IMAGE = {"type": "image_url", "image_url": {"url": PICTURE.image_url}}


def test_pictures_of_tools_follow_their_messages_as_a_users() -> None:
    assert dialect_of("openai", tool_images="user").observe([CUT, SAID]) == [
        {"role": "tool", "tool_call_id": "a", "content": "cut"},
        {"role": "tool", "tool_call_id": "b", "content": "none"},
        {"role": "user", "content": [{"type": "text", "text": "Attached media from tool result:"}, IMAGE]},
    ]


def test_pictures_of_tools_stand_in_their_messages_where_the_template_takes_them() -> None:
    assert dialect_of("openai", tool_images="tool").observe([CUT, SAID]) == [
        {"role": "tool", "tool_call_id": "a", "content": [IMAGE, {"type": "text", "text": "cut"}]},
        {"role": "tool", "tool_call_id": "b", "content": "none"},
    ]


@pytest.mark.parametrize("name", ["tagged_json", "tagged_xml", "code"])
def test_a_text_dialect_answers_calls_in_one_user_message(name: DialectName) -> None:
    (message,) = dialect_of(name, tool_images="user").observe([CUT, SAID])
    assert message["role"] == "user"
    texts = [part.get("text") for part in message["content"]]
    assert texts == ["<tool_response>", None, "cut\n</tool_response>\n<tool_response>\nnone\n</tool_response>"]
    (plain,) = dialect_of(name, tool_images="user").observe([SAID])
    assert plain["content"] == "<tool_response>\nnone\n</tool_response>"


@pytest.mark.parametrize("name", NAMES)
def test_tools_are_declared_in_the_request_or_in_the_system_prompt(name: DialectName) -> None:
    dialect = dialect_of(name, tool_images="user")
    fields, told = dialect.request_fields(FUNCTIONS), dialect.system_text(FUNCTIONS)
    assert bool(fields) != bool(told)
    assert (dialect.request_fields([]), dialect.system_text([])) == ({}, "")
    if name in ("tagged_json", "tagged_xml"):
        assert '"name": "zoom"' in told


def test_the_example_of_a_dialects_system_prompt_is_a_call_of_it() -> None:
    told = dialect_of("tagged_xml", tool_images="user").system_text(FUNCTIONS)
    assert calls(read("tagged_xml", told)) == [("example_function_name", {"example_parameter_1": "value_1"})]
    assert 'print("hello")' in code_of(
        read("code", dialect_of("code", tool_images="user").system_text(FUNCTIONS)[:150])
    )


# -- whatever a model writes ------------------------------------------------

PIECES = [
    "<tool_call>", "</tool_call>", "<function=zoom>", "</function>", "<parameter=x>", "</parameter>", "<code>",
    "</code>", "```python\n", "\n```\n", "```", "<answer>", '{"name": "zoom", "arguments": {}}', '{"name": "', '"',
    "\\", '"""', "\n", "\r\n", "é", "\\ud800", "\x00", "x = 1", "print(", "[" * 40, "<think>",
    "</think>",
]  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=40).map("".join)


@settings(max_examples=60, deadline=None)
@given(texts)
@pytest.mark.parametrize("name", ["tagged_json", "tagged_xml", "code"])
def test_no_text_breaks_a_dialect(name: DialectName, text: str) -> None:
    action = read(name, text)
    assert len({call.call_id for call in action.calls}) == len(action.calls) <= MAX_CALLS_A_TURN
    if not action.calls:
        assert action == Action(text)
    for call in action.calls:
        if isinstance(call, ToolCall):
            call.name.encode()
            call.arguments.encode()
            if name != "tagged_json":  # there the arguments may be a text, which is the tool's to read
                json.loads(call.arguments)
        else:
            assert call.reason
    results = [CallResult(call, (InputText(text="ok"),)) for call in action.calls]
    assert dialect_of(name, tool_images="user").observe(results)[0]["role"] == "user"


json_values = st.none() | st.floats(allow_nan=False) | st.text(max_size=20) | st.lists(st.integers(), max_size=3)
arguments = st.dictionaries(st.text(max_size=8), json_values, max_size=4)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.text(min_size=1, max_size=9), arguments), min_size=1, max_size=4), st.text(max_size=9))
def test_calls_that_are_written_as_json_are_read_as_they_were(written: list[tuple[str, object]], between: str) -> None:
    blocks = [f"<tool_call>\n{json.dumps({'name': n, 'arguments': a})}\n</tool_call>" for n, a in written]
    assert calls(read("tagged_json", between.join(blocks))) == written


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["x = 1", "y = '\\n'", "# ```", "if x:\n    y = 2", "print(r'\\d')"]), min_size=1))
def test_valid_code_comes_through_a_fence_as_it_was(lines: list[str]) -> None:
    code = "\n".join(lines)
    ast.parse(code)
    assert code_of(read("code", f"I run\n```python\n{code}\n```\nnow")) == code
