"""A trainer changes weights through the head server."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from gym_core.launch.head import Head
from gym_core.launch.plan import EnvironmentEntry, HeadSlice
from gym_core.types.policy import PolicyState, PolicyStates
from gym_core.types.wire import JsonObject
from tests.fakes.model import ScriptedEndpoint
from tests.fakes.proxy import RUN_TOKEN, Proxy, vllm_proxy
from tests.fakes.serving import serving

USER = {"Authorization": "Bearer user-token"}
POLICIES = ("left", "right")


@pytest.fixture
async def policies(tmp_path: Path) -> AsyncIterator[dict[str, Proxy]]:
    async with contextlib.AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(ScriptedEndpoint())
        yield {name: await stack.enter_async_context(vllm_proxy(endpoint, tmp_path / name)) for name in POLICIES}


@contextlib.asynccontextmanager
async def head_of(urls: dict[str, str], tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Two environments of which both play `left`, and one that plays `right`."""
    servers = [
        {"name": n, "type": "model_servers", "implementation": "x", "url": url, "token": RUN_TOKEN}
        for n, url in urls.items()
    ]
    environments = {
        f"e{index}": EnvironmentEntry(
            name=f"e{index}", resources_server="r", agent_server="a", policy_server=policy, agent_timeout_s=1.0,
            max_concurrent_episodes=None, datasets=[], identity={},
        )
        for index, policy in enumerate(("left", "left", "right"))
    }  # fmt: skip
    part = HeadSlice.model_validate(
        {
            "run_token": "head-token", "user_token": "user-token", "url": "http://head", "state_dir": str(tmp_path),
            "servers": servers, "environments": environments, "sampling": {}, "config_view": {}, "versions": {},
            "argv": [],
        }
    )  # fmt: skip
    async with serving(Head(part).make_app()) as url, httpx.AsyncClient(base_url=url, headers=USER) as head:
        yield head


async def states(head: httpx.AsyncClient, method: str, path: str = "", body: JsonObject | None = None) -> PolicyStates:
    reply = await head.request(method, f"/v1/policy{path}", json=body)
    assert reply.status_code == 200, reply.text
    return PolicyStates.model_validate_json(reply.content)


async def own_state(policy: Proxy) -> PolicyState:
    return PolicyState.model_validate_json((await policy.as_run("GET", "/v1/policy")).content)


async def test_all_policies_are_told_or_the_named_one(policies: dict[str, Proxy], tmp_path: Path) -> None:
    async with head_of({name: policy.url for name, policy in policies.items()}, tmp_path) as head:
        told = await states(head, "POST", "/pause")
        assert {name: state.paused for name, state in told.servers.items()} == {"left": True, "right": True}
        told = await states(head, "PUT", "/version", {"version": 4, "server": "right"})
        assert list(told.servers) == ["right"]
        assert [(await own_state(policies[name])).version for name in POLICIES] == [None, 4]
        await states(head, "POST", "/resume", {"server": "left"})
        seen = await states(head, "GET")
        assert {name: state.paused for name, state in seen.servers.items()} == {"left": False, "right": True}
        unknown = await head.post("/v1/policy/pause", json={"server": "judge"})
        assert (unknown.status_code, "left, right" in unknown.text) == (422, True)


async def test_a_policy_that_cannot_be_told_is_named_and_the_others_are_told(
    policies: dict[str, Proxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym_core.http.client.RECONNECT_PAUSES_S", ())
    async with head_of({"left": "http://127.0.0.1:9", "right": policies["right"].url}, tmp_path) as head:
        reply = await head.post("/v1/policy/pause", json={"mode": "keep"})
    assert (reply.status_code, "policy 'left'" in reply.text) == (503, True)
    assert (await own_state(policies["right"])).paused
