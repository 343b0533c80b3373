import json

import pytest

from agent_servers.opencode_agent.journal import Journal, read_events, read_export
from agent_servers.opencode_agent.transcript import make_transcript
from tests.fakes.opencode import recorded

STEP = '{"type":"text","sessionID":"ses_1","part":{"id":"prt_1","messageID":"msg_1","type":"text","text":"hi"}}\n'


def event(part: object) -> bytes:
    return json.dumps({"type": "x", "sessionID": "ses_1", "part": part}).encode() + b"\n"


def exported(name: str) -> Journal:
    export = recorded(name).export
    assert export is not None
    journal = read_export(export)
    assert journal is not None
    return journal


@pytest.mark.parametrize("name", ["normal", "thinking", "parallel_reads", "bad_calls"])
def test_events_and_export_of_a_whole_run_tell_the_same(name: str) -> None:
    events = read_events(recorded(name).events)
    assert events.ends_cleanly
    assert events.session_id == exported(name).session_id
    assert make_transcript(events) == make_transcript(exported(name))


def test_parts_are_in_the_order_in_which_they_began() -> None:
    """Event lines come as things end: of three calls side by side the slow second one comes last."""
    lines = recorded("parallel_reads").events.splitlines()
    tools = [json.loads(line)["part"]["tool"] for line in lines if b'"tool_use"' in line]
    assert tools[:3] == ["read", "read", "bash"] or tools[:3] == ["read", "bash", "read"]
    first = read_events(recorded("parallel_reads").events).messages[0]
    assert [part.type for part in first.parts] == ["step-start", "text", "tool", "tool", "tool", "step-finish"]
    assert [tool.tool for tool in first.tools] == ["read", "bash", "read"]


def test_the_task_itself_is_no_part_of_the_journal() -> None:
    assert {message.role for message in exported("normal").messages} == {"assistant"}


def test_an_export_after_a_kill_has_the_call_that_was_running() -> None:
    events, export = read_events(recorded("killed_in_bash").events), exported("killed_in_bash")
    assert not events.ends_cleanly
    assert (events.messages[0].tools, export.messages[0].tools[0].tool) == ([], "bash")


def test_an_export_names_the_version_that_ran() -> None:
    assert exported("normal").version == "1.17.11"


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9, 0.999])
def test_a_cut_event_file_is_noticed(keep: float) -> None:
    events = recorded("parallel_reads").events
    journal = read_events(events[: int(len(events) * keep)])
    assert journal.is_cut
    assert not journal.ends_cleanly


def test_a_file_cut_between_two_lines_does_not_end_cleanly() -> None:
    lines = recorded("normal").events.splitlines(keepends=True)
    assert not any(read_events(b"".join(lines[:count])).ends_cleanly for count in range(len(lines)))


def test_a_cut_export_is_none() -> None:
    export = recorded("normal").export or b""
    assert read_export(export[:-10]) is None


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"\xff\xfe\n",
        b"[1, 2]\n",
        b'{"type": 7}\n',
        event({"id": "p", "messageID": "m", "type": "text", "text": ["list"]}),
        event({"id": "p", "messageID": "m", "type": "tool", "state": {"output": {"deep": 1}}}),
        event({"messageID": "m", "type": "text"}),
        b'{"type":"x","part":' + b"[" * 100_000 + b"\n",
    ],
)
def test_hostile_lines_are_counted_and_the_rest_is_read(line: bytes) -> None:
    journal = read_events(line + STEP.encode())
    assert (journal.unreadable, [message.text for message in journal.messages]) == (1, ["hi"])


def test_an_error_that_cannot_be_read_is_still_an_error() -> None:
    journal = read_events(b'{"type":"error","error":{"name":7}}\n')
    assert [error.name for error in journal.errors] == ["UnreadableError"]


def test_half_a_character_is_replaced_instead_of_losing_the_part() -> None:
    journal = read_events(STEP.replace("hi", r"a\ud83d!").encode())
    assert (journal.messages[0].text, journal.unreadable) == ("a?!", 0)


def test_unknown_fields_and_kinds_are_no_trouble() -> None:
    part = {"id": "p", "messageID": "m", "type": "hologram", "volume": 3}
    journal = read_events(event(part) + STEP.encode())
    assert (len(journal.messages), journal.unreadable) == (2, 0)


def test_made_up_user_turns_are_told_from_the_models_words() -> None:
    synthetic = {"id": "p", "messageID": "msg_2", "type": "text", "text": "Continue ...", "synthetic": True}
    journal = read_events(STEP.encode() + event(synthetic))
    assert [message.role for message in journal.messages] == ["assistant", "user"]
    assert journal.last is not None
    assert journal.last.text == "hi"
