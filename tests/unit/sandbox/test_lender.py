"""Lending: looked at before, bounded, nothing left by any path, leftovers swept at the start and later."""

import asyncio

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.contract import ExecResult, Launch, ModelOnly, NetworkPolicy, NoNetwork, Sandbox, SandboxSpec
from gym_core.sandbox.lease import LeaseTable
from gym_core.sandbox.lender import Lender, LendingRules, WeakestNetwork
from gym_core.types.session import SandboxEnforcement
from tests.fakes.sandbox import FakeProvider, FakeSandbox

RULES = LendingRules(ttl_s=60, sweep_every_s=60, max_sandboxes=None)


def lender_of(provider: FakeProvider, rules: LendingRules = RULES) -> tuple[Lender, LeaseTable]:
    table = LeaseTable()
    return Lender(provider, rules, table), table


async def test_a_lent_sandbox_is_opened_by_its_token_and_closed_with_its_lease() -> None:
    provider = FakeProvider()
    lender, table = lender_of(provider)
    await lender.open(NoNetwork())
    lent = await lender.lend("box-1", SandboxSpec())
    assert table.redeem(lent.grant.lease_id, lent.grant.token) is lent.sandbox
    await table.release("box-1")
    assert provider.sandboxes["box-1"].closed
    await lender.close()


async def test_one_whose_network_is_open_is_destroyed_and_not_lent() -> None:
    provider = FakeProvider(lambda launch, sandbox: ExecResult(exit_code=0, stdout=b"open 127.0.0.1 9\n"))
    lender, table = lender_of(provider)
    with pytest.raises(SandboxUnavailable, match=r"127\.0\.0\.1:9 can be reached"):
        await lender.lend("box-1", SandboxSpec())
    assert (provider.sandboxes["box-1"].closed, len(table)) == (True, 0)


async def test_places_come_back_from_leases_that_end_and_from_sandboxes_that_were_not_lent() -> None:
    provider = FakeProvider()
    lender, table = lender_of(provider, LendingRules(ttl_s=60, sweep_every_s=60, max_sandboxes=1))
    provider.refuse("no room")
    for _ in range(3):
        with pytest.raises(SandboxUnavailable, match="no room"):
            await lender.lend("box-0", SandboxSpec())
    provider.refuse(None)
    await lender.lend("box-1", SandboxSpec())
    second = asyncio.create_task(lender.lend("box-2", SandboxSpec()))
    await asyncio.sleep(0)
    assert "box-2" not in provider.sandboxes
    await table.release("box-1")
    assert (await asyncio.wait_for(second, 5)).sandbox.id == "box-2"


async def test_a_lending_that_is_cancelled_leaves_nothing() -> None:
    looking = asyncio.Event()

    async def look_for_ever(launch: Launch, sandbox: FakeSandbox) -> ExecResult:
        looking.set()
        await asyncio.Event().wait()
        return ExecResult(exit_code=0)

    provider = FakeProvider(look_for_ever)
    lender, table = lender_of(provider, LendingRules(ttl_s=60, sweep_every_s=60, max_sandboxes=1))
    lending = asyncio.create_task(lender.lend("box-1", SandboxSpec()))
    await asyncio.wait_for(looking.wait(), 5)
    lending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lending
    assert (provider.sandboxes["box-1"].closed, len(table)) == (True, 0)


async def test_leftovers_are_swept_at_the_start_and_later_and_the_living_stay() -> None:
    provider = FakeProvider()
    for name in ("old", "neighbour", "later"):
        await provider.create(name, SandboxSpec())
    provider.orphans.add("old")
    lender, _ = lender_of(provider, LendingRules(ttl_s=60, sweep_every_s=0.01, max_sandboxes=None))
    await lender.open(NoNetwork())
    assert [box.id for box in provider.sandboxes.values() if box.closed] == ["old"]
    provider.orphans.add("later")
    async with asyncio.timeout(5):
        while not provider.sandboxes["later"].closed:  # noqa: ASYNC110 - the janitor has no event
            await asyncio.sleep(0.005)
    assert not provider.sandboxes["neighbour"].closed
    await lender.close()


async def test_a_sweep_that_fails_is_not_the_last() -> None:
    class Moody(FakeProvider):
        sweeps = 0

        async def sweep(self):  # type: ignore[no-untyped-def]  # as its base
            self.sweeps += 1
            if self.sweeps < 3:
                raise RuntimeError("the service is away")
            return await super().sweep()

    provider = Moody()
    lender, _ = lender_of(provider, LendingRules(ttl_s=60, sweep_every_s=0.005, max_sandboxes=None))
    await lender.open(NoNetwork())
    async with asyncio.timeout(5):
        while provider.sweeps < 4:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
    await lender.close()


class Claiming(FakeSandbox):
    """Its provider says of its network what a test wants."""

    claim = "host"

    @property
    def enforced(self) -> SandboxEnforcement:
        return super().enforced.model_copy(update={"network": self.claim})


class ClaimingProvider(FakeProvider):
    """Its sandboxes reach every decoy on one address."""

    def __init__(self, open_host: str) -> None:
        super().__init__()
        self.open_host = open_host

    async def create(self, sandbox_id: str, spec: SandboxSpec) -> FakeSandbox:
        def look(launch: Launch, _: FakeSandbox) -> ExecResult:
            hosts = launch.argv[6::2]
            reached = "".join(f"open {host} 1\n" for host in hosts if host == self.open_host)
            return ExecResult(exit_code=0, stdout=f"model HTTP/1.1 200 OK\n{reached}".encode())

        sandbox = self.sandboxes[sandbox_id] = Claiming(sandbox_id, spec)
        sandbox.on_exec(look)
        return sandbox


MODEL = ModelOnly(host="127.0.0.1", port=9)


async def lend_claimed(provider: FakeProvider, weakest: WeakestNetwork, network: NetworkPolicy = MODEL) -> Sandbox:
    lender, _ = lender_of(
        provider, LendingRules(ttl_s=60, sweep_every_s=60, max_sandboxes=None, weakest_network=weakest)
    )
    await lender.open(MODEL)
    try:
        return (await lender.lend("box", SandboxSpec(network=network))).sandbox
    finally:
        await lender.close()


async def test_a_provider_that_opens_a_whole_host_lends_only_where_that_is_accepted() -> None:
    with pytest.raises(SandboxUnavailable, match="'host' by its provider's own word"):
        await lend_claimed(ClaimingProvider("127.0.0.1"), "exact_port")
    assert (await lend_claimed(ClaimingProvider("127.0.0.1"), "host")).enforced.network == "host"


async def test_a_second_host_is_never_accepted() -> None:
    with pytest.raises(SandboxUnavailable, match=r"169\.254\.169\.254:1 can be reached"):
        await lend_claimed(ClaimingProvider("169.254.169.254"), "host")


async def test_a_network_where_none_was_asked_for_is_not_lent() -> None:
    with pytest.raises(SandboxUnavailable, match="and none is asked for"):
        await lend_claimed(ClaimingProvider(""), "host", NoNetwork())
