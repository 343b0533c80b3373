"""What a harness, and the record of its session, see of each way an endpoint can fail; through real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from gym_core.errors import FailureKind
from gym_core.servers.model.answer import Answer
from gym_core.types.model_call import CallOutcome, CaptureGap
from gym_core.types.wire import JsonObject
from tests.fakes.model import Calls, Fault, Says, ScriptedEndpoint
from tests.fakes.proxy import RUN_TOKEN, Proxy, chat, eventually, image_message, vllm_proxy


@dataclass(frozen=True)
class Seen:
    """How one fault of an endpoint that stays is to be classified."""

    outcome: CallOutcome
    gaps: set[CaptureGap] | None
    """None when no token came."""
    status: int
    """That the harness is told."""
    kept_ids: int = 0
    """Sampled ids in the record."""


BROKEN = {CaptureGap.NO_DONE, CaptureGap.NO_FINISH_REASON, CaptureGap.NO_USAGE}
NOTHING_CAME = Seen(CallOutcome.FAILED, None, 422)
N_IDS = len('twobash{"command": "ls"}') + 1
UPSTREAM_FAULTS = {
    Fault.NONE: Seen(CallOutcome.ANSWERED, set(), 200, N_IDS),
    Fault.RATE_LIMITED: NOTHING_CAME,
    Fault.SERVER_ERROR: NOTHING_CAME,
    Fault.HANG: NOTHING_CAME,
    Fault.RESET: NOTHING_CAME,
    Fault.HUGE_HEADER: NOTHING_CAME,
    Fault.HTML: NOTHING_CAME,
    Fault.HALF_STREAM: Seen(CallOutcome.FAILED, BROKEN | {CaptureGap.NO_END}, 422, 1),
    Fault.STALL: Seen(CallOutcome.FAILED, BROKEN | {CaptureGap.NO_END}, 422, 1),
    Fault.CUT_EVENT: Seen(CallOutcome.FAILED, BROKEN, 422, 1),
    Fault.CLEAN_HALF: Seen(CallOutcome.FAILED, BROKEN, 422, 1),
    Fault.ERROR_EVENT: Seen(CallOutcome.FAILED, BROKEN, 422, 1),
    Fault.GARBAGE: Seen(CallOutcome.FAILED, BROKEN, 422, 1),
    Fault.NO_DONE: Seen(CallOutcome.ANSWERED, {CaptureGap.NO_DONE}, 200, N_IDS),
    Fault.FEWER_IDS: Seen(CallOutcome.ANSWERED, {CaptureGap.IDS_NOT_USAGE}, 200, N_IDS),
    Fault.NO_CALL_IDS: Seen(CallOutcome.ANSWERED, {CaptureGap.IDS_NOT_USAGE}, 200, len("two") + 1),
    Fault.BAD_LOGPROB: Seen(CallOutcome.ANSWERED, {CaptureGap.BAD_LOGPROB}, 200, N_IDS),
}
"""The table of the ways an upstream fails. A client that leaves has a test of its own."""
PASSING_FAULTS = [
    Fault.RATE_LIMITED, Fault.SERVER_ERROR, Fault.HTML, Fault.RESET, Fault.HALF_STREAM, Fault.CLEAN_HALF,
    Fault.CUT_EVENT, Fault.ERROR_EVENT, Fault.GARBAGE, Fault.HUGE_HEADER, Fault.NO_CHOICES,
]  # fmt: skip
LIMITS = {"idle_timeout_s": 0.3, "retry": {"max_attempts": 3}}


@pytest.fixture
async def endpoint() -> AsyncIterator[ScriptedEndpoint]:
    async with ScriptedEndpoint(lambda _: Says("two", calls=(Calls("bash", '{"command": "ls"}'),))) as endpoint:
        yield endpoint


@pytest.fixture
async def proxy(endpoint: ScriptedEndpoint, tmp_path: Path) -> AsyncIterator[Proxy]:
    async with vllm_proxy(endpoint, tmp_path, **LIMITS) as proxy:
        yield proxy


def events_of(reply: httpx.Response) -> list[JsonObject]:
    return [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]


def text_of(reply: httpx.Response) -> str:
    deltas = [event["choices"][0]["delta"] for event in events_of(reply) if event["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


@pytest.mark.parametrize("fault", [*PASSING_FAULTS, Fault.HANG, Fault.STALL])
async def test_a_fault_that_passes_is_never_seen_by_the_harness(
    endpoint: ScriptedEndpoint, proxy: Proxy, fault: Fault
) -> None:
    session = await proxy.open_session()
    endpoint.fail(fault)
    reply = await session.chat(chat())
    assert (reply.status_code, text_of(reply)) == (200, "two")
    assert reply.text.endswith("data: [DONE]\n\n")
    summary = await session.close()
    assert (summary.calls, summary.failed_calls, summary.last_failure) == (1, 0, None)
    assert (summary.has_token_ids, summary.capture_complete) == (True, True)
    (call,) = session.calls()
    assert (call.outcome, call.attempts) == (CallOutcome.ANSWERED, 2)


@pytest.mark.parametrize("fault", [*PASSING_FAULTS, Fault.HANG, Fault.STALL, Fault.UNAUTHORIZED])
async def test_a_fault_that_stays_ends_in_one_answer_that_no_harness_repeats(
    endpoint: ScriptedEndpoint, proxy: Proxy, fault: Fault
) -> None:
    session = await proxy.open_session()
    endpoint.fail_always(fault)
    reply = await session.chat(chat())
    assert reply.status_code == 422
    assert reply.json()["error"]["code"] == "model_unavailable"
    assert endpoint.url not in reply.text
    n_expected = {Fault.UNAUTHORIZED: [1], Fault.RATE_LIMITED: range(10, 60)}
    assert len(endpoint.requests) in n_expected.get(fault, [3])
    summary = await session.close()
    assert (summary.failed_calls, summary.last_failure) == (1, FailureKind.MODEL_UNAVAILABLE)
    (call,) = session.calls()
    assert (call.outcome, call.failure_kind) == (CallOutcome.FAILED, FailureKind.MODEL_UNAVAILABLE)


async def test_whole_answers_that_are_no_completions_are_asked_for_three_times_and_the_harness_is_told_why(
    endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    async with vllm_proxy(endpoint, tmp_path, retry={"max_attempts": 8}) as proxy:
        session = await proxy.open_session()
        endpoint.fail_always(Fault.NO_CHOICES)
        told = (await session.chat(chat())).json()["error"]["message"]
    assert told.startswith(
        "the model endpoint failed (no whole answer, 3 attempts): the answer is whole, and has no `choice"
    )
    assert told.endswith("change the engine's settings, or put a gateway before it")
    assert len(endpoint.requests) == 3


async def test_a_session_counts_as_many_calls_as_its_capture_has_whatever_became_of_them(
    endpoint: ScriptedEndpoint, proxy: Proxy
) -> None:
    """What an export compares to tell a capture file that lost calls."""
    session = await proxy.open_session()
    for body in (b"{", b"[]", chat(messages=7), chat(n=2)):
        await session.chat(body)
    assert (await session.chat(chat())).status_code == 200
    endpoint.fail(Fault.BAD_REQUEST)
    assert (await session.chat(chat())).status_code != 200
    assert (await session.chat(chat())).status_code == 200
    calls = session.calls()
    assert (await session.close()).calls == len(calls)
    assert {call.outcome for call in calls} == {CallOutcome.ANSWERED, CallOutcome.FAILED}


async def test_a_dead_endpoint_is_named_and_a_later_answer_clears_the_failure(tmp_path: Path) -> None:
    async with ScriptedEndpoint() as endpoint, vllm_proxy(endpoint, tmp_path, **LIMITS) as proxy:
        await endpoint.__aexit__()
        session = await proxy.open_session()
        reply = await session.chat(chat())
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "model_unavailable")
        assert (await session.summary()).last_failure == FailureKind.MODEL_UNAVAILABLE
        async with ScriptedEndpoint(port=endpoint.port):
            assert (await session.chat(chat())).status_code == 200
        assert (await session.summary()).last_failure is None


async def test_pauses_grow_and_follow_retry_after(endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    async with vllm_proxy(endpoint, tmp_path, retry={"max_attempts": 6}) as proxy:
        session = await proxy.open_session()
        endpoint.fail(*[Fault.SERVER_ERROR] * 3, Fault.RATE_LIMITED)
        assert (await session.chat(chat())).status_code == 200
        first, second, third, fourth = proxy.clock.slept
    assert 0.375 <= first <= 0.625
    assert first < third
    assert second < third
    assert fourth >= 1.0


async def test_no_attempt_starts_after_the_patience_is_over(endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    async with vllm_proxy(endpoint, tmp_path, retry={"max_attempts": 100, "patience_s": 100.0}) as proxy:
        session = await proxy.open_session()
        endpoint.fail_always(Fault.SERVER_ERROR)
        assert (await session.chat(chat())).status_code == 422
        assert 60.0 < sum(proxy.clock.slept) <= 100.0


async def test_another_endpoint_takes_over_when_a_sessions_own_fails(tmp_path: Path) -> None:
    async with (
        ScriptedEndpoint() as one,
        ScriptedEndpoint() as two,
        vllm_proxy(one, tmp_path, base_url=[one.url, two.url], **LIMITS) as proxy,
    ):
        session = await proxy.open_session()
        await session.chat(chat())
        await session.chat(chat())
        first, other = (one, two) if one.requests else (two, one)
        assert (len(first.requests), len(other.requests)) == (2, 0)
        first.fail_always(Fault.RESET)
        assert (await session.chat(chat())).status_code == 200
        assert len(other.requests) == 1


async def test_a_client_that_leaves_ends_the_call_at_the_endpoint(endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        session = await proxy.open_session()
        endpoint.fail(Fault.STALL)
        with pytest.raises(httpx.ReadTimeout):
            await proxy.http.post(
                "/v1/chat/completions",
                json=chat(),
                headers={"Authorization": f"Bearer {session.key}"},
                timeout=httpx.Timeout(5, read=0.3),
            )
        await eventually(lambda: endpoint.broken_off and session.calls()[0].outcome == CallOutcome.ABANDONED)
        summary = await session.close()
    (call,) = session.calls()
    assert (call.token_ids, set(call.gaps or ())) == ([ord("t")], BROKEN | {CaptureGap.NO_END})
    assert (summary.calls, summary.failed_calls, summary.notes) == (1, 0, {"call_abandoned": 1})


async def test_a_call_given_up_while_the_endpoint_failed_is_the_endpoints_failure(
    endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        session = await proxy.open_session()
        endpoint.fail(Fault.SERVER_ERROR, Fault.HANG)
        call = asyncio.create_task(session.chat(chat()))
        await eventually(lambda: len(endpoint.requests) == 2)
        summary = await session.close()
        reply = await call
    assert summary.last_failure == FailureKind.MODEL_UNAVAILABLE
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "session_closed")


@pytest.mark.parametrize(("waited_s", "kind"), [(30.0, None), (61.0, FailureKind.MODEL_UNAVAILABLE)])
async def test_a_call_given_up_in_our_own_queue_is_not_the_models_time_out(
    endpoint: ScriptedEndpoint, tmp_path: Path, waited_s: float, kind: FailureKind | None
) -> None:
    async with vllm_proxy(endpoint, tmp_path, max_concurrent_requests=1) as proxy:
        first, second = await proxy.open_session("first"), await proxy.open_session("second")
        endpoint.fail(Fault.HANG)
        served = asyncio.create_task(first.chat(chat()))
        await eventually(lambda: endpoint.requests)
        queued = asyncio.create_task(second.chat(chat()))
        await eventually(lambda: proxy.server.sessions.find("second").calls)
        proxy.clock.slept.append(waited_s)
        summary = await second.close()
        await first.close()
        await asyncio.gather(served, queued)
        third = await proxy.open_session("third")
        assert (await third.chat(chat())).status_code == 200
    assert (summary.last_failure, summary.notes) == (kind, {"call_abandoned": 1})
    assert ("max_concurrent_requests" in (summary.last_failure_message or "")) is (kind is not None)
    (call,) = second.calls()
    assert (call.outcome, call.failure_kind) == (CallOutcome.ABANDONED, kind)
    assert call.timings.queued_s >= waited_s


@pytest.mark.parametrize(("fault", "expected"), UPSTREAM_FAULTS.items())
async def test_each_way_an_upstream_fails_is_classified_and_what_came_is_kept(
    endpoint: ScriptedEndpoint, proxy: Proxy, fault: Fault, expected: Seen
) -> None:
    session = await proxy.open_session()
    endpoint.fail_always(fault)
    reply = await session.chat(chat())
    is_answered = expected.outcome is CallOutcome.ANSWERED
    assert (reply.status_code, text_of(reply)) == (expected.status, "two" if is_answered else "")
    summary = await session.close()
    assert summary.has_logprobs is (is_answered and not expected.gaps)
    assert summary.has_token_ids is (is_answered and not (expected.gaps or set()) - {CaptureGap.BAD_LOGPROB})
    (call,) = session.calls()
    assert (call.outcome, set(call.gaps) if call.gaps is not None else None) == (expected.outcome, expected.gaps)
    assert call.failure_kind == (None if is_answered else FailureKind.MODEL_UNAVAILABLE)
    assert len(call.token_ids or []) == len(call.logprobs or []) == expected.kept_ids
    assert bool(call.prompt_token_ids) is (expected.gaps is not None)


async def test_ids_that_do_not_add_up_are_noted(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    session = await proxy.open_session()
    endpoint.fail(Fault.FEWER_IDS)
    assert (await session.chat(chat())).status_code == 200
    assert (await session.close()).notes == {"token_ids_incomplete": 1}


async def test_an_endpoint_without_include_reasoning_gives_token_ids_all_the_same(tmp_path: Path) -> None:
    async with (
        ScriptedEndpoint(refuses=frozenset({"include_reasoning"})) as endpoint,
        vllm_proxy(endpoint, tmp_path) as proxy,
    ):
        session = await proxy.open_session()
        for _ in range(2):
            assert (await session.chat(chat())).status_code == 200
        assert [seen.body.get("include_reasoning") for seen in endpoint.requests] == [True, None, None]
        assert (await session.close()).has_logprobs
        assert [call.sampling.get("include_reasoning") for call in session.calls()] == [None, None]


async def test_a_client_cannot_take_the_token_ids_away(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    session = await proxy.open_session()
    assert (await session.chat(chat(include_reasoning=False))).status_code == 200
    assert (await session.close()).has_logprobs


async def test_a_stream_without_done_but_with_its_end_is_an_answer(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    session = await proxy.open_session()
    endpoint.fail(Fault.NO_DONE)
    reply = await session.chat(chat())
    assert text_of(reply) == "two"
    assert (await session.close()).notes == {"no_done": 1}


async def test_a_bad_request_is_ours_at_first_and_the_models_once_the_endpoint_took_one(
    endpoint: ScriptedEndpoint, proxy: Proxy
) -> None:
    fresh, used = await proxy.open_session("fresh"), await proxy.open_session("used")
    await used.chat(chat())
    endpoint.fail_always(Fault.BAD_REQUEST)
    for session, kind in ((fresh, FailureKind.MODEL_UNAVAILABLE), (used, FailureKind.AGENT_RUN_ERROR)):
        reply = await session.chat(chat("more"))
        assert (reply.status_code, "cannot identify image" in reply.text) == (400, True)
        assert (await session.close()).last_failure == kind


async def test_a_limit_of_pictures_is_the_endpoints_and_says_what_to_change(tmp_path: Path) -> None:
    async with ScriptedEndpoint(max_pictures=1) as endpoint, vllm_proxy(endpoint, tmp_path) as proxy:
        session = await proxy.open_session()
        assert (await session.chat(chat(messages=[image_message()]))).status_code == 200
        reply = await session.chat(chat(messages=[image_message(), image_message()]))
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "model_unavailable")
        assert "--limit-mm-per-prompt" in reply.text
        assert len(endpoint.requests) == 2
        summary = await session.close()
    assert summary.last_failure == FailureKind.MODEL_UNAVAILABLE
    assert "--limit-mm-per-prompt" in (summary.last_failure_message or "")


@pytest.mark.parametrize("names_refused", [True, False])
async def test_an_endpoint_that_refuses_logprobs_is_asked_without_from_then_on(
    tmp_path: Path, names_refused: bool
) -> None:
    refuses = frozenset({"logprobs", "return_token_ids"})
    async with (
        ScriptedEndpoint(refuses=refuses, names_refused=names_refused) as endpoint,
        vllm_proxy(endpoint, tmp_path) as proxy,
    ):
        session = await proxy.open_session()
        assert (await session.chat(chat())).status_code == 200
        asked = len(endpoint.requests)
        assert (await session.chat(chat())).status_code == 200
        assert len(endpoint.requests) == asked + 1
        summary = await session.close()
    assert (summary.has_token_ids, summary.has_logprobs, summary.capture_complete) == (False, False, True)


async def test_a_server_told_to_need_token_ids_does_not_go_without(tmp_path: Path) -> None:
    async with (
        ScriptedEndpoint(refuses=frozenset({"return_token_ids"})) as endpoint,
        vllm_proxy(endpoint, tmp_path, return_token_id_information=True) as proxy,
    ):
        session = await proxy.open_session()
        reply = await session.chat(chat())
        assert (reply.status_code, len(endpoint.requests)) == (400, 1)


async def test_max_tokens_shrinks_to_what_the_context_leaves(tmp_path: Path) -> None:
    async with ScriptedEndpoint(context_tokens=2000) as endpoint, vllm_proxy(endpoint, tmp_path) as proxy:
        session = await proxy.open_session()
        assert (await session.chat(chat("x" * 1000))).status_code == 200
        first, second = (seen.body["max_tokens"] for seen in endpoint.requests)
        assert (first, 900 < second < 1000) == (32768, True)
        assert session.calls()[0].sampling["max_tokens"] == second


async def test_a_full_context_is_said_in_words_that_opencode_knows(tmp_path: Path) -> None:
    async with ScriptedEndpoint(context_tokens=2000) as endpoint, vllm_proxy(endpoint, tmp_path) as proxy:
        session = await proxy.open_session()
        assert (await session.chat(chat("x"))).status_code == 200
        reply = await session.chat(chat("x" * 3000))
        assert reply.status_code == 400
        assert "maximum context length is 2000 tokens" in reply.json()["error"]["message"]
        assert reply.json()["error"]["code"] == "context_length_exceeded"
        assert (await session.close()).last_failure == FailureKind.CONTEXT_LIMIT


async def test_a_call_that_is_too_large_is_the_models_once_the_endpoint_took_one(
    endpoint: ScriptedEndpoint, proxy: Proxy
) -> None:
    session = await proxy.open_session()
    endpoint.fail(Fault.TOO_LARGE)
    reply = await session.chat(chat())
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "model_unavailable")
    assert "Entity" not in reply.text, "OpenCode takes some of the words of gateways for a full context"
    assert (await session.summary()).last_failure == FailureKind.MODEL_UNAVAILABLE
    assert (await session.chat(chat())).status_code == 200
    endpoint.fail(Fault.TOO_LARGE)
    reply = await session.chat(chat())
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert (await session.close()).last_failure == FailureKind.CONTEXT_LIMIT
    assert [call.failure_kind for call in session.calls()] == ["model_unavailable", None, "context_limit"]


async def test_a_relayed_stream_that_breaks_looks_broken(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    endpoint.fail(Fault.HALF_STREAM)
    with pytest.raises(httpx.RemoteProtocolError):
        await proxy.send("POST", "/v1/chat/completions", RUN_TOKEN, chat())
    assert len(endpoint.requests) == 1


async def test_a_relayed_call_is_retried_before_its_first_byte_and_then_told_the_truth(
    endpoint: ScriptedEndpoint, proxy: Proxy
) -> None:
    endpoint.fail(Fault.SERVER_ERROR)
    assert (await proxy.send("POST", "/v1/chat/completions", RUN_TOKEN, chat())).status_code == 200
    endpoint.fail_always(Fault.RATE_LIMITED)
    reply = await proxy.send("POST", "/v1/chat/completions", RUN_TOKEN, chat())
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")


async def test_a_full_disk_never_breaks_a_call_and_always_shows(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    blocked = proxy.state_dir / "a-file"
    blocked.write_text("")
    session = await proxy.open_session(captures_dir=str(blocked / "captures"), assets_dir=str(blocked / "assets"))
    assert (await session.chat(chat())).status_code == 200
    summary = await session.close()
    assert (summary.capture_complete, summary.notes) == (False, {"capture_failed:open": 1})


async def test_an_image_that_cannot_be_kept_still_reaches_the_model(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    blocked = proxy.state_dir / "a-file"
    blocked.write_text("")
    session = await proxy.open_session(assets_dir=str(blocked / "assets"))
    assert (await session.chat(chat(messages=[image_message()]))).status_code == 200
    assert b"data:image/png;base64," in endpoint.requests[-1].raw
    summary = await session.close()
    assert (summary.capture_complete, len(summary.images)) == (False, 1)
    assert summary.notes == {"capture_failed:image": 1}


async def test_sessions_that_open_together_share_one_look_at_the_endpoint(tmp_path: Path) -> None:
    async with ScriptedEndpoint(context_tokens=4096) as endpoint, vllm_proxy(endpoint, tmp_path) as proxy:
        replies = await asyncio.gather(*(proxy.open_session(f"s{i}") for i in range(20)))
        assert len({session.key for session in replies}) == 20
        reply = await proxy.as_run("POST", "/v1/capture_sessions", {"session_id": "s0"})
        assert (reply.json()["context_tokens"], reply.json()["max_output_tokens"]) == (4096, 4096)
        assert endpoint.models_asked == 1


async def test_many_sessions_at_once_with_faults_between_get_their_own_answers(tmp_path: Path) -> None:
    def echo(messages: list[JsonObject]) -> str:
        return f"{messages[-1]['content']} after {len(messages)}"

    retry = {"max_attempts": 200, "patience_s": 1e9}  # the clock that skips pauses is one for all sessions
    async with ScriptedEndpoint(echo) as endpoint, vllm_proxy(endpoint, tmp_path, retry=retry) as proxy:
        faults = [Fault.HALF_STREAM, Fault.SERVER_ERROR, Fault.NONE, Fault.CLEAN_HALF, Fault.RESET, Fault.NONE]
        endpoint.fail(*faults * 25)

        async def play(name: str) -> list[list[str]]:
            session = await proxy.open_session(name)
            turns = [f"{name} turn {n}" for n in range(5)]
            said = [text_of(await session.chat(chat(*turns[: n + 1]))) for n in range(5)]
            await session.close()
            kept = [call.answer.content for call in session.calls() if call.answer]
            return [said, kept]

        played = await asyncio.gather(*(play(f"s{i}") for i in range(30)))
    for i, (said, kept) in enumerate(played):
        assert said == kept == [f"s{i} turn {n} after {n + 1}" for n in range(5)]


async def test_a_bug_of_ours_is_no_500_that_a_harness_would_repeat(
    endpoint: ScriptedEndpoint, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(answer: Answer) -> Answer:
        raise TypeError(f"a bug after {answer.finish_reason}")

    session = await proxy.open_session()
    proxy.server.sessions.find(session.id).issue = broken  # type: ignore[method-assign]
    reply = await session.chat(chat())
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "model_unavailable")
    assert (await session.close()).last_failure == FailureKind.MODEL_UNAVAILABLE
    assert session.calls()[0].failure_message == "the model server failed: TypeError"
    assert "unexpected error in a model call" in caplog.text
