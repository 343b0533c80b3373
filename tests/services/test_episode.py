"""One whole episode through real servers on real sockets, for each way it can go."""

import asyncio
import json
from pathlib import Path

import pytest

from agent_servers.single_call.app import SingleCall
from gym_core.capture.recorder import capture_path
from gym_core.errors import AgentError, FailureKind, JudgeError
from gym_core.servers.agent import AgentSession, Turn
from gym_core.servers.model.session import ModelSession
from gym_core.servers.resources import Submission
from gym_core.types.responses import ResponsesBody
from gym_core.types.rollout import Completed, Failed
from gym_core.types.session import CaptureSummary
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from resources_servers.echo.app import EchoServer, EchoTask
from tests.fakes.captured import read_calls
from tests.fakes.gym import in_process_gym
from tests.fakes.model import Fault, Says


def _teapot(_: list[JsonObject]) -> str:
    return "I say Teapot."


async def test_an_answer_is_graded_and_everything_seen_is_kept(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = _teapot
        result = await gym.play(image=True)
        open_sessions = len(gym.resources.sessions)
    assert isinstance(result, Completed)
    assert (result.verification.reward, result.verification.failure) == (1.0, None)
    assert result.evidence.response is not None
    assert result.evidence.response.final_text == "I say Teapot."
    capture = result.evidence.capture
    assert capture is not None
    assert (capture.calls, capture.capture_complete, capture.has_token_ids) == (1, True, True)
    assert [(tmp_path / "assets" / image).exists() for image in capture.images] == [True]
    assert len(list(read_calls(capture_path(tmp_path / "captures", capture.session_id)))) == 1
    assert open_sessions == 0


async def test_a_wrong_answer_is_a_zero_and_no_failure(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        result = await gym.play()
    assert isinstance(result, Completed)
    assert (result.verification.reward, result.verification.failure) == (0.0, None)


async def test_the_rows_sampling_reaches_the_endpoint(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        await gym.play(temperature=0.25)
        assert gym.endpoint.requests[-1].body["temperature"] == 0.25


async def test_what_a_rows_metadata_says_never_reaches_the_endpoint(tmp_path: Path) -> None:
    """Authors put golds there."""
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = _teapot
        result = await gym.play(image=True, metadata={"gold": "zebra-42"})
        assert isinstance(result, Completed)
        assert gym.endpoint.requests
        for request in gym.endpoint.requests:
            assert "zebra-42" not in json.dumps([request.body, dict(request.headers)])


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        (Says("teap", finish_reason="length"), FailureKind.OUTPUT_CAP),
        (Says(""), FailureKind.NO_FINAL_ANSWER),
    ],
)
async def test_a_failure_of_the_model_scores_zero(tmp_path: Path, says: Says, kind: FailureKind) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = lambda _: says
        result = await gym.play()
    assert isinstance(result, Completed)
    assert result.verification.failure is not None
    assert (result.verification.reward, result.verification.failure.kind) == (0.0, kind)


@pytest.mark.parametrize("fault", [Fault.SERVER_ERROR, Fault.RATE_LIMITED, Fault.HANG, Fault.HALF_STREAM, Fault.RESET])
async def test_an_endpoint_that_keeps_failing_is_never_the_models_failure(tmp_path: Path, fault: Fault) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.fail_always(fault)
        result = await gym.play()
    assert isinstance(result, Failed)
    assert result.failure.kind is FailureKind.MODEL_UNAVAILABLE


async def test_an_endpoint_that_recovers_leaves_no_trace_in_the_answer(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        gym.endpoint.rule = _teapot
        gym.endpoint.fail(Fault.HALF_STREAM)
        result = await gym.play()
    assert isinstance(result, Completed)
    assert result.verification.reward == 1.0


async def test_an_episode_whose_record_is_lost_is_not_graded(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:

        def answer_and_crash(_: list[JsonObject]) -> str:
            gym.forget_policy_sessions()
            return "I say Teapot."

        gym.endpoint.rule = answer_and_crash
        result = await gym.play()
    assert isinstance(result, Failed)
    assert result.failure.kind is FailureKind.SESSION_LOST


class BrokenEcho(EchoServer):
    """Its grader has a bug."""

    async def verify(self, submission: Submission[EchoTask]) -> Verification:
        raise KeyError("a bug")


class UnjudgedEcho(EchoServer):
    """Its judge is down."""

    async def verify(self, submission: Submission[EchoTask]) -> Verification:
        raise JudgeError("the judge is down")


@pytest.mark.parametrize(
    ("kind", "failure"), [(BrokenEcho, FailureKind.VERIFIER_ERROR), (UnjudgedEcho, FailureKind.JUDGE_FAILED)]
)
async def test_a_grader_that_fails_masks_the_sample(
    tmp_path: Path, kind: type[EchoServer], failure: FailureKind
) -> None:
    async with in_process_gym(tmp_path, resources_type=kind) as gym:
        gym.endpoint.rule = _teapot
        result = await gym.play()
    assert isinstance(result, Completed)
    assert result.verification.failure is not None
    assert (result.verification.is_masked, result.verification.failure.kind) == (True, failure)


async def test_a_row_that_does_not_fit_its_environment_is_named(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path) as gym:
        result = await gym.play(phrase=7)
    assert isinstance(result, Failed)
    assert (result.failure.kind, result.failure.stage) == (FailureKind.INVALID_TASK, "seed")
    assert "phrase" in result.failure.reason


async def test_a_cancelled_episode_closes_its_sessions(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path, policy={"idle_timeout_s": 30}) as gym:
        gym.endpoint.fail(Fault.HANG)
        playing = asyncio.create_task(gym.play())
        async with asyncio.timeout(10):
            while not gym.endpoint.requests:  # noqa: ASYNC110 - the endpoint's socket is the event
                await asyncio.sleep(0.005)
        assert len(gym.resources.sessions) == 1
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        assert len(gym.resources.sessions) == 0


@pytest.mark.parametrize("is_full", [True, False])
async def test_a_first_call_that_is_too_large_is_never_the_models_failure(tmp_path: Path, is_full: bool) -> None:
    """Nothing but the task is in it: a gateway's limit of bodies, or a context that is too small for the task."""
    async with in_process_gym(tmp_path) as gym:
        if is_full:
            gym.endpoint.context_tokens = 5
        else:
            gym.endpoint.fail_always(Fault.TOO_LARGE)
        result = await gym.play(image=True)
    assert isinstance(result, Failed)
    assert result.failure.kind is FailureKind.MODEL_UNAVAILABLE
    assert "body limit of the gateway" in result.failure.reason
    assert result.evidence.capture is not None
    said = result.evidence.capture.last_failure_message or ""
    assert ("maximum context length is 5" if is_full else "Request Entity Too Large") in said


class FullAgent(SingleCall):
    """It ends with a full context, whatever it saw."""

    async def run_turn(self, session: AgentSession, body: ResponsesBody) -> Turn:
        return Turn(output=[], failure=AgentError("the context is full", kind=FailureKind.CONTEXT_LIMIT))


@pytest.mark.parametrize(
    ("seen", "is_models"),
    [
        ({"calls": 0}, False),
        ({"calls": 2, "last_finish_reason": "tool_calls", "last_failure": "context_limit"}, True),
        ({"calls": 2, "last_finish_reason": "tool_calls", "last_failure": "model_unavailable"}, False),
        ({"calls": 1, "last_finish_reason": "length"}, True),
    ],
)
async def test_an_agents_word_of_a_full_context_counts_once_the_endpoint_has_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: JsonObject, is_models: bool
) -> None:
    def summary(self: ModelSession) -> CaptureSummary:
        return CaptureSummary.model_validate({"session_id": self.id, **seen})

    monkeypatch.setattr(ModelSession, "summary", summary)
    async with in_process_gym(tmp_path, agent_type=FullAgent) as gym:
        result = await gym.play()
    if is_models:
        assert isinstance(result, Completed)
        assert result.verification.failure is not None
        assert (result.verification.reward, result.verification.failure.kind) == (0.0, FailureKind.CONTEXT_LIMIT)
    else:
        assert isinstance(result, Failed)
        assert result.failure.kind is FailureKind.MODEL_UNAVAILABLE
