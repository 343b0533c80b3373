"""Typed objects to NeMo-style flat rows and back."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_core.errors import FailureKind, Outcome, outcome_of
from gym_core.types.flat_row import (
    RESERVED_COLUMNS,
    VerifyRequest,
    check_columns,
    flat_from_record,
    flat_from_task,
    record_from_flat,
    task_from_flat,
    verification_from_flat,
    verification_to_flat,
    verify_request_from_flat,
    verify_request_to_flat,
)
from gym_core.types.ids import EpisodeId, TaskId
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputMessage,
    InputText,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ResponseError,
    ResponsesBody,
    ResponsesReply,
)
from gym_core.types.rollout import EpisodeEvidence, EpisodeTiming, RolloutKey, RolloutRecord
from gym_core.types.session import AgentReport, CaptureSummary, SandboxEnforcement
from gym_core.types.task import Task
from gym_core.types.verification import Failure, Verification
from gym_core.types.wire import JsonObject

REFERENCE = "sha256:" + "a" * 64
ENFORCED = SandboxEnforcement(
    provider="local", mechanism="bubblewrap", network="exact_port", memory="none", seccomp=True, user="shared_uid"
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
column_names = st.text(min_size=1, max_size=12).filter(
    lambda name: name not in RESERVED_COLUMNS and not name.startswith(("_ng_", "_gym_"))
)


@st.composite
def two_column_sets(draw: st.DrawFn) -> tuple[JsonObject, JsonObject]:
    columns = draw(st.dictionaries(column_names, json_values, max_size=6))
    names = sorted(columns)
    split = draw(st.integers(0, len(names)))
    return {n: columns[n] for n in names[:split]}, {n: columns[n] for n in names[split:]}


@st.composite
def verifications(draw: st.DrawFn, details: JsonObject) -> Verification:
    kind = draw(st.none() | st.sampled_from(FailureKind))
    components = draw(st.dictionaries(st.text(max_size=5), st.floats(0, 1), max_size=2))
    if kind is None:
        shaping = draw(st.dictionaries(st.sampled_from(["tool_use", "no tool"]), st.floats(-10, 10)))
        return Verification(
            reward=draw(st.floats(0, 1)), reward_components=components, shaping=shaping, details=details
        )
    failure = Failure(kind=kind, reason=draw(st.text(max_size=30)), stage="verify")
    return Verification.failed(failure, details).model_copy(update={"reward_components": components})


@st.composite
def records(draw: st.DrawFn) -> RolloutRecord:
    task_data, details = draw(two_column_sets())
    tools: list[JsonObject] = [{"name": "zoom", "parameters": None}]
    body = ResponsesBody(
        input=draw(
            st.just("hello")
            | st.just([InputMessage(role="user", content=[InputImage(image_url=REFERENCE), InputText(text="?")])])
        ),
        tools=draw(st.just([]) | st.just(tools)),
        temperature=draw(st.none() | st.floats(0, 2)),
        metadata=draw(st.none() | st.just({"a": "b"})),
    )
    reply = ResponsesReply(
        id="r1",
        created_at=draw(st.floats(0, 2e9)),
        status="incomplete",
        output=[
            ReasoningItem(id="t", summary=[{"text": None}]),
            FunctionCall(call_id="c", name="bash", arguments="{}"),
            FunctionCallOutput(call_id="c", output=[InputImage(image_url=REFERENCE)]),
            OutputMessage(id="m", content=[OutputText(text=draw(st.text(max_size=20)))]),
        ],
        error=ResponseError(code="output_cap", message="x"),
    )
    episode = EpisodeId(rollout_id="r-0", attempt=draw(st.integers(0, 5)))
    evidence = EpisodeEvidence(
        episode_id=episode,
        response=draw(st.none() | st.just(reply)),
        agent=AgentReport(seconds=1.5, tool_calls={"bash": 2}),
        capture=draw(st.none() | st.just(CaptureSummary(session_id="s", calls=3, images=["b" * 64]))),
        sandbox=draw(st.none() | st.just(ENFORCED)),
        timing=EpisodeTiming(total=3.25),
    )
    return RolloutRecord(
        key=RolloutKey(task_hash="f" * 64, repeat=draw(st.integers(0, 9))),
        run_hash="abc",
        task_index=draw(st.integers(0, 999)),
        environment="visual_coding_opencode",
        task=Task(id=TaskId(taskset="t", task_id="1"), responses_create_params=body, task_data=task_data),
        evidence=evidence,
        verification=draw(verifications(details)),
        attempts=1,
        finished_at=12.5,
    )


@settings(max_examples=150, deadline=None)
@given(records())
def test_a_record_survives_the_trip_through_its_line(record: RolloutRecord) -> None:
    assert record_from_flat(json.loads(json.dumps(flat_from_record(record)))) == record


@settings(max_examples=100, deadline=None)
@given(records())
def test_tasks_and_verify_requests_survive_it_too(record: RolloutRecord) -> None:
    flat_task = json.loads(json.dumps(flat_from_task(record.task)))
    assert task_from_flat(flat_task, taskset="other", index=3) == record.task
    if record.evidence.response is not None:
        request = VerifyRequest(task=record.task, response=record.evidence.response, resources_session_id="s1")
        assert verify_request_from_flat(json.loads(json.dumps(verify_request_to_flat(request)))) == request
    verification = json.loads(json.dumps(verification_to_flat(record.verification)))
    assert verification_from_flat(flat_task | verification) == record.verification


def test_a_row_of_before_shaping_is_read_and_has_none() -> None:
    old = verification_to_flat(Verification(reward=1.0, shaping={"tool_use": 0.2}))
    del old["reward_shaping"]
    assert verification_from_flat(old) == Verification(reward=1.0)


@pytest.mark.parametrize("kind", FailureKind)
def test_a_row_carries_the_promised_word_and_never_a_masked_number(kind: FailureKind) -> None:
    flat = verification_to_flat(Verification.failed(Failure(kind=kind, reason="why")))
    masked = outcome_of(kind) is not Outcome.SCORE_ZERO
    assert (flat["mask_sample"], flat["reward"]) == (masked, None if masked else 0.0)
    expected = "judge_failed" if kind is FailureKind.JUDGE_UNPARSEABLE else kind.value
    assert (flat["failure_kind"], flat["failure_reason"]) == (expected, "why")


def test_a_masked_placeholder_of_another_server_becomes_null() -> None:
    flat: JsonObject = {"reward": 0.0, "mask_sample": True, "failure_kind": "judge_failed", "failure_reason": "down"}
    flat["reward_shaping"] = {"tool_use": 0.1}
    verification = verification_from_flat(flat | {"judge_reason": "", "question": "?"})
    assert verification.is_masked
    assert (verification.details, verification.shaping) == ({}, {})


@pytest.mark.parametrize(
    ("task_data", "details", "complaint"),
    [
        ({}, {"reward": 1}, "reserved.*reward"),
        ({"response": 1}, {}, "reserved.*response"),
        ({}, {"_gym_agent": 1}, "reserved.*_gym_agent"),
        ({"question": "?"}, {"question": "!"}, "overwrite.*question"),
    ],
)
def test_columns_that_clash_are_an_error(task_data: JsonObject, details: JsonObject, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_columns(task_data, details)


def test_a_row_that_is_no_rollout_says_what_it_lacks() -> None:
    with pytest.raises(ValueError, match="lacks '_gym_details'"):
        record_from_flat({"responses_create_params": {"input": "x"}})
