"""Conversations told by content."""

import hashlib
import json

import msgspec
import pytest

from gym_core.capture.conversation import ConversationIndex, TurnMemory
from gym_core.capture.turns import answer_turn, read_turn
from gym_core.types.model_call import CallAnswer, CalledTool
from gym_core.types.wire import JsonObject

RED, BLUE = "a" * 64, "b" * 64
PIXEL = b"\x89PNG\r\n\x1a\n and so on"


def raw(role: str, content: object = None, **fields: object) -> bytes:
    return json.dumps({"role": role, "content": content} | fields).encode()


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def image(url: str, **fields: str) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": url} | fields}


def called(arguments: str, *, call_id: str = "call_1", name: str = "bash") -> JsonObject:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def with_tool(arguments: str) -> bytes:
    return raw("assistant", tool_calls=[called(arguments)])


def said(content: str = "", *, reasoning: str = "", calls: list[tuple[str, str, str]] | None = None) -> CallAnswer:
    tools = [CalledTool(id=i, name=n, arguments=a) for i, n, a in calls or []]
    return CallAnswer(
        content=content, reasoning=reasoning, tool_calls=tools, finish_reason="stop", input_tokens=1, output_tokens=1
    )


SYSTEM, QUESTION = raw("system", "be good"), raw("user", [text("what is it"), image(f"sha256:{RED}")])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (raw("assistant"), raw("assistant", "")),
        (raw("assistant"), b'{"role": "assistant"}'),
        (raw("assistant", ""), raw("assistant", [])),
        (raw("user", "hi"), raw("user", [text("hi")])),
        (raw("user", [text(""), text("hi")]), raw("user", "hi")),
        (raw("assistant", "a", reasoning="b"), raw("assistant", "a", reasoning_content="c")),
        (raw("assistant", "a", tool_calls=[]), raw("assistant", "a", tool_calls=None)),
        (raw("user", [image(f"sha256:{RED}")]), raw("user", [image(f"sha256:{RED}", detail="auto")])),
        (with_tool('{"a": 1, "b": 2}'), with_tool('{"b":2,"a":1}')),
        (raw("assistant", tool_calls=[called('{"a": 6e4}')]), raw("assistant", tool_calls=[called('{"a":60000}')])),
        (raw("assistant", tool_calls=[called("")]), raw("assistant", tool_calls=[called("{}")])),
        (raw("assistant", "\u00e9"), '{"role":"assistant","content":"\u00e9"}'.encode()),
    ],
)
def test_two_spellings_of_one_message_are_one_turn(one: bytes, other: bytes) -> None:
    assert read_turn(one).key == read_turn(other).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (raw("assistant", "a"), raw("assistant", "a ")),
        (raw("assistant", "a"), raw("assistant", "\na")),
        (raw("user", "a"), raw("system", "a")),
        (raw("user", [text("a"), text("b")]), raw("user", [text("ab")])),
        (raw("user", [image(f"sha256:{RED}")]), raw("user", [image(f"sha256:{BLUE}")])),
        (raw("user", [image(f"sha256:{RED}")]), raw("user", [image(f"sha256:{RED}", detail="low")])),
        (raw("user", [image(f"sha256:{RED}"), text("a")]), raw("user", [text("a"), image(f"sha256:{RED}")])),
        (raw("user", RED), raw("user", [image(f"sha256:{RED}")])),
        (raw("tool", "a", tool_call_id="1"), raw("tool", "a", tool_call_id="2")),
        (raw("assistant", tool_calls=[called("{}")]), raw("assistant", tool_calls=[called("{}", call_id="call_2")])),
        (raw("assistant", tool_calls=[called("{}")]), raw("assistant", tool_calls=[called("{}", name="read")])),
        (raw("assistant", tool_calls=[called('{"a":1}')]), raw("assistant", tool_calls=[called('{"a":2}')])),
        (raw("assistant", tool_calls=[called("{")]), raw("assistant", tool_calls=[called("{ ")])),
        (raw("assistant", tool_calls=[called("e30=")]), raw("assistant", tool_calls=[called("{}")])),
        (raw("user", [{"type": "audio", "x": 1}]), raw("user", [{"type": "audio", "x": 2}])),
        (b"not json", b"not json either"),
    ],
)
def test_two_messages_that_differ_are_two_turns(one: bytes, other: bytes) -> None:
    assert read_turn(one).key != read_turn(other).key


