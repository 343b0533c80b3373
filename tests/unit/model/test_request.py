"""Bodies from strangers: what is read of them, and that nothing they hold is more than a refusal."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from gym_core.servers.model.messages import MessageMemory, only_hash, read_message
from gym_core.servers.model.refusal import Refusal
from gym_core.servers.model.request import Shape, parse, shape
from gym_core.types.wire import JsonObject
from tests.fakes.proxy import PIXEL, chat, image_message

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELD_NAMES = ["messages", "model", "tools", "stream", "stream_options", "max_tokens", "n", "stop", "tool_choice", "x"]
MESSAGE_NAMES = ["role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content", "function_call", "x"]


def read_all(body: bytes) -> None:
    envelope, _ = parse(body)
    for raw in envelope.messages:
        read_message(bytes(raw), {}, only_hash)
    shape(envelope, envelope.messages, Shape("tiny", 100), {}).encode()


@given(fields=st.dictionaries(st.sampled_from(FIELD_NAMES), json_values))
@settings(max_examples=200, deadline=None)
def test_any_values_in_known_fields_are_read_or_refused(fields: JsonObject) -> None:
    try:
        read_all(json.dumps(chat() | fields).encode())
    except Refusal as refusal:
        assert refusal.status == 400  # noqa: PT017 - not raising is fine too


@given(message=st.dictionaries(st.sampled_from(MESSAGE_NAMES), json_values))
@settings(max_examples=200, deadline=None)
def test_any_message_is_read_or_refused(message: JsonObject) -> None:
    try:
        read_all(json.dumps(chat(messages=[{"role": "user"} | message])).encode())
    except Refusal as refusal:
        assert refusal.status == 400  # noqa: PT017 - not raising is fine too


@given(body=st.binary(max_size=60), at=st.integers(0, 400), wipe=st.integers(0, 30))
@example(body=b"\xff", at=60, wipe=1)
@settings(max_examples=300, deadline=None)
def test_any_bytes_anywhere_are_read_or_refused(body: bytes, at: int, wipe: int) -> None:
    whole = json.dumps(chat(messages=[image_message(), {"role": "user", "content": "é"}]), ensure_ascii=False).encode()
    try:
        read_all(whole[:at] + body + whole[at + wipe :])
    except Refusal as refusal:
        assert refusal.status == 400  # noqa: PT017 - not raising is fine too


def test_the_last_of_two_keys_wins_as_it_would_at_the_endpoint() -> None:
    url = '"url":"data:image/png;base64,AAAA","url":"http://10.0.0.1/x.png"'
    doubled = f'{{"role":"user","content":[{{"type":"image_url","image_url":{{{url}}}}}]}}'
    with pytest.raises(Refusal, match="data:"):
        read_message(doubled.encode(), {}, only_hash)


def test_an_escaped_data_url_is_the_same_image() -> None:
    plain = json.dumps(image_message())
    escaped = plain.replace("image/png", "image\\/png").replace("iVBOR", "\\u0069VBOR")
    first = read_message(plain.encode(), {}, only_hash)
    second = read_message(escaped.encode(), {}, only_hash)
    assert first.images == second.images != ()
    assert PIXEL not in second.kept.decode()
    assert second.rewritten is None


def test_a_message_is_read_once_and_remembered() -> None:
    kept: list[bytes] = []

    def keep(content: bytes) -> str:
        kept.append(content)
        return only_hash(content)

    memory = MessageMemory(keep)
    raw = json.dumps(image_message()).encode()
    assert memory.recall(raw) is None
    message = memory.read(raw)
    assert memory.recall(bytes(bytearray(raw))) is message
    assert len(kept) == 1


@pytest.mark.parametrize("tools", ["null", "[]", " [ ]"])
def test_a_choice_of_no_tools_is_not_sent(tools: str) -> None:
    body = f'{{"messages":[{{"role":"user","content":""}}],"tools":{tools},"tool_choice":"auto"}}'
    envelope, _ = parse(body.encode())
    assert not envelope.has_tools
    fields = shape(envelope, [Raw(b"{}")], Shape("tiny", 9), {}).fields
    assert fields.keys() == {"model", "messages"}


def test_a_name_of_a_dropped_field_that_could_forge_a_note_is_not_repeated() -> None:
    envelope, dropped = parse(b'{"messages":[{}],"a b\\u001b[31m":1}')
    assert (len(envelope.messages), dropped) == (1, "unprintable")
