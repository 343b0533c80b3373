"""Every ending, from recordings of real runs: see the table in the agent server's README."""

import json

import pytest

from agent_servers.opencode_agent.journal import Journal, read_events, read_export
from agent_servers.opencode_agent.outcome import Ending, failure_of
from gym_core.errors import FailureKind
from gym_core.sandbox.contract import ExecResult
from gym_core.types.session import CaptureSummary
from tests.fakes.opencode import recorded

DONE = ExecResult(exit_code=0)
FAILED = ExecResult(exit_code=1)
TIMED_OUT = ExecResult(exit_code=None, signal=9, timed_out=True)
KILLED = ExecResult(exit_code=None, signal=9)
CALLED = CaptureSummary(session_id="s", calls=1, first_call_at=1.0, images=["a" * 64])
NOT_CALLED = CaptureSummary(session_id="s")
USED_TOOLS = CALLED.model_copy(update={"tool_calls": 1})
ENDPOINT_DOWN = CALLED.model_copy(update={"last_failure": "model_unavailable", "last_failure_message": "no answer"})


def journal(name: str) -> Journal:
    recording = recorded(name)
    events = read_events(recording.events)
    return events if events.ends_cleanly else (read_export(recording.export or b"") or events)


def kind_of(
    found: Journal, result: ExecResult = DONE, calls: CaptureSummary | None = CALLED, context_tokens: int = 32768
) -> FailureKind | None:
    failure = failure_of(Ending(found, result, attached_images=1, context_tokens=context_tokens, calls=calls))
    return failure.kind if failure else None


def error(name: str, message: str = "", status: int | None = None, body: str | None = None) -> Journal:
    found = {"name": name, "data": {"message": message, "statusCode": status, "responseBody": body}}
    line = json.dumps({"type": "error", "sessionID": "ses_1", "error": found}).encode() + b"\n"
    return read_events(recorded("refused_later").events.rpartition(b'{"type":"error"')[0] + line)


@pytest.mark.parametrize(
    ("name", "result", "kind"),
    [
        ("normal", DONE, None),
        ("thinking", DONE, None),
        ("length_then_answer", DONE, None),
        ("stop_with_call", DONE, None),
        ("normal", FAILED, None),
        ("normal", TIMED_OUT, None),
        ("length", DONE, FailureKind.OUTPUT_CAP),
        ("empty", DONE, FailureKind.NO_FINAL_ANSWER),
        ("only_reasoning", DONE, FailureKind.NO_FINAL_ANSWER),
        ("filtered", FAILED, FailureKind.NO_FINAL_ANSWER),
        ("context_full", FAILED, FailureKind.CONTEXT_LIMIT),
        ("no_finish", DONE, FailureKind.MODEL_UNAVAILABLE),
        ("bad_stream", FAILED, FailureKind.MODEL_UNAVAILABLE),
        ("unavailable", FAILED, FailureKind.MODEL_UNAVAILABLE),
        ("refused_first", FAILED, FailureKind.MODEL_UNAVAILABLE),
        ("refused_later", FAILED, FailureKind.AGENT_RUN_ERROR),
        ("killed_in_bash", TIMED_OUT, FailureKind.AGENT_TIMEOUT),
        ("killed_in_bash", KILLED, FailureKind.AGENT_CRASHED),
    ],
)
def test_each_ending_has_its_kind(name: str, result: ExecResult, kind: FailureKind | None) -> None:
    assert kind_of(journal(name), result) == kind


@pytest.mark.parametrize(
    ("found", "result"),
    [
        (journal("killed_itself"), KILLED),
        (journal("killed_in_bash"), KILLED),
        (Journal(), FAILED),
        (error("UnknownError", "Unexpected server error: disk is full"), FAILED),
        (error("APIError", "model_unavailable", 422), FAILED),
        (error("UnknownError", "File not found: image.png"), DONE),
    ],
)
def test_once_the_model_could_run_commands_a_sandbox_cannot_talk_its_way_out_of_a_score(
    found: Journal, result: ExecResult
) -> None:
    assert kind_of(found, result, USED_TOOLS) == FailureKind.AGENT_RUN_ERROR
    down = ENDPOINT_DOWN.model_copy(update={"tool_calls": 1})
    assert kind_of(found, result, down) == FailureKind.MODEL_UNAVAILABLE
    blind = USED_TOOLS.model_copy(update={"images": []})
    assert kind_of(found, result, blind) == FailureKind.AGENT_START_FAILED