def test_a_picture_inline_and_by_reference_is_one_picture() -> None:
    inline = raw("user", [image(f"data:image/png;base64,{msgspec.to_builtins(PIXEL)}")])
    reference = raw("user", [image(f"sha256:{hashlib.sha256(PIXEL).hexdigest()}")])
    assert read_turn(inline) == read_turn(reference)
    assert read_turn(inline).images == (hashlib.sha256(PIXEL).hexdigest(),)


@pytest.mark.parametrize(
    "arguments", ["1e999", '{"n": 123456789012345678901234567890}', "[" * 5000, '"\\ud800"', "1e300"]
)
def test_odd_arguments_are_equal_to_themselves(arguments: str) -> None:
    message = raw("assistant", tool_calls=[called(arguments)])
    assert read_turn(message).key == answer_turn(said(calls=[("call_1", "bash", arguments)])).key


def test_reasoning_and_text_can_be_read_beside_the_key() -> None:
    turn = read_turn(raw("assistant", [text("a"), text("b")], reasoning_content="because"))
    assert (turn.role, turn.text, turn.reasoning) == ("assistant", "ab", "because")


@pytest.mark.parametrize(
    ("answer", "echo"),
    [
        (said("hi"), raw("assistant", "hi")),
        (said("hi", reasoning="hm"), raw("assistant", [text("hi")])),
        (
            said("", calls=[("c", "bash", '{"a": 1.0}')]),
            raw("assistant", "", tool_calls=[called('{"a":1}', call_id="c")]),
        ),
        (said(" \n"), raw("assistant", " \n")),
        (said(""), raw("assistant", None)),
    ],
)
def test_an_answer_is_the_turn_that_a_harness_sends_back(answer: CallAnswer, echo: bytes) -> None:
    assert answer_turn(answer).key == read_turn(echo).key


def test_the_longest_conversation_is_the_parent() -> None:
    index = ConversationIndex()
    first = [SYSTEM, QUESTION]
    second = [*first, raw("assistant", "one"), raw("user", "go on")]
    index.add("a", first, said("one"))
    index.add("b", second, said("two"))
    third = index.place([*second, raw("assistant", "two"), raw("user", "and on")])
    assert [found.call_id for found in third.parents] == ["b"]
    assert (third.n_parent, third.n_known, third.known_by) == (5, 5, "b")
    branch = index.place([*first, raw("assistant", "one"), raw("user", "else")])
    assert [found.call_id for found in branch.parents] == ["a"]
    assert (branch.n_parent, branch.n_known, branch.known_by) == (3, 3, "b")


def test_equal_retries_are_all_candidates_the_most_recent_first() -> None:
    index = ConversationIndex()
    for name in ("a", "b", "c"):
        index.add(name, [SYSTEM, QUESTION], said("same"))
    place = index.place([SYSTEM, QUESTION, raw("assistant", "same"), raw("user", "go on")])
    assert [found.call_id for found in place.parents] == ["c", "b", "a"]


def test_another_system_prompt_or_other_tools_are_told_and_come_last() -> None:
    index = ConversationIndex()
    index.add("same", [SYSTEM, QUESTION], said("x"), b'[{"t":1}]')
    index.add("system", [raw("system", "be bad"), QUESTION], said("x"), b'[{"t":1}]')
    index.add("tools", [SYSTEM, QUESTION], said("x"))
    place = index.place([SYSTEM, QUESTION, raw("assistant", "x")], b'[{"t":1}]')
    assert [(c.call_id, c.same_system, c.same_tools) for c in place.parents] == [
        ("same", True, True),
        ("tools", True, False),
        ("system", False, True),
    ]


def test_a_system_prompt_may_be_missing() -> None:
    index = ConversationIndex()
    index.add("a", [QUESTION], said("x"))
    (found,) = index.place([SYSTEM, QUESTION, raw("assistant", "x")]).parents
    assert (found.same_system, found.same_head) == (False, False)
    assert index.place([]).parents == ()


def test_an_altered_answer_is_known_up_to_the_alteration() -> None:
    index = ConversationIndex()
    index.add("a", [SYSTEM, QUESTION], said("one"))
    place = index.place([SYSTEM, QUESTION, raw("assistant", "altered"), raw("user", "go on")])
    assert (place.parents, place.n_parent, place.n_known, place.known_by) == ((), 1, 2, "a")


def test_a_memory_that_started_again_gives_the_same_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym_core.capture.conversation.MAX_REMEMBERED_TURNS", 2)
    memory = TurnMemory()
    messages = [raw("user", str(n)) for n in range(5)]
    assert [memory.read(m) for m in messages] == [read_turn(m) for m in messages]
