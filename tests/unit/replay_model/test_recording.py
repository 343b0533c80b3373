"""Which recorded call is given out for what a harness asks, and what is said when there is none."""

import json
import re

import pytest

from gym_core.capture.recorder import CapturedCall
from gym_core.types.wire import JsonObject
from model_servers.replay_model.app import OPENCODES_DATE, ReplayModelConfig
from model_servers.replay_model.recording import Diverged, Recording, same_tools


def message(text: str, role: str = "user") -> bytes:
    return json.dumps({"role": role, "content": text}).encode()


def captured(index: int, *messages: bytes, outcome: str = "answered", **facts: object) -> CapturedCall:
    answer: JsonObject = {
        "content": f"answer {index}", "reasoning": "", "tool_calls": [], "finish_reason": "stop",
        "input_tokens": 1, "output_tokens": 1,
    }  # fmt: skip
    said: JsonObject = {
        "call_id": f"c{index}", "session_id": "s", "index": index, "sent_at": 1.0, "outcome": outcome,
        "answer": answer if outcome == "answered" else None, **facts,
    }  # fmt: skip
    return CapturedCall(said, messages, b"[]", None)


A, B, C = message("a"), message("b", "assistant"), message("c")


def test_each_call_is_answered_as_the_one_that_said_the_same() -> None:
    recording = Recording([captured(0, A), captured(1, A, B, C)])
    assert [recording.next([A]).number, recording.next([A, B, C]).number] == [1, 2]


def test_white_space_and_list_content_are_no_difference() -> None:
    parts = b'{"content": [{"type": "text", "text": "a"}], "role": "user"}'
    assert Recording([captured(0, A)]).next([parts]).number == 1


def test_calls_that_say_the_same_are_given_out_in_order_and_the_last_again() -> None:
    recording = Recording([captured(1, A), captured(0, A)])
    assert [recording.next([A]).number for _ in range(3)] == [1, 2, 2]


def test_a_call_that_was_given_up_stands_back_for_its_twin_that_was_answered() -> None:
    recording = Recording([captured(0, A, outcome="abandoned"), captured(1, A)])
    assert recording.next([A]).number == 2


def test_a_call_without_a_record_of_its_messages_is_no_candidate() -> None:
    assert len(Recording([captured(0, outcome="lost")])) == 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([A, B, message("x")], "message 3 (user) of recorded call 2 was"),
        ([A, B], "it has 2 messages, recorded call 2 has 3"),
        ([message("z")], "message 1 (user) of recorded call 1 was"),
    ],
)
def test_a_divergence_names_the_first_message_that_differs(asked: list[bytes], said: str) -> None:
    recording = Recording([captured(0, A), captured(1, A, B, C)])
    with pytest.raises(Diverged, match=re.escape(said)):
        recording.next(asked)


def test_a_divergence_quotes_both_texts_from_where_they_part_and_no_more() -> None:
    recording = Recording([captured(0, message("x" * 500 + "old" + "y" * 500))])
    with pytest.raises(Diverged) as caught:
        recording.next([message("x" * 500 + "new" + "y" * 500)])
    text = str(caught.value)
    assert ("xold" in text, "xnew" in text, len(text) < 500) == (True, True, True)


def test_after_the_last_recorded_call_it_says_so() -> None:
    recording = Recording([captured(0, A)])
    recording.next([A])
    with pytest.raises(Diverged, match="all 1 recorded calls were asked before"):
        recording.next([A, B])


def test_a_session_without_calls_says_so() -> None:
    with pytest.raises(Diverged, match="no call of this rollout was recorded"):
        Recording([]).next([A])


def test_another_day_in_opencodes_prompt_is_no_difference() -> None:
    days = [message(f"env\n  Today's date: {day}\nmore", "system") for day in ("Mon Nov 30 2026", "Tue Dec 01 2026")]
    assert Recording([captured(0, days[0])], [re.compile(OPENCODES_DATE)]).next([days[1]]).number == 1
    with pytest.raises(Diverged):
        Recording([captured(0, days[0])]).next([days[1]])


@pytest.mark.parametrize("hostile", [b"", b"\xff\xfe", b"[" * 10_000, b'{"role": 3}', b"null"])
def test_what_is_no_message_is_equal_to_itself_alone(hostile: bytes) -> None:
    recording = Recording([captured(0, hostile)], [re.compile("x")])
    if hostile:
        with pytest.raises(Diverged):
            recording.next([A])


def test_tools_are_compared_as_json() -> None:
    assert same_tools(b'[{"a": 1}]', b'[ {"a":1} ]')
    assert same_tools(b"", b"[]")
    assert not same_tools(b"[1]", b"[2]")
    assert not same_tools(b"[", b"[1]")


def test_a_pattern_that_is_none_is_a_mistake_in_the_configuration() -> None:
    with pytest.raises(ValueError, match="not a regular expression"):
        ReplayModelConfig(run="x.jsonl", ignore=["("])


def test_where_two_long_texts_part_is_found_at_once() -> None:
    same = "x" * 5_000_000
    recording = Recording([captured(0, message(same + "old"))])
    with pytest.raises(Diverged, match="xnew"):
        recording.next([message(same + "new")])
