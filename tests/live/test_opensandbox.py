"""The OpenSandbox provider on the real server, with stand-ins for its daemon and sidecar: what the suite that every
provider passes does not ask. Who is reached from inside is shown with a plain container beside, which reaches all.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import docker
import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.contract import Launch, ModelOnly, Sandbox, SandboxSpec
from gym_core.sandbox.probe import Door, must_be_closed
from gym_core.sandbox.providers.opensandbox import OpenSandboxConfig, OpenSandboxProvider
from gym_core.sandbox.providers.opensandbox.sandbox import OpenSandbox
from tests.live.docker_engine import build, client
from tests.live.opensandbox_server import ADDRESS, DOCKER, KEY, SANDBOX_IMAGE, SECOND, WHY_NONE
from tests.sandboxes.opensandbox import gateway_of, has_landlock
from tests.sandboxes.subject import SMALL
from tests.sandboxes.words import serve_words

pytestmark = [pytest.mark.live, pytest.mark.opensandbox]

AS_USER = "gym-test-opensandbox-as-user"
"""The image, but that what it runs is not root's."""

OK = b"HTTP/1.0 200 OK\r\n\r\n"
"""As the policy server answers the look before a lease."""

SMALL_SPEC = SandboxSpec(resources=SMALL)
_GONE_WITHIN_S = 30.0

CONNECT = """
import socket, sys
for word in sys.argv[1:]:
    host, _, port = word.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 2).close()
        print("open")
    except OSError:
        print("shut")
"""


@dataclass
class Place:
    """Where the server, its engine and these tests are."""

    engine: docker.APIClient
    gateway: str
    """The machine's address as its containers see it."""

    def reached_by_a_plain_container(self, *doors: str) -> list[str]:
        """The positive control: no policy, the same network."""
        argv = ["python3", "-c", CONNECT, *doors]
        container = self.engine.create_container(SANDBOX_IMAGE, argv)["Id"]
        try:
            self.engine.start(container)
            assert self.engine.wait(container)["StatusCode"] == 0
            lines: list[str] = self.engine.logs(container).decode().split()
            return lines
        finally:
            self.engine.remove_container(container, force=True)

    def as_the_daemon(self, sandbox: OpenSandbox, *doors: str) -> list[str]:
        """The positive control inside: root, whom nothing holds."""
        command = self.engine.exec_create(f"sandbox-{sandbox.remote_id}", ["python3", "-c", CONNECT, *doors])
        lines: list[str] = self.engine.exec_start(command).decode().split()
        return lines

    def address_of(self, sandbox: OpenSandbox) -> str:
        """A sandbox's own, on the bridge that it shares with all others."""
        seen = self.engine.inspect_container(f"sandbox-egress-{sandbox.remote_id}")
        address: str = seen["NetworkSettings"]["IPAddress"]
        return address

    def leftovers(self) -> list[str]:
        names = [name for container in self.engine.containers(all=True) for name in container["Names"]]
        return names + [volume["Name"] for volume in self.engine.volumes()["Volumes"] or []]


@pytest.fixture
def place() -> Iterator[Place]:
    if ADDRESS not in os.environ:
        pytest.skip(os.environ.get(WHY_NONE, "no OpenSandbox server for tests: `make test-opensandbox` starts one"))
    engine = client(os.environ[DOCKER])
    yield Place(engine, gateway_of(engine))
    engine.close()


def settings(**changes: object) -> OpenSandboxConfig:
    given = {"domain": os.environ[ADDRESS], "api_key": os.environ[KEY], "image": SANDBOX_IMAGE}
    return OpenSandboxConfig.model_validate(given | changes)


@pytest.fixture
async def provider(place: Place) -> AsyncIterator[OpenSandboxProvider]:
    provider = OpenSandboxProvider(settings())
    yield provider
    await provider.aclose()


async def reached(sandbox: Sandbox, *doors: str) -> list[str]:
    result = await sandbox.exec(Launch(argv=["python3", "-c", CONNECT, *doors]))
    assert result.ok, result.stderr
    return result.stdout.decode().split()


async def test_without_network_nothing_is_reached(place: Place, provider: OpenSandboxProvider) -> None:
    async with serve_words(b"x", place.gateway) as first, serve_words(b"x", SECOND) as second:
        doors = [f"{place.gateway}:{first}", f"{SECOND}:{second}"]
        sandbox = await provider.create("box", SMALL_SPEC)
        assert await reached(sandbox, *doors, "169.254.169.254:80") == ["shut", "shut", "shut"]
        assert await asyncio.to_thread(place.reached_by_a_plain_container, *doors) == ["open", "open"]


