"""A session's calls on disk and back: everything kept, little written, what never ended shown as lost."""

import os
import resource
import signal
import struct
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_core.capture.recorder import CallRecord, CallRecorder, CallTokens, capture_path, read_captured
from gym_core.capture.segment import SegmentDamaged, SegmentWriter
from gym_core.types.model_call import CallOutcome
from gym_core.types.wire import JsonObject
from tests.fakes.captured import read_calls
from tests.fakes.token_sessions import SHAPES, TokenSource, distinct_tokens, records

LONGEST = "one chain to 130k"
TOOLS = b'[{"type":"function","function":{"name":"bash"}}]'


def facts(call_id: str, index: int = 0) -> JsonObject:
    return {"call_id": call_id, "session_id": "s1", "index": index, "sent_at": 1.0}


def message(text: str) -> bytes:
    return f'{{"role":"user","content":"{text}"}}'.encode()


def record(
    call_id: str, texts: list[str], prompt: list[int] | None = None, ids: list[int] | None = None, tools: bytes = TOOLS
) -> CallRecord:
    tokens = None
    if prompt is not None and ids is not None:
        arrays = np.array(prompt, np.int32), np.array(ids, np.int32), np.array([-0.5] * len(ids), np.float32)
        tokens = CallTokens(*arrays)
    return CallRecord(facts(call_id) | {"outcome": "answered"}, [message(text) for text in texts], tools, tokens)


calls_of_a_session = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["a", "b", "c"]), max_size=4),
        st.none() | st.tuples(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=3)),
        st.sampled_from([TOOLS, b""]),
    ),
    max_size=6,
)


@given(calls=calls_of_a_session, reopen_at=st.integers(0, 6))
@settings(max_examples=100, deadline=None)
def test_what_was_kept_comes_back_whatever_the_calls_share(
    tmp_path_factory: pytest.TempPathFactory,
    calls: list[tuple[list[str], tuple[list[int], list[int]] | None, bytes]],
    reopen_at: int,
) -> None:
    path = tmp_path_factory.mktemp("capture") / "s1.calls"
    recorder = CallRecorder(path)
    for position, (texts, tokens, tools) in enumerate(calls):
        if position == reopen_at:
            recorder.close()
            recorder = CallRecorder(path)
        recorder.intend(facts(str(position)))
        recorder.keep(record(str(position), texts, tokens[0] if tokens else None, tokens[1] if tokens else None, tools))
    recorder.close()
    found = list(read_calls(path))
    assert [[m["content"] for m in call.messages] for call in found] == [texts for texts, _, _ in calls]
    assert [bool(call.tools) for call in found] == [bool(tools) for _, _, tools in calls]
    for call, (_, tokens, _) in zip(found, calls, strict=True):
        assert (call.prompt_token_ids, call.token_ids) == (tokens or (None, None))
        assert len(call.logprobs or []) == len(tokens[1] if tokens else [])


def test_a_long_session_writes_what_each_call_adds(tmp_path: Path) -> None:
    recorder = CallRecorder(tmp_path / "s1.calls")
    rng = np.random.default_rng(0)
    prompt, texts, raw_bytes = rng.integers(0, 150_000, 10_000).tolist(), ["x" * 1000], 0
    for index in range(30):
        ids = rng.integers(0, 150_000, 100).tolist()
        recorder.keep(record(str(index), texts, prompt, ids))
        prompt, texts = [*prompt, *ids, 7], [*texts, f"{index}"]
        raw_bytes += 4 * len(prompt)
    recorder.close()
    assert (tmp_path / "s1.calls").stat().st_size < raw_bytes / 15
    assert list(read_calls(tmp_path / "s1.calls"))[-1].prompt_token_ids == prompt[:-101]


def test_a_call_that_was_sent_and_never_kept_is_lost(tmp_path: Path) -> None:
    recorder = CallRecorder(tmp_path / "s1.calls")
    recorder.intend(facts("a", 0))
    recorder.intend(facts("b", 1))
    recorder.keep(record("b", ["x"]))
    recorder.close()
    assert [(call.call_id, call.outcome) for call in read_calls(tmp_path / "s1.calls")] == [
        ("b", CallOutcome.ANSWERED),
        ("a", CallOutcome.LOST),
    ]


def test_a_torn_end_costs_the_last_record_and_damage_before_it_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "s1.calls"
    recorder = CallRecorder(path)
    for index in range(3):
        recorder.keep(record(str(index), ["x"] * index))
    recorder.close()
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert [call.call_id for call in read_calls(path)] == ["0", "1"]
    path.write_bytes(content[:20] + b"?" + content[21:])
    with pytest.raises(SegmentDamaged):
        list(read_calls(path))


def test_log_probabilities_are_optional_and_float32(tmp_path: Path) -> None:
    path = capture_path(tmp_path, "s1")
    recorder = CallRecorder(path)
    ids = np.array([1, 2], np.int32)
    recorder.keep(CallRecord(facts("a") | {"outcome": "answered"}, [], b"", CallTokens(ids, ids, None)))
    recorder.keep(record("b", [], [1], [2]))
    recorder.close()
    one, two = read_calls(path)
    assert (one.token_ids, one.logprobs, two.logprobs) == ([1, 2], None, [-0.5])


