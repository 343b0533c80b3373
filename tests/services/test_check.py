"""The look at a policy's endpoints through its server: what stops a run, what is only said, and what it costs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gym_core.errors import ModelUnavailable
from gym_core.http.client import HttpPool
from gym_core.launch.policy_check import check_policy
from gym_core.types.model_call import EndpointReport
from gym_core.types.wire import JsonObject
from tests.fakes.model import Fault, ScriptedEndpoint
from tests.fakes.proxy import RUN_TOKEN, Proxy, eventually, vllm_proxy


@pytest.fixture
async def endpoint() -> AsyncIterator[ScriptedEndpoint]:
    async with ScriptedEndpoint() as endpoint:
        yield endpoint


def careless(messages: list[JsonObject]) -> str:
    """A model that repeats a prompt whose template printed lists as they stand."""
    return "".join(str(message["content"]) for message in messages)


async def look(proxy: Proxy, *, needs_images: bool = False) -> EndpointReport:
    async with HttpPool() as pool:
        return await check_policy(pool.service(proxy.url, RUN_TOKEN), needs_images=needs_images)


async def report_of(proxy: Proxy) -> EndpointReport:
    return EndpointReport.model_validate_json((await proxy.as_run("POST", "/v1/check")).content)


async def test_a_template_that_leaks_stops_a_run_of_text_too_and_names_the_fix(
    endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    endpoint.rule = careless
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        with pytest.raises(ModelUnavailable, match=r"--chat-template-content-format string.*allow_template_leak"):
            await look(proxy)
    async with vllm_proxy(endpoint, tmp_path, allow_template_leak=True) as proxy:
        report = await look(proxy)
    assert (report.ok, report.leaks_list_content, report.allows_leak) == (True, True, True)


async def test_all_endpoints_are_looked_at_and_the_odd_ones_are_named(
    endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    async with ScriptedEndpoint(gives_token_ids=False, model="other") as odd, ScriptedEndpoint() as dead:
        urls = [endpoint.url, odd.url]
        async with vllm_proxy(endpoint, tmp_path / "a", base_url=urls) as proxy:
            report = await look(proxy, needs_images=True)
        await dead.__aexit__()
        async with vllm_proxy(endpoint, tmp_path / "b", base_url=[*urls, dead.url]) as proxy:
            broken = await report_of(proxy)
    assert (report.ok, report.gives_token_ids, report.gives_logprobs) == (True, False, True)
    assert f"{odd.url}: gives_token_ids is False, but True at {endpoint.url}" in report.message
    assert f"{odd.url}: it serves other, not tiny" in report.message
    assert (broken.ok, broken.answers) == (False, False)
    assert f"{dead.url}: HTTP 0" in broken.message


async def test_an_endpoint_is_asked_once_where_no_ids_are_wanted_and_a_little_more_where_they_are(
    endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    async with vllm_proxy(endpoint, tmp_path / "a", return_token_id_information=False) as proxy:
        await report_of(proxy)
        assert len(endpoint.requests) == 1
    endpoint.requests.clear()
    async with vllm_proxy(endpoint, tmp_path / "b") as proxy:
        await report_of(proxy)
    bodies = [seen.body for seen in endpoint.requests]
    assert (len(bodies), [body["max_tokens"] for body in bodies[1:]]) == (8, [1] * 7)


async def test_a_look_waits_for_the_end_of_a_pause_but_not_for_ever(
    endpoint: ScriptedEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        await proxy.as_run("POST", "/v1/policy/pause", {"mode": "keep"})
        looking = asyncio.create_task(report_of(proxy))
        await asyncio.sleep(0.05)
        assert endpoint.requests == []
        await proxy.as_run("POST", "/v1/policy/resume")
        assert (await looking).ok
        monkeypatch.setattr("gym_core.servers.model.server.PAUSED_CHECK_S", 0.05)
        await proxy.as_run("POST", "/v1/policy/pause", {"mode": "keep"})
        report = await report_of(proxy)
        assert (report.answers, "paused" in report.message) == (False, True)


async def test_what_is_begun_in_a_pause_waits_for_its_end(
    endpoint: ScriptedEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than the server's own look waits, and without a look of the endpoint's few being used up."""
    monkeypatch.setattr("gym_core.servers.model.server.PAUSED_CHECK_S", 0.02)
    monkeypatch.setattr("gym_core.launch.policy_check.PAUSED_POLL_S", 0.01)
    monkeypatch.setattr("gym_core.launch.policy_check.CHECK_PAUSES_S", ())
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        await proxy.as_run("POST", "/v1/policy/pause", {"mode": "keep"})
        looking = asyncio.create_task(look(proxy))
        done, _ = await asyncio.wait({looking}, timeout=0.3)
        assert (done, endpoint.requests) == (set(), [])
        await proxy.as_run("POST", "/v1/policy/resume")
        assert (await looking).ok


async def test_a_pause_that_begins_during_a_look_is_waited_for_too(
    endpoint: ScriptedEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym_core.launch.policy_check.PAUSED_POLL_S", 0.01)
    monkeypatch.setattr("gym_core.launch.policy_check.CHECK_PAUSES_S", ())
    endpoint.release = asyncio.Event()
    endpoint.fail_always(Fault.SERVER_ERROR)
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        looking = asyncio.create_task(look(proxy))
        await eventually(lambda: endpoint.requests)
        await proxy.as_run("POST", "/v1/policy/pause", {"mode": "keep"})
        endpoint.release.set()
        done, _ = await asyncio.wait({looking}, timeout=0.3)
        assert done == set(), "the endpoint went down for its new weights"
        endpoint.recover()
        await proxy.as_run("POST", "/v1/policy/resume")
        assert (await looking).ok


async def test_a_drain_waits_for_a_look(endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    endpoint.release = asyncio.Event()
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        looking = asyncio.create_task(report_of(proxy))
        await eventually(lambda: endpoint.requests)
        state = (await proxy.as_run("POST", "/v1/policy/pause", {"timeout_s": 0})).json()
        assert state["in_flight"] == 1
        endpoint.release.set()
        assert (await looking).ok
