"""Leases: who may use a lent sandbox, and until when."""

import asyncio

import pytest

from gym_core.errors import FailureKind, SessionError
from gym_core.sandbox.contract import ExecResult, Launch, SandboxSpec
from gym_core.sandbox.lease import LeaseTable
from tests.fakes.sandbox import FakeSandbox


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(clock: Clock) -> LeaseTable:
    return LeaseTable(clock)


def box(name: str = "box") -> FakeSandbox:
    return FakeSandbox(name, SandboxSpec())


def test_the_token_of_a_lease_opens_it_and_no_other(table: LeaseTable) -> None:
    one, two = box("one"), box("two")
    first, second = table.lend(one, ttl_s=60), table.lend(two, ttl_s=60)
    assert table.redeem(first.lease_id, first.token) is one
    for lease_id, token in (
        (first.lease_id, second.token),
        (first.lease_id, ""),
        (first.lease_id, "é"),
        ("lease-unknown", first.token),
    ):
        with pytest.raises(SessionError, match="no lease") as caught:
            table.redeem(lease_id, token)
        assert caught.value.kind == FailureKind.SESSION_LOST


async def test_a_lease_that_is_not_used_ends_with_its_sandbox(table: LeaseTable, clock: Clock) -> None:
    sandbox = box()
    grant = table.lend(sandbox, ttl_s=60)
    clock.now_s += 59
    assert await table.reap() == []
    clock.now_s += 1
    assert await table.reap() == [grant.lease_id]
    assert sandbox.closed
    with pytest.raises(SessionError):
        table.redeem(grant.lease_id, grant.token)


def test_one_that_ran_out_is_not_opened_even_before_it_is_reaped(table: LeaseTable, clock: Clock) -> None:
    grant = table.lend(box(), ttl_s=60)
    clock.now_s += 61
    with pytest.raises(SessionError) as caught:
        table.redeem(grant.lease_id, grant.token)
    assert caught.value.kind == FailureKind.SESSION_EXPIRED


async def test_every_use_renews_and_looking_does_not(table: LeaseTable, clock: Clock) -> None:
    grant = table.lend(box(), ttl_s=60)
    credentials = (grant.lease_id, grant.token)
    clock.now_s += 50
    assert await table.is_alive(*credentials)
    assert table.seconds_left(*credentials) == 10
    table.redeem(*credentials)
    assert table.seconds_left(*credentials) == 60
    clock.now_s += 50
    assert await table.renew(*credentials) == 60


async def test_a_lease_in_use_does_not_run_out(table: LeaseTable, clock: Clock) -> None:
    grant = table.lend(box(), ttl_s=60)
    with table.using(grant.lease_id, grant.token):
        clock.now_s += 1000
        assert await table.reap() == []
        assert table.redeem(grant.lease_id, grant.token)
    assert table.seconds_left(grant.lease_id, grant.token) == 60


async def test_release_destroys_and_twice_is_fine(table: LeaseTable) -> None:
    sandbox = box()
    grant = table.lend(sandbox, ttl_s=60)
    await asyncio.gather(table.release(grant.lease_id), table.release(grant.lease_id))
    await table.release(grant.lease_id)
    assert sandbox.closed
    assert len(table) == 0


async def test_a_borrower_gives_back_twice_and_a_stranger_never(table: LeaseTable, clock: Clock) -> None:
    used, late = box("used"), box("late")
    grants = [table.lend(sandbox, ttl_s=60) for sandbox in (used, late)]
    await table.give_back(grants[0].lease_id, grants[0].token)
    assert (used.closed, late.closed) == (True, False)
    clock.now_s += 61
    await table.reap()
    for grant in grants:
        await table.give_back(grant.lease_id, grant.token)
    for lease_id, token in (("used", grants[1].token), ("used", ""), ("unknown", grants[0].token), ("unknown", "")):
        with pytest.raises(SessionError, match="no lease"):
            await table.give_back(lease_id, token)


async def test_an_old_token_does_not_end_the_next_lease_of_the_same_name(table: LeaseTable) -> None:
    first = table.lend(box(), ttl_s=60)
    await table.give_back(first.lease_id, first.token)
    again = box()
    second = table.lend(again, ttl_s=60)
    await table.give_back(first.lease_id, first.token)
    assert not again.closed
    await table.give_back(second.lease_id, second.token)
    assert again.closed


async def test_stopping_releases_everything(table: LeaseTable) -> None:
    boxes = [box(f"box-{n}") for n in range(3)]
    for sandbox in boxes:
        table.lend(sandbox, ttl_s=60)
    table.start()
    await table.stop()
    assert all(sandbox.closed for sandbox in boxes)


async def test_renewing_a_lease_renews_the_sandbox_and_its_uses_do_not(table: LeaseTable) -> None:
    sandbox = box()
    grant = table.lend(sandbox, ttl_s=60)
    for _ in range(100):
        with table.using(grant.lease_id, grant.token):
            pass
    assert sandbox.renewals == 0  # a renewal may be a call to a service
    await table.renew(grant.lease_id, grant.token)
    assert sandbox.renewals == 1


async def test_the_id_of_a_lease_is_its_sandbox_s_and_it_is_lent_once(table: LeaseTable) -> None:
    sandbox = box("mine")
    assert table.lend(sandbox, ttl_s=60).lease_id == "mine"
    with pytest.raises(SessionError, match="out already") as caught:
        table.lend(box("mine"), ttl_s=60)
    assert caught.value.kind == FailureKind.SESSION_CONFLICT
    await table.release("mine")
    assert table.lend(box("mine"), ttl_s=60).lease_id == "mine"


class Stubborn(FakeSandbox):
    """Cannot be destroyed until `gives_way`."""

    gives_way = False

    async def close(self) -> None:
        if not self.gives_way:
            raise RuntimeError("the service is away")
        await super().close()


async def test_a_sandbox_that_could_not_be_destroyed_is_tried_again_and_its_end_told_once(table: LeaseTable) -> None:
    sandbox, ends = Stubborn("mine", SandboxSpec()), list[str]()
    grant = table.lend(sandbox, ttl_s=60, on_end=lambda: ends.append("end"))
    await table.release("mine")
    with pytest.raises(SessionError, match="no lease"):
        table.redeem("mine", grant.token)
    await table.reap()
    assert (sandbox.closed, ends, len(table)) == (False, [], 0)
    sandbox.gives_way = True
    await table.reap()
    await table.reap()
    assert (sandbox.closed, ends) == (True, ["end"])


async def test_a_fake_can_be_slow_and_can_die() -> None:
    sandbox = box()
    sandbox.on_exec(lambda launch, sandbox: wait_long())
    slow = await sandbox.exec(Launch(argv=["x"], timeout_s=0.01))
    assert (slow.timed_out, slow.exit_code) == (True, None)


async def wait_long() -> ExecResult:
    await asyncio.Event().wait()
    return ExecResult(exit_code=0)
