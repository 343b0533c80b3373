"""The pure parts of the contract: results, arguments, messages, endings, ids; and the stand-in's own types."""

import base64
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_core.config.roots import INSTALL_DIR, Roots
from gym_core.errors import ConfigError, FailureKind, JudgeError, SandboxError
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputMessage,
    InputText,
    OutputItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
)
from gym_core.types.wire import JsonObject
from resources_servers.benchmax.arguments import misfits, names_taken, schema_fault
from resources_servers.benchmax.looks import count_looks
from resources_servers.benchmax.source import EnvironmentSource, base_module, load_environment, source_sha256
from resources_servers.benchmax.termination import as_episode_error
from resources_servers.benchmax.tool_results import MAX_RESULT_CHARS, parts_of
from resources_servers.benchmax.transcript import chat_messages, prompt_items

PNG = b"\x89PNG\r\n\x1a\n"
URL = f"data:image/None;base64,{base64.b64encode(PNG).decode()}"
ROOTS = Roots((INSTALL_DIR,))
ID_OF_MIXED = "101fb26864e5c5842c5b6e8f1da71ad610fb1c0b4179c0b1e19477dff83519a2"
ID_OF_ZERO = "66362bb829b2ab6152f8340d24f5c3a9eac39c351ec9cf12d66b3a22ee6e8559"
PICTURE: JsonObject = {"type": "image_url", "image_url": {"url": URL}}


@pytest.mark.parametrize(
    ("result", "parts"),
    [
        ("text", ["text"]),
        (None, [""]),
        (7, ["7"]),
        (0.5, ["0.5"]),
        (True, ["true"]),
        ({"a": [1, "ü"]}, ['{"a":[1,"ü"]}']),
        ([1, 2], ["[1,2]"]),
        ((), ["[]"]),
        ([], ["[]"]),
        ([{"type": "text", "text": "a"}, PICTURE], ["a", PNG]),
        (({"type": "text", "text": ""},), [""]),
        ([{"type": "text", "text": "a"}, 3], ['[{"type":"text","text":"a"},3]']),
        ([{"type": "audio"}], ['[{"type":"audio"}]']),
        (range(2), ["range(0, 2)"]),
        (b"x", ["b'x'"]),
    ],
)
def test_a_result_becomes_parts_by_the_rule(result: object, parts: list[str | bytes]) -> None:
    assert parts_of(result) == parts


@pytest.mark.parametrize("text", ["x" * (MAX_RESULT_CHARS + 1), [{"type": "text", "text": "x" * MAX_RESULT_CHARS}] * 2])
def test_a_result_of_too_much_text_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="characters"):
        parts_of(text)


SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "x": {"type": "number", "minimum": 0, "maximum": 1},
        "n": {"type": "integer"},
        "how": {"enum": ["a", "b"]},
        "more": {"type": ["array", "null"]},
        "points": {"type": "array", "items": {"type": "number"}, "minItems": 1},
        "box": {"type": "object", "properties": {"at": {"$ref": "#/$defs/at"}}, "required": ["at"]},
        "word": {"type": "string", "pattern": "^(a+)+$"},
        "twice": {"type": "string", "pattern": "^(?=a)(a|aa)+\\1$"},
        "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "any": {},
    },
    "required": ["x"],
    "$defs": {"at": {"type": "array", "prefixItems": [{"type": "string"}]}},
}
NO_NUMBER = ["a number is too large, or is none"]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"x": 0}, []),
        ({"x": 1.0, "n": 2.0, "how": "a", "more": None, "any": {}}, []),
        ({"x": 0, "points": [1, 0.5], "box": {"at": ["b", 3]}, "word": "aa", "either": None}, []),
        ({}, ['"x" is a required property']),
        ({"x": "0"}, ['x: it is not of type "number"']),
        ({"x": True}, ['x: it is not of type "number"']),
        ({"x": -1}, ["x: it is less than the minimum of 0"]),
        ({"x": 2}, ["x: it is greater than the maximum of 1"]),
        ({"x": 0, "n": 0.5}, ['n: it is not of type "integer"']),
        ({"x": 0, "how": "c"}, ['how: it is not one of "a" or "b"']),
        ({"x": 0, "more": {}}, ["more: it is not of types"]),
        ({"x": 0, "y": 0}, ["there is no argument 'y'"]),
        ({"x": 0, "points": ["a"]}, ['points.0: it is not of type "number"']),
        ({"x": 0, "points": []}, ["points: it has less than 1 item"]),
        ({"x": 0, "box": {}}, ['box: "at" is a required property']),
        ({"x": 0, "box": {"at": [1]}}, ['box.at.0: it is not of type "string"']),
        ({"x": 0, "word": "a" * 60_000 + "b"}, ['word: it does not match "^(a+)+$"']),
        ({"x": 0, "twice": "a" * 60_000 + "b"}, ["twice: Error executing regex"]),
        ({"x": 0, "either": 1}, ["either: it is not valid under any of the schemas"]),
        ({"x": 0, "points": [10**4000, 1.5]}, NO_NUMBER),
        ({"x": 0, "any": [{"deep": -(10**400)}]}, NO_NUMBER),
        ({"x": math.nan}, NO_NUMBER),
        ({"x": 0, "any": math.inf}, NO_NUMBER),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments: JsonObject, found: list[str]) -> None:
    named = misfits(arguments, SCHEMA)
    assert len(named) == len(found)
    assert all(is_.startswith(wanted) for is_, wanted in zip(named, found, strict=True)), named


