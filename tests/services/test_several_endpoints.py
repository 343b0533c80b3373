"""One model behind several endpoints: sessions spread, stay, leave the dead, come back, and say who answered."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gym_core.servers.model.endpoint import REST_S
from tests.fakes.model import Fault, ScriptedEndpoint
from tests.fakes.proxy import Proxy, chat, vllm_proxy


@pytest.fixture
async def endpoints() -> AsyncIterator[list[ScriptedEndpoint]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(ScriptedEndpoint()) for _ in range(3)]


@pytest.fixture
async def proxy(endpoints: list[ScriptedEndpoint], tmp_path: Path) -> AsyncIterator[Proxy]:
    urls = [endpoint.url for endpoint in endpoints]
    async with vllm_proxy(endpoints[0], tmp_path, base_url=urls, idle_timeout_s=0.3) as proxy:
        yield proxy


async def test_sessions_spread_evenly_and_each_stays(proxy: Proxy, endpoints: list[ScriptedEndpoint]) -> None:
    sessions = [await proxy.open_session(f"s{index}") for index in range(12)]
    for turn in range(3):
        for session in sessions:
            assert (await session.chat(chat(f"{session.id} {turn}"))).status_code == 200
    assert [len(endpoint.requests) for endpoint in endpoints] == [12, 12, 12]
    used = [{call.endpoint for call in session.calls()} for session in sessions]
    assert used == [{index % 3} for index in range(12)]


async def test_a_dead_endpoint_is_left_at_once_by_later_calls_and_asked_again_after_a_rest(
    proxy: Proxy, endpoints: list[ScriptedEndpoint]
) -> None:
    session = await proxy.open_session()
    dead, port = endpoints[0], endpoints[0].port
    await session.chat(chat("one"))
    await dead.__aexit__()
    for text in ("two", "three", "four"):
        assert (await session.chat(chat(text))).status_code == 200
    async with ScriptedEndpoint(port=port) as back:
        await session.chat(chat("five"))
        assert back.requests == []
        proxy.clock.slept.append(REST_S)
        await session.chat(chat("six"))
        assert len(back.requests) == 1
    assert [(call.endpoint, call.attempts) for call in session.calls()] == [
        (0, 1), (1, 2), (1, 1), (1, 1), (1, 1), (0, 1),
    ]  # fmt: skip
    assert endpoints[2].requests == []


@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED, Fault.SERVER_ERROR, Fault.HTML])
async def test_one_that_turns_a_call_away_keeps_its_sessions(
    proxy: Proxy, endpoints: list[ScriptedEndpoint], fault: Fault
) -> None:
    session = await proxy.open_session()
    endpoints[0].fail(fault)
    for text in ("one", "two"):
        assert (await session.chat(chat(text))).status_code == 200
    assert [(call.endpoint, call.attempts) for call in session.calls()] == [(1, 2), (0, 1)]


async def test_when_all_are_gone_the_first_to_come_back_is_found(
    proxy: Proxy, endpoints: list[ScriptedEndpoint]
) -> None:
    session = await proxy.open_session()
    for endpoint in endpoints:
        await endpoint.__aexit__()
    assert (await session.chat(chat())).status_code == 422
    async with ScriptedEndpoint(port=endpoints[2].port):
        assert (await session.chat(chat())).status_code == 200
    lost, found = session.calls()
    assert (lost.attempts, found.endpoint, found.attempts <= 3) == (8, 2, True)
