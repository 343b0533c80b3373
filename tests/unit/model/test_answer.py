"""Endpoint answers, whole and broken, as one reading of both shapes."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_core.servers.model.answer import (
    MAX_PARTIAL_BYTES,
    as_events,
    as_object,
    read_object,
    read_partial,
    read_stream,
)
from gym_core.servers.model.answer_form import BrokenAnswer, WrongForm
from gym_core.servers.model.prompt_ids import PromptMemory
from gym_core.types.model_call import CaptureGap
from gym_core.types.wire import JsonObject


def stream(*chunks: JsonObject, done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def delta(finish: str | None = None, ids: list[int] | None = None, **fields: object) -> JsonObject:
    logprobs = {"content": [{"logprob": -0.25, "token": "x"} for _ in ids]} if ids else None
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish, "token_ids": ids, "logprobs": logprobs}]}


def usage(completion: int) -> JsonObject:
    return {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": completion}}


def test_ids_of_chunks_without_text_count() -> None:
    answer = read_stream(
        stream(
            delta(role="assistant", content="") | {"prompt_token_ids": [1, 2, 3]},
            delta(content="a", ids=[5]),
            delta(ids=[6, 7]),
            delta(finish="stop", ids=[2]),
            usage(4),
        )
    )
    assert answer.tokens is not None
    assert answer.tokens.prompt_ids.tolist() == [1, 2, 3]
    assert answer.tokens.ids_S.tolist() == [5, 6, 7, 2]
    assert answer.tokens.logprobs_S is not None
    assert answer.tokens.logprobs_S.tolist() == [-0.25] * 4


@pytest.mark.parametrize(
    ("prompt_ids", "n_counted"),
    [([1, 2, 3], 3), (None, 2), ([], 2), ([1.5], 2), (["1"], 2), ([[1]], 2), ("1,2", 2), ([2**40], 2)],
)
def test_tokens_that_do_not_add_up_are_kept_as_incomplete(prompt_ids: object, n_counted: int) -> None:
    answer = read_stream(
        stream(delta(content="ab", ids=[5, 6], finish="stop") | {"prompt_token_ids": prompt_ids}, usage(n_counted))
    )
    assert (answer.notes, answer.content) == (("token_ids_incomplete",), "ab")
    assert answer.tokens is not None
    assert answer.tokens.ids_S.tolist() == [5, 6]
    assert set(answer.gaps) & {CaptureGap.NO_PROMPT_IDS, CaptureGap.IDS_NOT_USAGE}


def test_a_tool_call_in_pieces_is_one_call() -> None:
    def piece(index: int, **fields: object) -> JsonObject:
        return delta(tool_calls=[{"index": index, **fields}])

    answer = read_stream(
        stream(
            piece(0, id="a", function={"name": "bash", "arguments": ""}),
            piece(1, id="b", function={"name": "read", "arguments": "{}"}),
            piece(0, function={"arguments": '{"x":'}),
            piece(0, function={"arguments": " 1.0}"}),
            delta(finish="tool_calls"),
        )
    )
    assert [(call.id, call.name, call.arguments) for call in answer.calls] == [
        ("a", "bash", '{"x": 1.0}'),
        ("b", "read", "{}"),
    ]


def test_a_claimed_call_that_is_not_there_is_noted() -> None:
    assert read_stream(stream(delta(finish="tool_calls"))).notes == ("malformed_tool_call",)


def test_a_call_without_a_name_is_left_out_and_noted_beside_others_too() -> None:
    named, nameless = (
        {"index": i, "function": {"name": name, "arguments": "{}"}} for i, name in ((0, "zoom"), (1, None))
    )
    answer = read_stream(stream(delta(tool_calls=[named, nameless]), delta(finish="stop")))
    assert ([call.name for call in answer.calls], answer.notes) == (["zoom"], ("malformed_tool_call",))


BROKEN = {
    "nothing": b"",
    "html": b"<html></html>",
    "no finish reason": stream(delta(content="a")),
    "error event": stream(delta(content="a"), {"error": {"message": "engine died"}}, delta(finish="stop")),
    "garbage": b"data: {nope\n\n" + stream(delta(finish="stop")),
    "a list": b"data: []\n\n" + stream(delta(finish="stop")),
    "deep": b"data: " + b"[" * 100_000 + b"\n\n",
    "wrong type": stream(delta(content=5), delta(finish="stop")),
}


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_answer_is_never_taken_for_a_whole_one(raw: bytes) -> None:
    with pytest.raises(BrokenAnswer):
        read_stream(raw)


def whole(message: JsonObject, finish: str | None = "stop") -> bytes:
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}]}).encode()


def called(*arguments: object) -> JsonObject:
    return {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "zoom", "arguments": a}} for a in arguments]}


def test_arguments_that_come_as_an_object_are_its_text_as_it_was_spelled() -> None:
    spelled = b'{"x": 1.0, "box": [0,"\\u00e9"]}'
    object_ = whole(called("HERE"), "tool_calls").replace(b'"HERE"', spelled)
    assert [call.arguments for call in read_object(object_).calls] == [spelled.decode()]
    streamed = read_stream(stream(delta(**called({"x": 1})), delta(**called("")), delta(finish="tool_calls")))
    assert [call.arguments for call in streamed.calls] == ['{"x": 1}']


def test_a_list_of_texts_is_one_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read_object(whole({"content": parts})).content == "ab"
    assert read_stream(stream(delta(content=parts), delta(content=[], finish="stop"))).content == "ab"


WRONG_FORMS = {
    "content": (whole({"content": {"a": "SECRET"}}), r"\$.choices\[0\].message.content"),
    "a part": (whole({"content": [{"type": "SECRET"}]}), "`content` is a list with a part that is no text"),
    "arguments": (whole(called(5), "tool_calls"), "`function.arguments` is neither text nor an object"),
    "bytes in text": (whole(called("SECRET"), "tool_calls").replace(b"SECRET", b"\xff"), "bytes that are no UTF-8"),
    "bytes in an object": (
        whole(called({"x": "SECRET"}), "tool_calls").replace(b"SECRET", b"\xff"),
        "bytes that are no UTF-8",
    ),
    "an end": (whole({"content": "SECRET"}, None), "no `choices.0..finish_reason`"),
    "half a character": (whole({"content": "SECRET \ud800."}), "one half of a surrogate pair"),
}


@pytest.mark.parametrize(("raw", "words"), WRONG_FORMS.values(), ids=WRONG_FORMS.keys())
def test_a_whole_answer_of_another_form_is_told_with_the_field_and_the_remedy(raw: bytes, words: str) -> None:
    with pytest.raises(WrongForm, match=f"{words}.*put a gateway before it") as told:
        read_object(raw)
    assert "SECRET" not in str(told.value)


@pytest.mark.parametrize("pieces", [({"x": 1}, '{"y": 2}'), ('{"y":', {"x": 1}), ({"x": 1}, {"y": 2})])
def test_an_object_beside_other_pieces_of_arguments_is_not_guessed_at(pieces: tuple[object, object]) -> None:
    with pytest.raises(WrongForm, match="an object and has more pieces"):
        read_stream(stream(*(delta(**called(piece)) for piece in pieces), delta(finish="tool_calls")))


def test_every_cut_of_a_stream_before_its_finish_is_broken() -> None:
    raw = stream(delta(content="a", ids=[1]), delta(content="b", ids=[2]), delta(finish="stop"))
    first_whole = raw.index(b"\n\n", raw.index(b'"stop"'))
    for cut in range(0, first_whole - 1):
        with pytest.raises(BrokenAnswer):
            read_stream(raw[:cut])


def test_both_shapes_say_the_same_to_a_harness() -> None:
    message = {
        "role": "assistant",
        "content": "é\n ",
        "reasoning": "because",
        "tool_calls": [{"id": "x", "type": "function", "function": {"name": "bash", "arguments": '{"a": 1.0}'}}],
    }
    whole = {"id": "c1", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], **usage(0)}
    whole["choices"] = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    answer = read_object(json.dumps(whole).encode())
    again = read_stream(as_events(answer, "policy", 1, wants_usage=True))
    assert (again.content, again.reasoning, again.calls) == (answer.content, answer.reasoning, answer.calls)
    assert (again.finish_reason, again.reasoning_field, again.input_tokens) == ("tool_calls", "reasoning", 3)
    assert as_object(answer, "policy", 1)["choices"][0]["message"] == message


@given(prompts=st.lists(st.lists(st.sampled_from([0, 1, 11, 2**31 - 1]), max_size=6), max_size=6), space=st.booleans())
@settings(max_examples=300, deadline=None)
def test_prompts_read_one_after_the_other_are_read_as_if_alone(prompts: list[list[int]], space: bool) -> None:
    memory = PromptMemory()
    for prompt in prompts:
        found = memory.read(json.dumps(prompt, separators=(", " if space else ",", ":")).encode())
        assert (found.tolist() if found is not None else []) == prompt


def tokens_of(raw: bytes) -> tuple[list[int], list[int], list[float]]:
    tokens = read_stream(raw).tokens
    assert tokens is not None
    assert tokens.logprobs_S is not None
    return tokens.prompt_ids.tolist(), tokens.ids_S.tolist(), tokens.logprobs_S.tolist()


def test_ids_come_in_any_chunk_and_of_the_first_choice_alone() -> None:
    second = delta(content="other", ids=[90])
    second["choices"][0]["index"] = 1
    raw = stream(
        delta(role="assistant") | {"prompt_token_ids": [1, 2, 3]},
        second,
        {"choices": [{"index": 0, "delta": None, "token_ids": [4], "logprobs": {"content": [{"logprob": 0.0}]}}]},
        delta(content="a", ids=[5]),
        usage(3) | delta(finish="stop", ids=[6]),
    )
    assert tokens_of(raw) == ([1, 2, 3], [4, 5, 6], [0.0, -0.25, -0.25])
    assert (read_stream(raw).content, read_stream(raw).gaps) == ("a", ())


def test_two_choices_counted_together_are_not_complete() -> None:
    first, second = delta(content="a", ids=[5], finish="stop"), delta(content="b", ids=[6], finish="stop")
    second["choices"][0]["index"] = 1
    answer = read_stream(stream(first | {"prompt_token_ids": [1]}, second, usage(2)))
    assert answer.gaps == (CaptureGap.IDS_NOT_USAGE,)


WHOLE = delta(content="ab", ids=[5, 6], finish="stop") | {"prompt_token_ids": [1, 2, 3]}


def with_logprobs(*values: object) -> JsonObject:
    choice = WHOLE["choices"][0] | {"logprobs": {"content": [{"logprob": value} for value in values]}}
    return WHOLE | {"choices": [choice]}


GAPS: dict[str, tuple[bytes, set[CaptureGap]]] = {
    "nothing missing": (stream(WHOLE, usage(2)), set()),
    "no [DONE]": (stream(WHOLE, usage(2), done=False), {CaptureGap.NO_DONE}),
    "no prompt ids": (stream(delta(content="ab", ids=[5, 6], finish="stop"), usage(2)), {CaptureGap.NO_PROMPT_IDS}),
    "no usage": (stream(WHOLE), {CaptureGap.NO_USAGE}),
    "more counted": (stream(WHOLE, usage(3)), {CaptureGap.IDS_NOT_USAGE}),
    "fewer counted": (stream(WHOLE, usage(1)), {CaptureGap.IDS_NOT_USAGE}),
    "no log-probabilities": (stream(with_logprobs(), usage(2)), {CaptureGap.IDS_NOT_LOGPROBS}),
    "one log-probability short": (stream(with_logprobs(-1.0), usage(2)), {CaptureGap.IDS_NOT_LOGPROBS}),
    "one above 0": (stream(with_logprobs(-1.0, 1e-3), usage(2)), {CaptureGap.BAD_LOGPROB}),
    "rounding above 0": (stream(with_logprobs(-1.0, 1e-7), usage(2)), set()),
    "one cut from the distribution": (stream(with_logprobs(-9999.0, -1.0), usage(2)), {CaptureGap.BAD_LOGPROB}),
    "null": (stream(with_logprobs(None, -1.0), usage(2)), {CaptureGap.BAD_LOGPROB}),
    "NaN": (stream(with_logprobs(float("nan"), -1.0), usage(2)), {CaptureGap.BAD_LOGPROB}),
    "-Infinity": (stream(with_logprobs(float("-inf"), -1.0), usage(2)), {CaptureGap.BAD_LOGPROB}),
    "ids of another kind": (
        stream(WHOLE | {"choices": [WHOLE["choices"][0] | {"token_ids": [-1, 2**40]}]}, usage(2)),
        {CaptureGap.IDS_NOT_LOGPROBS, CaptureGap.IDS_NOT_USAGE},
    ),
    "no tokens at all": (
        stream(delta(content="ab", finish="stop"), usage(2)),
        {CaptureGap.NO_PROMPT_IDS, CaptureGap.IDS_NOT_USAGE},
    ),
}


@pytest.mark.parametrize(("raw", "gaps"), GAPS.values(), ids=GAPS.keys())
def test_what_an_answer_lacks_is_named_and_the_answer_stands(raw: bytes, gaps: set[CaptureGap]) -> None:
    answer = read_stream(raw)
    assert (answer.content, set(answer.gaps)) == ("ab", gaps)


def test_an_object_needs_no_done() -> None:
    choice = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop", "token_ids": [5]}
    choice |= {"logprobs": {"content": [{"logprob": -0.5}]}}
    raw = json.dumps(usage(1) | {"choices": [choice], "prompt_token_ids": [1]}).encode()
    assert read_object(raw).gaps == ()


def test_of_a_broken_answer_what_came_is_still_read() -> None:
    head = delta(role="assistant") | {"prompt_token_ids": [1, 2, 3]}
    raw = stream(head, delta(content="a", ids=[5]), delta(content="b", ids=[6]), done=False)
    for cut, ids in ((len(raw), [5, 6]), (len(raw) - 20, [5])):
        partial = read_partial(raw[:cut], has_end=False)
        assert partial is not None
        assert (partial.tokens.prompt_ids.tolist(), partial.tokens.ids_S.tolist()) == ([1, 2, 3], ids)
        assert {CaptureGap.NO_END, CaptureGap.NO_DONE, CaptureGap.NO_FINISH_REASON} <= set(partial.gaps)
    assert read_partial(b"<html></html>", has_end=True) is None
    assert read_partial(b"x" * (MAX_PARTIAL_BYTES + 1), has_end=True) is None


@pytest.mark.parametrize(
    ("details", "cached"), [({}, 0), ({"prompt_tokens_details": None}, 0), ({"prompt_tokens_details": {}}, 0),
                            ({"prompt_tokens_details": {"cached_tokens": None}}, 0),
                            ({"prompt_tokens_details": {"cached_tokens": 2, "audio_tokens": 1}}, 2)],
)  # fmt: skip
def test_cached_tokens_are_what_the_endpoint_says_of_them(details: JsonObject, cached: int) -> None:
    counted = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1, **details}}
    answer = read_stream(stream(delta(content="a"), delta(finish="stop"), counted))
    assert (answer.input_tokens, answer.cached_input_tokens) == (3, cached)
