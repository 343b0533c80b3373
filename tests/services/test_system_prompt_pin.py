"""A conversation's system prompt stays what it was at its first call, and nobody else's becomes it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gym_core.types.wire import JsonObject
from tests.fakes.model import ScriptedEndpoint
from tests.fakes.proxy import TOOLS, Proxy, chat, vllm_proxy

SUNDAY: JsonObject = {"role": "system", "content": "Today is Sun Nov 29"}
MONDAY: JsonObject = {"role": "system", "content": "Today is Mon Nov 30"}
ASKED: JsonObject = {"role": "user", "content": "how many?"}
ANSWERED: JsonObject = {"role": "assistant", "content": "ok"}
MORE: JsonObject = {"role": "user", "content": "sure?"}


@pytest.fixture
async def endpoint() -> AsyncIterator[ScriptedEndpoint]:
    async with ScriptedEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
async def proxy(endpoint: ScriptedEndpoint, tmp_path: Path) -> AsyncIterator[Proxy]:
    async with vllm_proxy(endpoint, tmp_path) as proxy:
        yield proxy


async def test_the_date_does_not_change_at_midnight(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    session = await proxy.open_session()
    await session.chat(chat(messages=[SUNDAY, ASKED]))
    await session.chat(chat(messages=[MONDAY, ASKED, ANSWERED, MORE]))
    assert endpoint.requests[-1].body["messages"] == [SUNDAY, ASKED, ANSWERED, MORE]
    first, second = session.calls()
    assert second.messages == [SUNDAY, ASKED, ANSWERED, MORE]
    assert (first.notes, second.notes) == ([], ["system_prompt_pinned"])
    assert (await session.close()).notes == {"system_prompt_pinned": 1}


OTHERS = {
    "another first message": chat(messages=[MONDAY, {"role": "user", "content": "who?"}, ANSWERED, MORE]),
    "other tools": chat(messages=[MONDAY, ASKED, ANSWERED, MORE], tools=TOOLS * 2),
    "a conversation that begins": chat(messages=[MONDAY, ASKED]),
    "no system prompt": chat(messages=[ASKED, ANSWERED, MORE]),
    "the same one": chat(messages=[SUNDAY, ASKED, ANSWERED, MORE]),
}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS.keys())
async def test_another_conversation_keeps_its_own(endpoint: ScriptedEndpoint, proxy: Proxy, body: JsonObject) -> None:
    session = await proxy.open_session()
    await session.chat(chat(messages=[SUNDAY, ASKED]))
    await session.chat(body)
    assert endpoint.requests[-1].body["messages"] == body["messages"]
    assert (await session.close()).notes == {}


async def test_two_conversations_that_began_alike_are_not_mixed_up(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    session = await proxy.open_session()
    tuesday = {"role": "system", "content": "Today is Tue Dec 1"}
    for system in (SUNDAY, MONDAY):
        await session.chat(chat(messages=[system, ASKED]))
    for system in (SUNDAY, MONDAY, tuesday):
        await session.chat(chat(messages=[system, ASKED, ANSWERED, MORE]))
        assert endpoint.requests[-1].body["messages"][0] == system


async def test_sessions_do_not_share_it(endpoint: ScriptedEndpoint, proxy: Proxy) -> None:
    first, second = await proxy.open_session("first"), await proxy.open_session("second")
    await first.chat(chat(messages=[SUNDAY, ASKED]))
    await second.chat(chat(messages=[MONDAY, ASKED, ANSWERED, MORE]))
    assert endpoint.requests[-1].body["messages"][0] == MONDAY


async def test_it_can_be_switched_off(endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    async with vllm_proxy(endpoint, tmp_path, pin_system_prompt=False) as proxy:
        session = await proxy.open_session()
        await session.chat(chat(messages=[SUNDAY, ASKED]))
        await session.chat(chat(messages=[MONDAY, ASKED, ANSWERED, MORE]))
        assert endpoint.requests[-1].body["messages"][0] == MONDAY
