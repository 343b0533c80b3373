"""A session's calls on disk and back: everything kept, little written, what never ended shown as lost."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_core.capture.recorder import CallRecord, CallRecorder, CallTokens, capture_path, read_calls
from gym_core.capture.segment import SegmentDamaged
from gym_core.types.model_call import CallOutcome
from gym_core.types.wire import JsonObject

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