def nested(value: object, levels: int) -> object:
    for _ in range(levels):
        value = [value]
    return value


SELF: JsonObject = {"$ref": "#/$defs/self"}


def within(words: JsonObject, **other: JsonObject) -> JsonObject:
    """A schema for `any`, with parts that refer to themselves."""
    return {"type": "object", "properties": {"any": SELF}, "$defs": {"self": words, **other}}


def chain(levels: int) -> object:
    value: object = {"y": 1}
    for _ in range(levels):
        value = {"x": value}
    return value


LISTS: JsonObject = {"type": "array", "items": SELF}
MEMBERS: JsonObject = {"properties": {"x": SELF}}
TO_OTHER: JsonObject = {"$ref": "#/$defs/other"}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (nested(3, 40), within({"anyOf": [{"type": "null"}, LISTS, LISTS]})),
        (nested([3] * 500, 8), within({"anyOf": [{"type": "null"}, LISTS, LISTS]})),
        (nested(3, 90), within({"items": SELF, "contains": SELF})),
        (nested(3, 90), within({"if": {"items": SELF}, "then": {"items": SELF}})),
        (chain(90), within(MEMBERS | {"patternProperties": {"^x": SELF}})),
        (chain(90), within(MEMBERS | TO_OTHER, other=MEMBERS)),
        (chain(90), within(MEMBERS | {"dependentSchemas": {"x": TO_OTHER}}, other=MEMBERS)),
        (3, within(SELF)),
        (3, within({"$ref": "#name"}, other={"$anchor": "name"})),
    ],
)
def test_what_would_take_long_to_look_at_is_no_mistake(value: object, schema: JsonObject) -> None:
    assert count_looks({"any": value}, schema) is None
    assert misfits({"any": value}, schema) == []
    assert misfits({"any": value, "other": 0}, schema) == ["there is no argument 'other'"]


KINDS = [
    {"type": "object", "properties": {"op": {"const": f"k{number}"}, "args": LISTS}, "required": ["op"]}
    for number in range(10)
]
EXPRESSIONS = within({"anyOf": [*KINDS, {"type": "number"}]})


def test_small_arguments_of_many_kinds_are_held_to_a_schema_that_refers_to_itself() -> None:
    inner: JsonObject = {"op": "k2", "args": [1, 2]}
    assert misfits({"any": {"op": "k1", "args": [inner]}}, EXPRESSIONS) == []
    (why,) = misfits({"any": {"op": "k1", "args": [inner | {"op": "k10"}]}}, EXPRESSIONS)
    assert why.startswith("any: it is not valid under any of the schemas")
    deeper = {"any": {"op": "k1", "args": [{"op": "k3", "args": [inner]}]}}
    assert misfits(deeper, EXPRESSIONS) == []
    inner["op"] = "k10"
    assert misfits(deeper, EXPRESSIONS) == ["they do not fit the schema"]


@pytest.mark.parametrize(("value", "looks"), [(3, 4), ([], 4), ([3], 7), ([3, 3], 10), ([3] * 1000, 3004)])
def test_looks_at_a_list_grow_with_it(value: object, looks: int) -> None:
    assert count_looks({"any": value}, within({"type": ["array", "number"], "items": SELF})) == looks


@pytest.mark.parametrize(("levels", "looks"), [(0, 4), (1, 10), (2, 22), (3, 46), (10, 6142)])
def test_looks_double_at_each_level_where_two_lie_upon_it(levels: int, looks: int) -> None:
    assert count_looks({"any": nested(3, levels)}, within({"items": SELF, "contains": SELF})) == looks