async def test_model_only_reaches_one_address_and_with_landlock_one_port_of_it(
    place: Place, provider: OpenSandboxProvider
) -> None:
    async with (
        serve_words(OK, place.gateway) as model,
        serve_words(b"x", place.gateway) as other,
        serve_words(b"x", SECOND) as second,
    ):
        doors = [f"{place.gateway}:{model}", f"{place.gateway}:{other}", f"{SECOND}:{second}"]
        network = ModelOnly(host=place.gateway, port=model)
        sandbox = await provider.create("box", SMALL_SPEC.model_copy(update={"network": network}))
        assert sandbox.model_url == f"http://{place.gateway}:{model}/v1"
        assert sandbox.enforced.network == "host"
        held = has_landlock()
        assert ("one TCP port by Landlock" in sandbox.enforced.mechanism) == held
        assert await reached(sandbox, *doors) == ["open", "shut" if held else "open", "shut"]
        assert await asyncio.to_thread(place.reached_by_a_plain_container, *doors) == ["open", "open", "open"]
        await must_be_closed(sandbox, [Door(SECOND, second), Door("169.254.169.254", 80)])
        with pytest.raises(SandboxUnavailable, match=f"{place.gateway}:{model} can be reached"):
            await must_be_closed(sandbox, [Door(place.gateway, model)])


async def test_a_relay_s_address_is_the_one_that_is_reached(place: Place) -> None:
    async with serve_words(OK, SECOND) as relay, serve_words(b"x", place.gateway) as model:
        provider = OpenSandboxProvider(settings(relay_address=f"{SECOND}:{relay}"))
        try:
            network = ModelOnly(host=place.gateway, port=model)
            sandbox = await provider.create("box", SMALL_SPEC.model_copy(update={"network": network}))
            assert sandbox.model_url == f"http://{SECOND}:{relay}/v1"
            await must_be_closed(sandbox, [Door(place.gateway, model)])
        finally:
            await provider.aclose()


async def test_two_sandboxes_do_not_meet(place: Place, provider: OpenSandboxProvider) -> None:
    """A daemon asks for no password on Docker: whoever reached one could run commands beside it."""
    one, two = [await provider.create(name, SMALL_SPEC) for name in ("one", "two")]
    door = f"{place.address_of(two)}:44772"
    assert await reached(one, door) == ["shut"]
    assert await asyncio.to_thread(place.reached_by_a_plain_container, door) == ["open"]


@pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock for connections: it came with 6.7")
async def test_a_command_does_not_reach_its_own_daemon_which_would_make_it_root(
    place: Place, provider: OpenSandboxProvider
) -> None:
    sandbox = await provider.create("box", SMALL_SPEC)
    assert await reached(sandbox, "127.0.0.1:44772", "127.0.0.1:18080") == ["shut", "shut"]
    seen = await asyncio.to_thread(place.as_the_daemon, sandbox, "127.0.0.1:44772", "127.0.0.1:18080")
    assert seen == ["open", "open"]


async def test_one_that_is_not_used_ends_and_nothing_of_it_is_left(place: Place, provider: OpenSandboxProvider) -> None:
    before = place.leftovers()
    sandbox = await provider.create("box", SMALL_SPEC.model_copy(update={"ttl_s": 1.0}))
    assert len(place.leftovers()) > len(before)
    async with asyncio.timeout(_GONE_WITHIN_S):
        while await provider.list() or place.leftovers() != before:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.2)
    assert not await sandbox.is_alive()


async def test_the_server_keeps_the_time_that_it_was_told(provider: OpenSandboxProvider) -> None:
    """For the owner that is killed: our own end comes earlier."""
    await provider.create("box", SMALL_SPEC.model_copy(update={"ttl_s": 100.0}))
    neighbour = OpenSandboxProvider(settings())
    try:
        (info,) = await neighbour.list()
        assert info.created_at
        assert info.expires_at
        assert info.expires_at - info.created_at == pytest.approx(160, abs=2)
    finally:
        await neighbour.aclose()


async def test_sandboxes_are_used_through_the_server_too(place: Place) -> None:
    provider = OpenSandboxProvider(settings(use_server_proxy=True))
    try:
        sandbox = await provider.create("box", SMALL_SPEC)
        content = os.urandom(1 << 20)
        await sandbox.write("/workspace/a", content)
        assert await sandbox.read("/workspace/a") == content
    finally:
        await provider.aclose()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image": AS_USER}, "did not start as user 1000"),
        ({"image": "no-such-image:1"}, "IMAGE_PULL_FAILED"),
        ({"secure_access": True}, "secureAccess is not supported"),
        ({"api_key": "another"}, "INVALID_API_KEY"),
    ],
)
async def test_what_cannot_be_had_says_why_and_leaves_nothing(
    place: Place, changes: dict[str, object], said: str
) -> None:
    build(os.environ[DOCKER], f"FROM {SANDBOX_IMAGE}\nUSER 1000:1000\n", AS_USER)
    before = place.leftovers()
    provider = OpenSandboxProvider(settings(**changes))
    try:
        with pytest.raises(SandboxUnavailable, match=said):
            await provider.create("box", SMALL_SPEC)
    finally:
        await provider.aclose()
    assert place.leftovers() == before


async def test_ten_at_once_are_made_and_nothing_is_left(place: Place, provider: OpenSandboxProvider) -> None:
    before = place.leftovers()
    boxes = await asyncio.gather(*(provider.create(f"box-{n}", SMALL_SPEC) for n in range(10)))
    assert all(await asyncio.gather(*(box.is_alive() for box in boxes)))
    await provider.aclose()
    assert place.leftovers() == before
