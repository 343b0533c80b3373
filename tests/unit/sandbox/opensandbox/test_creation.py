"""How a sandbox comes to be at an OpenSandbox server that loses replies, collides with itself and enforces less."""

import asyncio

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.contract import Launch, ModelOnly, NetworkPolicy, NoNetwork, SandboxSpec
from gym_core.sandbox.providers.opensandbox import labels
from tests.fakes.opensandbox.server import API_KEY
from tests.unit.sandbox.opensandbox.conftest import Scene

MODEL = ModelOnly(host="10.9.8.7", port=8001)


async def test_a_creation_whose_reply_was_lost_is_killed_by_its_attempt_and_made_again(scene: Scene) -> None:
    scene.server.lost_replies = 1
    sandbox = await scene.open()
    attempts = [body["metadata"][labels.ATTEMPT] for body in scene.server.creations]  # type: ignore[index]  # as sent
    assert len(set(attempts)) == 2
    assert list(scene.server.records) == [sandbox.remote_id]
    assert len(scene.server.kills) == 1


async def test_a_collision_at_the_server_is_tried_again_and_not_for_ever(scene: Scene) -> None:
    scene.server.collisions = 2
    assert await (await scene.open()).is_alive()
    scene.server.collisions = 9
    with pytest.raises(SandboxUnavailable, match="port is already allocated"):
        await scene.open()
    assert scene.server.collisions == 6


async def test_what_the_server_refuses_is_not_tried_again(scene: Scene) -> None:
    with pytest.raises(SandboxUnavailable, match="secureAccess is not supported"):
        await scene.provider(secure_access=True).create("box", SandboxSpec())
    with pytest.raises(SandboxUnavailable, match="INVALID_API_KEY"):
        await scene.provider(api_key="another").create("box", SandboxSpec())
    assert scene.server.records == {}


async def test_a_server_that_is_not_there_is_unavailable(scene: Scene) -> None:
    provider = scene.provider(domain="127.0.0.1:9")
    with pytest.raises(SandboxUnavailable, match="not made: .*http://127.0.0.1:9"):
        await provider.check()
    with pytest.raises(SandboxUnavailable) as caught:
        await provider.list()
    said = str(caught.value)
    assert said.startswith("opensandbox: the server at http://127.0.0.1:9 cannot be reached: ")
    assert said.endswith("; start it, or correct `domain` and `protocol` of the block")
    assert said.count("All connection attempts failed") == 1


async def test_no_image_is_said_before_anything_is_made(scene: Scene) -> None:
    with pytest.raises(SandboxUnavailable, match="no image"):
        await scene.provider(image=None).create("box", SandboxSpec())
    assert scene.server.creations == []


async def test_a_check_without_an_image_asks_the_server_alone(scene: Scene) -> None:
    """An environment's `sandbox_config.image` is none of the provider's block."""
    enforced = await scene.provider(image=None).check()
    assert (enforced.network, enforced.seccomp, scene.server.creations) == ("host", False, [])
    with pytest.raises(SandboxUnavailable, match="INVALID_API_KEY"):
        await scene.provider(image=None, api_key="another").check()


async def test_only_so_many_are_made_at_once(scene: Scene) -> None:
    provider = scene.provider(concurrent_creates=2)
    scene.server.late = 0.02
    await asyncio.gather(*(provider.create(f"box-{n}", SandboxSpec()) for n in range(7)))
    assert (scene.server.most_at_once, len(scene.server.records)) == (2, 7)


async def test_a_cancelled_creation_is_killed_when_its_answer_comes(scene: Scene) -> None:
    provider = scene.provider()
    scene.server.late = 0.05
    creating = asyncio.create_task(provider.create("box", SandboxSpec()))
    while not scene.server.makes_at_once:  # noqa: ASYNC110 - the faked server has no event for it
        await asyncio.sleep(0.002)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert (len(scene.server.kills), scene.server.records) == (1, {})


async def test_the_environment_that_the_sdk_reads_says_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_SANDBOX_DOMAIN", "127.0.0.1:9")
    monkeypatch.setenv("OPEN_SANDBOX_API_KEY", "another")
    assert await (await scene.open()).is_alive()