def test_arguments_that_no_validator_follows_do_not_fit() -> None:
    assert misfits({"any": nested(3, 90)}, {"properties": {"any": {}}}) == []
    assert misfits({"any": nested(3, 300)}, {"properties": {"any": {}}}) == ["they are nested more than 100 deep"]


@pytest.mark.parametrize(
    "part",
    [
        {"additionalProperties": True},
        {"additionalProperties": {"type": "integer"}},
        {"patternProperties": {"^y": {}}},
        {"$ref": "#/$defs/more", "$defs": {"more": {}}},
        {"anyOf": [{"properties": {"y": {}}}, {"required": ["x"]}]},
        {"if": {"required": ["y"]}, "then": {"allOf": [{"properties": {"y": {}}}]}},
        {"oneOf": [{"$ref": "#/$defs/more"}], "$defs": {"more": {}}},
    ],
)
def test_a_name_is_not_unknown_where_the_schema_may_allow_it(part: JsonObject) -> None:
    assert misfits({"y": 0}, {"properties": {"x": {}}} | part) == []


@pytest.mark.parametrize(
    "part", [{"anyOf": [{"required": ["y"]}, {}]}, {"if": {"properties": {"x": {}}}}, {"allOf": [True]}]
)
def test_a_name_that_neither_a_schema_nor_its_branches_have_is_unknown(part: JsonObject) -> None:
    assert misfits({"y": 0}, {"properties": {"x": {}}} | part) == ["there is no argument 'y'"]


class Hooks:
    async def of_class(self, rollout_id: str, tool_name: str, **tool_args: object) -> None: ...

    @staticmethod
    async def of_none(rollout_id: str, name: str, /, **tool_args: object) -> None: ...


@pytest.mark.parametrize(
    ("hook", "named"), [(Hooks().of_class, ["self", "rollout_id", "tool_name"]), (Hooks.of_none, [])]
)
def test_what_a_hook_is_called_with_by_position_cannot_be_given_by_name(
    hook: Callable[..., object], named: list[str]
) -> None:
    given: JsonObject = dict.fromkeys(["self", "rollout_id", "tool_name", "name"], 1)
    assert names_taken(given, {}, hook, positional=2) == [f"there is no argument {name!r}" for name in named]
    declared: JsonObject = {"anyOf": [{"properties": {"tool_name": {}}}]}
    assert "there is no argument 'tool_name'" not in names_taken(given, declared, hook, positional=2)


@pytest.mark.parametrize("schema", [{"type": "int"}, {"not": {"$ref": "http://127.0.0.1/x"}}, {"$ref": "#/nowhere"}])
def test_of_what_is_no_schema_of_its_own_names_are_taken_and_nothing_is_fetched(schema: JsonObject) -> None:
    assert schema_fault(schema)
    assert misfits({"y": 0}, {"properties": {"y": {}}} | schema | {"required": ["x"]}) == ["'x' is missing"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(arguments=st.dictionaries(st.text(max_size=4), JSON, max_size=4), schema=st.dictionaries(
    st.sampled_from(["properties", "required", "type", "anyOf", "$ref"]), JSON, max_size=3
))  # fmt: skip
def test_no_schema_and_no_arguments_break_the_look_at_them(arguments: JsonObject, schema: JsonObject) -> None:
    assert isinstance(misfits(arguments, schema), list)


def test_a_prompt_becomes_items_with_its_pictures_moved() -> None:
    content = [PICTURE, {"type": "text", "text": "What?"}]
    messages = [
        {"role": "system", "content": "Look."},
        {"role": "user", "content": "An example"},
        {"role": "assistant", "content": "A"},
        {"role": "user", "content": content},
    ]
    items = prompt_items(messages, lambda url: "sha256:" + str(len(url)))
    last, example = items[3], items[2]
    assert isinstance(example, OutputMessage)
    assert isinstance(last, InputMessage)
    assert last.parts == [InputImage(image_url=f"sha256:{len(URL)}"), InputText(text="What?")]
    assert [getattr(item, "role", None) for item in items] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        [{"role": "tool", "content": "x", "tool_call_id": "1"}],
        [{"role": "assistant", "content": None, "tool_calls": []}],
        [{"role": "user"}],
        [{"role": "user", "content": [{"type": "audio"}]}],
        [{"role": "assistant", "content": [{"type": "text", "text": "x"}]}],
        ["hello"],
    ],
)
def test_a_prompt_that_nobody_can_go_on_from_is_refused(messages: object) -> None:
    with pytest.raises(ValueError, match="prompt_messages"):
        prompt_items(messages, lambda url: url)


