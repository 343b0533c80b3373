"""Where servers listen: on loopback, but for the one that sandboxes elsewhere must reach."""

import asyncio
import contextlib
import socket
from urllib.parse import urlsplit

import pytest

from gym_core.cli.selection import Selection
from gym_core.config.blocks import CheckedConfig
from gym_core.launch.identity import needed_servers
from gym_core.launch.listeners import bind, listen, policy_servers
from gym_core.sandbox.addresses import own_addresses
from gym_core.viewer import serving

AGENT = "++opencode_agent.agent_servers.opencode_agent"
GRADER = "++visual_coding_opencode.resources_servers.visual_coding_opencode"


@pytest.fixture(autouse=True)
def _no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-for-nobody")
    monkeypatch.delenv("VISUAL_CODING_OPENCODE_SANDBOX_IMAGE", raising=False)


def checked_with(*overrides: str) -> CheckedConfig:
    return Selection("babyvision_opencode", None, "scripted_model", (), (), overrides).check()


def hosts_of(checked: CheckedConfig) -> dict[str, str | None]:
    with contextlib.ExitStack() as undo:
        urls = {name: listen(checked, checked.run.servers[name], undo).url for name in needed_servers(checked)}
    return {name: urlsplit(url).hostname for name, url in urls.items()}


def test_without_a_word_all_are_on_loopback() -> None:
    hosts = hosts_of(checked_with())
    assert {"policy_model", "judge_model", "opencode_agent", "visual_coding_opencode"} <= set(hosts)
    assert set(hosts.values()) == {"127.0.0.1"}


def test_only_the_policy_server_is_on_the_machine_s_own_address_and_the_judge_is_not() -> None:
    if not own_addresses():
        pytest.skip("this machine has no address but loopback")
    hosts = hosts_of(checked_with("++use_absolute_ip=true"))
    assert hosts.pop("policy_model") not in ("127.0.0.1", "0.0.0.0")
    assert "judge_model" in hosts
    assert set(hosts.values()) == {"127.0.0.1"}


def test_a_policy_server_is_one_that_an_agent_or_a_sandbox_calls() -> None:
    assert policy_servers(checked_with()) == {"policy_model"}
    both = checked_with(f"{GRADER}.sandbox_model_server.name=judge_model", f"{AGENT}.model_server.name=policy_model")
    assert policy_servers(both) == {"policy_model", "judge_model"}


@pytest.mark.parametrize("of", ["gym", "viewer"])
async def test_a_small_reply_is_sent_without_delay(of: str) -> None:
    is_undelayed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        is_undelayed.set_result(bool(found))
        writer.close()
        await writer.wait_closed()

    with contextlib.ExitStack() as undo:
        listener = bind("127.0.0.1", 0, "x", undo).socket if of == "gym" else serving.listen(0)
        undo.callback(listener.close)
        async with await asyncio.start_server(accepted, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            assert await is_undelayed
            writer.close()
            await writer.wait_closed()
