"""The pure parts of the contract: results, arguments, messages, endings, ids; and the stand-in's own types."""

import base64
import math
import sys
from collections.abc import Iterator
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
from resources_servers.benchmax.arguments import misfits
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
        "any": {},
    },
    "required": ["x"],
}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"x": 0}, []),
        ({"x": 1.0, "n": 2.0, "how": "a", "more": None, "any": {}}, []),
        ({}, ["'x' is missing"]),
        ({"x": "0"}, ["'x' is no number"]),
        ({"x": True}, ["'x' is no number"]),
        ({"x": -1}, ["'x' is less than 0"]),
        ({"x": 2}, ["'x' is more than 1"]),
        ({"x": math.nan}, ["'x' is less than 0"]),
        ({"x": 0, "n": 0.5}, ["'n' is no integer"]),
        ({"x": 0, "how": "c"}, ["'how' is none of ['a', 'b']"]),
        ({"x": 0, "more": {}}, ["'more' is no array or null"]),
        ({"x": 0, "y": 0}, ["there is no argument 'y'"]),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments: JsonObject, found: list[str]) -> None:
    assert misfits(arguments, SCHEMA) == found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(arguments=st.dictionaries(st.text(max_size=4), JSON, max_size=4), schema=st.dictionaries(
    st.sampled_from(["properties", "required", "type"]), JSON, max_size=3
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