async def test_without_a_key_none_is_sent_whatever_the_sdk_finds(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_SANDBOX_API_KEY", API_KEY)
    for key in (None, ""):
        with pytest.raises(SandboxUnavailable, match="INVALID_API_KEY"):
            await scene.provider(api_key=key).create("box", SandboxSpec())


@pytest.mark.parametrize(("network", "rules"), [(NoNetwork(), []), (MODEL, [("allow", "10.9.8.7")])])
async def test_a_request_says_deny_an_end_and_no_environment_and_reports_nothing(
    scene: Scene, network: NetworkPolicy, rules: list[tuple[str, str]]
) -> None:
    sandbox = await scene.open(network=network, env={"COLOUR": "green"}, ttl_s=5)
    (body,) = scene.server.creations
    policy = body["networkPolicy"]
    assert isinstance(policy, dict)
    assert policy["defaultAction"] == "deny"
    assert [(rule["action"], rule["target"]) for rule in policy.get("egress", [])] == rules
    assert body["timeout"] == 65
    assert not body.get("env")
    assert scene.server.other_requests == []
    assert (sandbox.enforced.network, sandbox.model_url) == (
        ("host", "http://10.9.8.7:8001/v1") if rules else ("none", None)
    )


async def test_a_relay_s_address_stands_in_for_the_model_server_s(scene: Scene) -> None:
    provider = scene.provider(relay_address="10.1.1.1:9000")
    sandbox = await provider.create("box", SandboxSpec(network=ModelOnly(host="127.0.0.1", port=8001)))
    assert sandbox.model_url == "http://10.1.1.1:9000/v1"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "model.internal"])
async def test_an_address_that_no_sandbox_can_mean_is_refused(scene: Scene, host: str) -> None:
    with pytest.raises(SandboxUnavailable, match="use_absolute_ip|literal"):
        await scene.open(network=ModelOnly(host=host, port=8001))


async def test_an_egress_mode_that_stops_no_packets_is_refused(scene: Scene) -> None:
    scene.server.egress_mode = "dns"
    with pytest.raises(SandboxUnavailable, match="dns\\+nft"):
        await scene.open()
    assert scene.server.records == {}


async def test_a_policy_that_is_not_what_was_asked_for_is_refused(scene: Scene) -> None:
    scene.server.extra_rules = [{"action": "allow", "target": "0.0.0.0/0"}]
    with pytest.raises(SandboxUnavailable, match=r"not what was asked for.*0\.0\.0\.0/0"):
        await scene.open(network=MODEL)
    assert scene.server.records == {}


@pytest.mark.parametrize(
    ("fact", "value", "said"),
    [
        ("uid", 0, "root"),
        ("daemon_is_apart", False, "who could end it"),
        ("daemon_is_apart", None, "who could end it"),
        ("effective", 1 << 21, "capabilities"),
        ("bounding", 1 << 12, "NET_ADMIN"),
        ("bounding", 1 << 13, "NET_RAW"),
        ("bounding", None, "NET_RAW"),
    ],
)
async def test_a_sandbox_whose_commands_have_powers_is_not_lent(
    scene: Scene, fact: str, value: object, said: str
) -> None:
    scene.facts[fact] = value
    with pytest.raises(SandboxUnavailable, match=said):
        await scene.open()
    assert scene.server.records == {}


@pytest.mark.parametrize(
    ("can_be_held", "network", "port"), [(True, MODEL, 8001), (True, NoNetwork(), 0), (False, MODEL, None)]
)
async def test_commands_are_held_to_the_model_s_port_where_the_kernel_can(
    scene: Scene, can_be_held: bool, network: NetworkPolicy, port: int | None
) -> None:
    scene.facts["one_port"] = can_be_held
    sandbox = await scene.open(network=network)
    await sandbox.exec(Launch(argv=["true"]))
    assert scene.insides[-1].only_ports == [port]
    assert ("one TCP port by Landlock" if can_be_held else "no Landlock") in sandbox.enforced.mechanism


async def test_what_is_enforced_is_what_was_found(scene: Scene) -> None:
    scene.facts["seccomp"] = False
    enforced = (await scene.open()).enforced
    assert (enforced.provider, enforced.network, enforced.seccomp, enforced.user) == (
        *("opensandbox", "none", False, "container_uid"),
    )
    assert "egress dns+nft" in enforced.mechanism
