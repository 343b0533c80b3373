"""Weights change under a running gym: what waits, what goes on, what is written down, and who is blamed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from gym_core.errors import FailureKind
from gym_core.types.model_call import CallOutcome
from gym_core.types.policy import PolicyState
from gym_core.types.rollout import Completed, Failed
from gym_core.types.wire import JsonObject
from tests.fakes.gym import in_process_gym
from tests.fakes.model import Fault, ScriptedEndpoint
from tests.fakes.proxy import RUN_TOKEN, USER_TOKEN, Proxy, chat, eventually, vllm_proxy

KEEP: JsonObject = {"mode": "keep"}


@pytest.fixture
async def endpoint() -> AsyncIterator[ScriptedEndpoint]:
    async with ScriptedEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
async def proxy(endpoint: ScriptedEndpoint, tmp_path: Path) -> AsyncIterator[Proxy]:
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        yield proxy


async def ask(proxy: Proxy, method: str, path: str, body: JsonObject | None = None) -> PolicyState:
    reply = await proxy.send(method, f"/v1/policy{path}", USER_TOKEN, body)
    assert reply.status_code == 200, reply.text
    return PolicyState.model_validate_json(reply.content)


async def until(proxy: Proxy, condition: Callable[[PolicyState], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition(await ask(proxy, "GET", "")):  # noqa: ASYNC110 - it changes in another party's sockets
            await asyncio.sleep(0.005)


async def waiting(proxy: Proxy, n: int) -> None:
    await until(proxy, lambda state: state.waiting == n)


async def test_calls_of_sessions_and_of_others_wait_for_the_resume(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    session = await proxy.open_session()
    await ask(proxy, "PUT", "/version", {"version": 6})
    assert (await ask(proxy, "POST", "/pause", KEEP)).paused
    calls = [
        asyncio.create_task(session.chat(chat())),
        asyncio.create_task(proxy.send("POST", "/v1/chat/completions", RUN_TOKEN, chat())),
        asyncio.create_task(proxy.send("POST", "/v1/responses", RUN_TOKEN, {"input": "hello"})),
    ]
    await waiting(proxy, 3)
    proxy.clock.slept.append(3000.0)
    await ask(proxy, "PUT", "/version", {"version": 7})
    assert endpoint.requests == []
    state = await ask(proxy, "POST", "/resume")
    assert (state.paused, state.version, state.resumes_in_s) == (False, 7, None)
    assert [(await call).status_code for call in calls] == [200, 200, 200]
    summary = await session.close()
    (call,) = session.calls()
    assert (call.outcome, call.policy_version, call.policy_version_end) == (CallOutcome.ANSWERED, 7, 7)
    assert (call.endpoint, call.timings.queued_s >= 3000, summary.queued_s >= 3000) == (0, True, True)
    assert summary.model_seconds < 5
    assert (await ask(proxy, "GET", "")).waiting == 0


async def test_a_drain_answers_when_the_last_answer_is_whole(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    endpoint.release = asyncio.Event()
    session = await proxy.open_session()
    call = asyncio.create_task(session.chat(chat()))
    await eventually(lambda: endpoint.requests)
    draining = asyncio.create_task(ask(proxy, "POST", "/pause", {"mode": "drain", "timeout_s": 20}))
    await until(proxy, lambda state: state.paused)
    assert not draining.done()
    endpoint.release.set()
    state = await draining
    assert (state.paused, state.in_flight, (await call).status_code) == (True, 0, 200)


async def test_a_drain_that_is_late_says_how_many_are_left_and_stays_paused(
    proxy: Proxy, endpoint: ScriptedEndpoint
) -> None:
    endpoint.release = asyncio.Event()
    session = await proxy.open_session()
    call = asyncio.create_task(session.chat(chat()))
    await eventually(lambda: endpoint.requests)
    state = await ask(proxy, "POST", "/pause", {"mode": "drain", "timeout_s": 0})
    assert (state.paused, state.in_flight) == (True, 1)
    endpoint.release.set()
    assert (await call).status_code == 200
    assert (await ask(proxy, "POST", "/pause", {"mode": "drain"})).in_flight == 0


async def test_a_call_kept_over_the_change_has_both_versions(proxy: Proxy, endpoint: ScriptedEndpoint) -> None:
    endpoint.release = asyncio.Event()
    session = await proxy.open_session()
    await ask(proxy, "PUT", "/version", {"version": 1})
    call = asyncio.create_task(session.chat(chat()))
    await eventually(lambda: endpoint.requests)
    assert (await ask(proxy, "POST", "/pause", KEEP)).in_flight == 1
    await ask(proxy, "PUT", "/version", {"version": 2})
    endpoint.release.set()
    assert (await call).status_code == 200
    (kept,) = session.calls()
    assert (kept.policy_version, kept.policy_version_end) == (1, 2)


async def test_a_call_that_fails_in_a_pause_is_tried_again_after_it_with_all_its_patience(
    proxy: Proxy, endpoint: ScriptedEndpoint
) -> None:
    session = await proxy.open_session()
    await ask(proxy, "PUT", "/version", {"version": 1})
    endpoint.fail(Fault.SERVER_ERROR, Fault.SERVER_ERROR)
    await ask(proxy, "POST", "/pause", KEEP)
    call = asyncio.create_task(session.chat(chat()))
    await waiting(proxy, 1)
    proxy.clock.slept.append(1700.0)  # beyond the patience of 600 s
    await ask(proxy, "PUT", "/version", {"version": 2})
    await ask(proxy, "POST", "/resume")
    assert (await call).status_code == 200
    (kept,) = session.calls()
    assert (kept.attempts, kept.policy_version, kept.policy_version_end) == (3, 2, 2)


async def test_who_leaves_a_pause_is_forgotten_and_a_close_ends_the_wait(
    proxy: Proxy, endpoint: ScriptedEndpoint
) -> None:
    leaver, closed = await proxy.open_session("leaver"), await proxy.open_session("closed")
    await ask(proxy, "POST", "/pause", KEEP)
    leaving = asyncio.create_task(leaver.chat(chat()))
    ended = asyncio.create_task(closed.chat(chat()))
    await waiting(proxy, 2)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await waiting(proxy, 1)
    await closed.close()
    assert (await ended).status_code == 401
    assert (await ask(proxy, "POST", "/resume")).waiting == 0
    assert (await leaver.chat(chat())).status_code == 200
    assert len(endpoint.requests) == 1


async def test_pausing_and_resuming_twice_is_fine_and_a_forgotten_pause_ends_by_itself(
    endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    async with vllm_proxy(endpoint, tmp_path, max_pause_s=0.2) as proxy:
        session = await proxy.open_session()
        assert not (await ask(proxy, "POST", "/resume")).paused
        await ask(proxy, "POST", "/pause", {})
        state = await ask(proxy, "POST", "/pause", {})
        assert state.paused
        assert state.resumes_in_s is not None
        assert 0 < state.resumes_in_s <= 0.2
        assert (await session.chat(chat())).status_code == 200
        assert not (await ask(proxy, "GET", "")).paused


async def test_a_pause_and_a_version_do_not_outlive_the_process(endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        await ask(proxy, "PUT", "/version", {"version": 3})
        await ask(proxy, "POST", "/pause", {})
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        state = await ask(proxy, "GET", "")
        assert (state.paused, state.version) == (False, None)
        session = await proxy.open_session()
        await session.chat(chat())
        assert session.calls()[0].policy_version is None


async def test_no_session_may_pause_the_policy(proxy: Proxy) -> None:
    session = await proxy.open_session()
    for method, path in (("GET", ""), ("POST", "/pause"), ("POST", "/resume"), ("PUT", "/version")):
        reply = await proxy.send(method, f"/v1/policy{path}", session.key, {})
        assert reply.status_code == 401


@pytest.mark.parametrize("body", [{"version": -1}, {"version": "x"}, {}, {"mode": "stop"}, {"timeout_s": -1}])
async def test_what_is_no_version_and_no_mode_is_refused(proxy: Proxy, body: JsonObject) -> None:
    method, path = ("PUT", "/version") if "version" in body or not body else ("POST", "/pause")
    reply = await proxy.send(method, f"/v1/policy{path}", RUN_TOKEN, body)
    assert reply.status_code == 422
    assert not (await ask(proxy, "GET", "")).paused


@pytest.mark.parametrize(("waited_s", "kind"), [(30.0, None), (61.0, FailureKind.MODEL_UNAVAILABLE)])
async def test_a_call_given_up_in_a_pause_is_not_the_models_time_out(
    proxy: Proxy, waited_s: float, kind: FailureKind | None
) -> None:
    session = await proxy.open_session()
    await ask(proxy, "POST", "/pause", KEEP)
    call = asyncio.create_task(session.chat(chat()))
    await waiting(proxy, 1)
    proxy.clock.slept.append(waited_s)
    summary = await session.close()
    await call
    assert summary.last_failure == kind
    assert ("pause of the policy" in (summary.last_failure_message or "")) is (kind is not None)


async def test_a_rollout_that_a_pause_made_late_is_masked_and_not_scored(tmp_path: Path) -> None:
    async with in_process_gym(tmp_path, agent_timeout_s=0.2) as gym, httpx.AsyncClient() as http:
        headers = {"Authorization": "Bearer run-token"}
        await http.post(f"{gym.servers.policy.url}/v1/policy/pause", headers=headers, json=KEEP)
        held = await gym.play()
        await http.post(f"{gym.servers.policy.url}/v1/policy/resume", headers=headers)
        gym.endpoint.rule = lambda _: "teapot"
        played = await gym.play()
        gym.endpoint.release = asyncio.Event()
        slow = await gym.play()
    assert isinstance(held, Failed)
    assert (held.failure.kind, "pause of the policy" in held.failure.reason) == (FailureKind.MODEL_UNAVAILABLE, True)
    assert isinstance(played, Completed)
    assert played.verification.reward == 1.0
    # The model's own time-out stays the model's.
    assert isinstance(slow, Completed)
    assert slow.verification.failure is not None
    assert slow.verification.failure.kind is FailureKind.AGENT_TIMEOUT