def test_tools_do_not_turn_the_models_own_endings_into_something_else() -> None:
    assert kind_of(journal("normal"), FAILED, USED_TOOLS) is None
    assert kind_of(journal("killed_in_bash"), TIMED_OUT, USED_TOOLS) == FailureKind.AGENT_TIMEOUT
    assert kind_of(journal("context_full"), FAILED, USED_TOOLS) == FailureKind.CONTEXT_LIMIT


@pytest.mark.parametrize("name", ["corrupt_image", "bmp_image"])
def test_an_image_that_opencode_refused_is_never_scored_even_with_an_answer(name: str) -> None:
    calls = NOT_CALLED if name == "corrupt_image" else CALLED
    assert kind_of(journal(name), FAILED, calls) == FailureKind.INVALID_TASK


def test_an_answer_to_a_question_without_its_picture_is_never_scored() -> None:
    blind = CALLED.model_copy(update={"images": []})
    assert kind_of(journal("normal"), DONE, blind) == FailureKind.AGENT_START_FAILED


@pytest.mark.parametrize(
    ("result", "calls", "kind"),
    [
        (TIMED_OUT, NOT_CALLED, FailureKind.AGENT_START_FAILED),
        (KILLED, NOT_CALLED, FailureKind.AGENT_START_FAILED),
        (FAILED, NOT_CALLED, FailureKind.AGENT_START_FAILED),
        (TIMED_OUT, CALLED, FailureKind.AGENT_TIMEOUT),
        (TIMED_OUT, ENDPOINT_DOWN, FailureKind.MODEL_UNAVAILABLE),
        (KILLED, CALLED, FailureKind.AGENT_CRASHED),
        (DONE, CALLED, FailureKind.AGENT_CRASHED),
        (DONE, None, FailureKind.AGENT_START_FAILED),
    ],
)
def test_without_any_event_the_policy_server_knows_how_far_it_got(
    result: ExecResult, calls: CaptureSummary | None, kind: FailureKind
) -> None:
    assert kind_of(Journal(), result, calls) == kind


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("This model's maximum context length is 32768 tokens. However, you requested 40000 tokens.", 400),
        ("The decoder prompt (length 40000) is longer than the maximum model length of 32768.", 400),
        ("code: context_length_exceeded", 400),
        ("prompt is too long: 40000 tokens > 32768 maximum", 413),
    ],
)
def test_a_full_context_is_known_by_any_wording(message: str, status: int) -> None:
    assert kind_of(error("APIError", message, status), FAILED) == FailureKind.CONTEXT_LIMIT
    assert kind_of(error("APIError", "Bad Request", status, body=message), FAILED) == FailureKind.CONTEXT_LIMIT


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (error("APIError", "session key", 401), FailureKind.MODEL_UNAVAILABLE),
        (error("APIError", "too many images", 400), FailureKind.AGENT_RUN_ERROR),
        (error("UnknownError", "The operation timed out."), FailureKind.MODEL_UNAVAILABLE),
        (error("UnknownError", "Unexpected server error. Check server logs for details."), FailureKind.AGENT_CRASHED),
        (error("APIError", "x", 424, body='{"error":{"code":"model_unavailable"}}'), FailureKind.MODEL_UNAVAILABLE),
    ],
)
def test_a_refused_call_in_mid_run(found: Journal, kind: FailureKind) -> None:
    assert kind_of(found, FAILED) == kind


def test_the_policy_server_has_the_last_word_on_an_endpoint_fault() -> None:
    assert kind_of(error("APIError", "Bad Request", 400), FAILED, ENDPOINT_DOWN) == FailureKind.MODEL_UNAVAILABLE


def test_a_length_stop_with_a_full_context_is_the_contexts() -> None:
    assert kind_of(journal("length"), context_tokens=1000) == FailureKind.CONTEXT_LIMIT


def test_a_run_that_a_refused_permission_ended_is_the_models() -> None:
    text = recorded("stop_with_call").events.split(b'{"type":"step_start"')[1].replace(b'"stop"', b'"tool-calls"')
    refused = text.replace(b'"status":"completed"', b'"status":"error","error":"The user rejected permission to use"')
    assert kind_of(read_events(b'{"type":"step_start"' + refused)) == FailureKind.AGENT_RUN_ERROR


def test_no_reason_is_longer_than_a_record_takes() -> None:
    failure = failure_of(Ending(error("APIError", "x" * 10_000, 400), FAILED, 1, 32768, CALLED))
    assert failure is not None
    assert len(str(failure)) < 1000