def test_what_was_kept_survives_a_kill_and_the_call_in_flight_is_lost(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        recorder = CallRecorder(tmp_path / "s1.calls")
        recorder.intend(facts("a", 0))
        recorder.keep(record("a", ["x"]))
        recorder.intend(facts("b", 1))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    outcomes = [(call.call_id, call.outcome) for call in read_calls(tmp_path / "s1.calls")]
    assert outcomes == [("a", CallOutcome.ANSWERED), ("b", CallOutcome.LOST)]


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=() if shape == LONGEST else pytest.mark.slow) for shape in SHAPES]
)
def test_every_shape_of_session_comes_back_exactly_in_few_bytes(tmp_path: Path, shape: str) -> None:
    path, calls = tmp_path / "s1.calls", SHAPES[shape](TokenSource())
    recorder = CallRecorder(path)
    for one in records(calls):
        recorder.intend(facts(one.facts["call_id"]))
        recorder.keep(one)
    recorder.close()
    n_read = 0
    for found, call in zip(read_captured(path), calls, strict=True):
        assert found.tokens is not None
        assert found.tokens.logprobs_S is not None
        assert call.logprobs_S is not None
        assert np.array_equal(found.tokens.prompt_ids, call.prompt_ids)
        assert np.array_equal(found.tokens.ids_S, call.ids_S)
        assert np.array_equal(found.tokens.logprobs_S, call.logprobs_S)
        n_read += 1
    assert n_read == len(calls)
    most = 2.8 if shape == LONGEST else 3.1
    assert path.stat().st_size < most * distinct_tokens(calls)


def old_payload(head: JsonObject, *arrays: bytes) -> bytes:
    """As the first version wrote it."""
    encoded = msgspec.json.encode(head)
    return zstandard.compress(struct.pack("<I", len(encoded)) + encoded + b"".join(arrays))


def test_a_file_of_the_first_version_is_read_and_written_on(tmp_path: Path) -> None:
    path = tmp_path / "s1.calls"
    writer = SegmentWriter(path)
    one, two = np.array([1, 2, 3, 9], "<i4").tobytes(), np.array([4, 8], "<i4").tobytes()
    half = np.array([-0.5], "<f4").tobytes()
    answered = {"outcome": "answered"}
    first: JsonObject = {"kind": "call", "facts": facts("a") | answered, "tools": [], "n_logprobs": 1}
    first |= {"messages": {"keep": 0, "add": [{"role": "user", "content": "x"}]}, "n_prompt_added": 3, "n_sampled": 1}
    second: JsonObject = {"kind": "call", "facts": facts("b", 1) | answered, "n_prompt_kept": 4, "n_prompt_added": 1}
    second |= {"messages": {"keep": 1, "add": [{"role": "user", "content": "y"}]}, "n_sampled": 1}
    for payload in (
        old_payload({"kind": "intent", "facts": facts("a")}),
        old_payload(first, one, half),
        old_payload(second, two),
    ):
        writer.append(payload)
    writer.close()
    recorder = CallRecorder(path)
    recorder.keep(record("c", ["x", "y"], [1, 2, 3, 9, 4, 8, 7], [5]))
    recorder.close()
    found = list(read_calls(path))
    assert [call.prompt_token_ids for call in found] == [[1, 2, 3], [1, 2, 3, 9, 4], [1, 2, 3, 9, 4, 8, 7]]
    assert [call.token_ids for call in found] == [[9], [8], [5]]
    assert [call.logprobs for call in found] == [[-0.5], None, [-0.5]]
    assert [[m["content"] for m in call.messages] for call in found] == [["x"], ["x", "y"], ["x", "y"]]


def test_a_record_for_which_there_is_no_room_is_gone_and_later_ones_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "s1.calls"
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            recorder = CallRecorder(path)
            recorder.keep(record("a", ["x"], [1, 2, 3], [4]))
            limit = path.stat().st_size + 400
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            new = np.random.default_rng(0).integers(0, 150_000, 500).tolist()
            with pytest.raises(OSError, match="File too large|wrote"):
                recorder.keep(record("b", ["x", "y"], [1, 2, 3, 4, *new], [5]))
            recorder.keep(record("c", ["x", "z"], [1, 2, 3, 4, *new[:9]], [6]))
            recorder.keep(record("d", ["x", "z"], [1, 2, 3, 4, *new[:9], 6, 7], [new[3]]))
            os._exit(0)
        except BaseException:  # noqa: BLE001 - nothing of the test runner may run in the child
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    found = list(read_calls(path))
    assert [call.call_id for call in found] == ["a", "c", "d"]
    new = np.random.default_rng(0).integers(0, 150_000, 500).tolist()
    assert found[2].prompt_token_ids == [1, 2, 3, 4, *new[:9], 6, 7]
    assert found[2].token_ids == [new[3]]


def test_ids_of_a_record_that_is_not_whole_are_kept_as_they_came(tmp_path: Path) -> None:
    path = tmp_path / "s1.calls"
    recorder = CallRecorder(path)
    none, two = np.empty(0, np.int32), np.array([1, 2], np.int32)
    for position, tokens in enumerate(
        [CallTokens(none, two, None), CallTokens(two, none, np.array([np.nan, -1.0, 0.5], np.float32))]
    ):
        recorder.keep(CallRecord(facts(str(position)) | {"outcome": "answered"}, [], b"", tokens))
    recorder.close()
    one, other = (call.tokens for call in read_captured(path))
    assert one is not None
    assert other is not None
    assert (one.prompt_ids.tolist(), one.ids_S.tolist(), one.logprobs_S) == ([], [1, 2], None)
    assert (other.prompt_ids.tolist(), other.ids_S.tolist()) == ([1, 2], [])
    assert other.logprobs_S is not None
    np.testing.assert_array_equal(other.logprobs_S, np.array([np.nan, -1.0, 0.5], np.float32))