def test_a_trajectory_becomes_chat_messages() -> None:
    output: list[OutputItem] = [
        ReasoningItem(id="r"),
        OutputMessage(id="m", content=[OutputText(text="I look.")]),
        FunctionCall(call_id="1", name="a", arguments="{}"),
        FunctionCall(call_id="2", name="b", arguments='{"n":1}'),
        FunctionCallOutput(call_id="1", output="one"),
        FunctionCallOutput(call_id="2", output=[InputText(text="two"), InputImage(image_url="sha256:ab")]),
        FunctionCall(call_id="3", name="a", arguments="{"),
        FunctionCallOutput(call_id="3", output="Error"),
        OutputMessage(id="n", content=[OutputText(text="Done.")]),
    ]
    first, one, two, second, three, last = chat_messages(output, lambda url: url.replace("sha256:", "data:"))
    assert [call["id"] for call in first["tool_calls"]] == ["1", "2"]
    assert (first["content"], second["content"], last) == ("I look.", None, {"role": "assistant", "content": "Done."})
    assert one == {"role": "tool", "tool_call_id": "1", "content": "one"}
    assert two["content"][1] == {"type": "image_url", "image_url": {"url": "data:ab"}}
    assert second["tool_calls"][0]["function"] == {"name": "a", "arguments": "{"}
    assert three["tool_call_id"] == "3"


@pytest.mark.parametrize(
    ("word", "kind", "class_"),
    [
        ("judge_error", FailureKind.JUDGE_FAILED, JudgeError),
        ("sandbox_error", FailureKind.SANDBOX_ERROR, SandboxError),
        ("anything", FailureKind.VERIFIER_ERROR, Exception),
    ],
)
def test_a_failures_word_says_what_becomes_of_it(word: str, kind: FailureKind, class_: type) -> None:
    error = as_episode_error(base_module().RolloutFailure(word, "why"), "compute_reward")
    assert (error.kind, isinstance(error, class_), str(error)) == (kind, True, f"compute_reward: {word}: why")


# -- the stand-in ----------------------------------------------------------------


@pytest.fixture
def envs() -> Any:
    return base_module()


def test_ids_are_of_the_content_alone(envs: Any) -> None:
    """The two hashes are those of the published package, 0.2.5."""
    identity = envs.canonical_example_id
    assert identity({"b": 1.0, "a": [True, None, "ü"]}) == identity({"a": [True, None, "ü"], "b": 1})
    assert identity({"b": 1.0, "a": [True, None, "ü"]}) == ID_OF_MIXED
    assert identity(-0.0) == identity(0) == ID_OF_ZERO
    for odd in (math.nan, 2**53, {1: 2}, {1}, b"x", "\ud800"):
        with pytest.raises(ValueError, match=r".+"):
            identity(odd)


def test_types_refuse_what_the_contract_refuses(envs: Any) -> None:
    with pytest.raises(ValueError, match="blank"):
        envs.Example(" ", {})
    with pytest.raises(ValueError, match="finished"):
        envs.RolloutFailure("finished", "no")
    with pytest.raises(ValueError, match="finite"):
        envs.RolloutAttempt(rollout_id="r", termination_reason="finished", rewards={"a": True})
    with pytest.raises(TypeError, match="abstract"):
        envs.BaseEnv()


def test_a_class_that_wants_more_than_the_stand_in_has_is_told_to_install_it(tmp_path: Any) -> None:
    (tmp_path / "wants_judges.py").write_text("from benchmax.rewards import Judge\n")
    source = EnvironmentSource(class_path="wants_judges:Env", import_paths=[str(tmp_path)])
    with pytest.raises(ConfigError, match="install benchmax"):
        load_environment(source, ROOTS)


def test_another_code_of_the_class_is_another_source(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "changing_env.py").write_text("class Env:\n    pass\n")
    source = EnvironmentSource(class_path="changing_env:Env", import_paths=[str(tmp_path)])
    before = source_sha256(source, ROOTS)
    assert source_sha256(source, ROOTS) == before
    (tmp_path / "its_neighbour.py").write_text("x = 1\n")
    assert source_sha256(source, ROOTS) != before


@pytest.mark.parametrize("class_path", ["module", "a.b", ":X", "a:b.c", "a-b:X", ""])
def test_a_class_path_has_a_module_and_a_name(class_path: str) -> None:
    with pytest.raises(ValueError, match="class_path"):
        EnvironmentSource(class_path=class_path)


@pytest.fixture(autouse=True)
def _no_more_paths() -> Iterator[None]:
    """Import paths of a test's folder are taken away again."""
    before = list(sys.path)
    yield
    sys.path[:] = before
