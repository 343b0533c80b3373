"""Tool calls that a harness read and wrote again, as the model wrote them: every way that OpenCode changes them."""

import json

import pytest

from gym_core.servers.model.answer import Answer
from gym_core.servers.model.messages import IssuedCall, only_hash, read_message
from gym_core.types.wire import JsonObject

CHANGED = {
    "white space": ('{ "command" :\t"ls"\n}', "bash", '{"command":"ls"}'),
    "a float that looks whole": ('{"x": 1.0}', "bash", '{"x":1}'),
    "an exponent": ('{"x": 6e4}', "bash", '{"x":60000}'),
    "a big integer": ('{"x":12345678901234567890}', "bash", '{"x":12345678901234567000}'),
    "an integer of 400 digits": ('{"x":%s}' % ("9" * 400), "bash", '{"x":null}'),
    "doubled keys": ('{"x":1,"x":2}', "bash", '{"x":2}'),
    "keys like integers": ('{"b":1,"2":2,"1":3}', "bash", '{"1":3,"2":2,"b":1}'),
    "escapes": ('{"x":"\\u00e9 \\/ \\ud83d\\ude00"}', "bash", '{"x":"é / 😀"}'),
    "renamed to invalid": ('{"x":1}', "invalid", '{"tool":"bash","error":"no such tool"}'),
    "the case of the name": ('{"x":1}', "Bash", '{"x":1}'),
}
NOT_AN_OBJECT = {
    "nothing": ("", "{}"),
    "a list": ("[1]", '{"value":[1]}'),
    "a word": ("true", '{"value":true}'),
    "cut": ('{"x": ', '{"tool":"bash","error":"cut"}'),
    "not JSON": ("ls -l", '{"tool":"bash","error":"not JSON"}'),
    "too deep": ('{"x":' * 2000 + "1" + "}" * 2000, "{}"),
}


def turn(*calls: IssuedCall, content: str = "") -> bytes:
    """As a harness sends it: with characters, not escapes."""
    made = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]
    message = {"role": "assistant", "content": content, "tool_calls": made}
    return json.dumps(message, ensure_ascii=False).encode()


def sent(raw: bytes, *issued: IssuedCall) -> JsonObject:
    """The message as it goes to the endpoint, which is also what the record keeps."""
    message = read_message(raw, {call.id: call for call in issued}, only_hash)
    assert message.kept == (message.rewritten or raw)
    found: JsonObject = json.loads(message.kept)
    return found


def functions(message: JsonObject) -> list[tuple[str, str]]:
    return [(call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]]


@pytest.mark.parametrize(("original", "name", "came_back"), CHANGED.values(), ids=CHANGED.keys())
def test_a_changed_call_goes_out_as_the_model_wrote_it(original: str, name: str, came_back: str) -> None:
    issued = IssuedCall("call_1", "bash", original)
    assert functions(sent(turn(IssuedCall("call_1", name, came_back)), issued)) == [("bash", original)]


@pytest.mark.parametrize(("original", "came_back"), NOT_AN_OBJECT.values(), ids=NOT_AN_OBJECT.keys())
def test_arguments_that_a_template_cannot_read_stay_as_the_harness_wrote_them(original: str, came_back: str) -> None:
    raw = turn(IssuedCall("call_1", "bash", came_back))
    message = read_message(raw, {"call_1": IssuedCall("call_1", "bash", original)}, only_hash)
    assert (message.rewritten, message.kept) == (None, raw)


def test_of_parallel_calls_each_is_restored_by_its_own_id_and_strangers_stay() -> None:
    one, two = IssuedCall("call_1", "bash", '{"x": 1.0}'), IssuedCall("call_2", "read", '{"x": 2.0}')
    raw = turn(
        IssuedCall("call_2", "read", '{"x":2}'),
        IssuedCall("call_9", "bash", '{ "x":9.0 }'),
        IssuedCall("call_1", "invalid", '{"x":1}'),
        content="é",
    )
    message = sent(raw, one, two)
    assert functions(message) == [("read", '{"x": 2.0}'), ("bash", '{ "x":9.0 }'), ("bash", '{"x": 1.0}')]
    assert ([call["id"] for call in message["tool_calls"]], message["content"]) == (["call_2", "call_9", "call_1"], "é")


def test_a_call_that_came_back_as_it_was_leaves_its_message_alone() -> None:
    issued = IssuedCall("call_1", "bash", '{"x": 1.0}')
    message = read_message(turn(issued), {"call_1": issued}, only_hash)
    assert message.rewritten is None


@pytest.mark.parametrize("ids", [["x", "x", "x"], ["taken", "", "y" * 200]])
def test_each_call_gets_an_id_of_its_own(ids: list[str]) -> None:
    answer = Answer(
        id="a", content="", reasoning="", reasoning_field="reasoning", finish_reason="tool_calls",
        calls=tuple(IssuedCall(id_, "bash", "{}") for id_ in ids), input_tokens=1, output_tokens=1, has_usage=True,
        tokens=None, notes=(),
    )  # fmt: skip
    own = [call.id for call in answer.with_own_ids(["taken"]).calls]
    assert len({*own, "taken"}) == 4
    assert all(0 < len(id_) <= 128 for id_ in own)
