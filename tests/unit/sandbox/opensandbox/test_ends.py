"""How OpenSandbox sandboxes end: by their owner, by time, by a sweep."""

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.contract import Launch, SandboxSpec
from gym_core.sandbox.owner import Owner
from gym_core.sandbox.providers.opensandbox import labels
from gym_core.sandbox.providers.opensandbox.life import Life
from tests.fakes.opensandbox import MemoryInside
from tests.fakes.opensandbox.daemon import Daemon
from tests.fakes.opensandbox.server import Record
from tests.unit.sandbox.opensandbox.conftest import Scene

DEAD = str(Owner.here().model_copy(update={"start_ticks": 1}))
ELSEWHERE = str(Owner.here().model_copy(update={"boot": "ffffffff", "host": "elsewhere"}))


async def test_killing_what_is_gone_is_success(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    sandbox = await scene.open()
    await scene.server.vanish(sandbox.remote_id)
    await sandbox.close()
    assert scene.server.kills == []
    assert "sandbox not killed" not in caplog.text


async def test_a_kill_that_failed_is_tried_again(scene: Scene) -> None:
    sandbox = await scene.open()
    scene.server.refused_kills = 1
    await sandbox.close()
    assert scene.server.kills == [sandbox.remote_id]


async def test_using_a_sandbox_seldom_renews_it_at_the_server(scene: Scene) -> None:
    sandbox = await scene.open()
    for _ in range(5):
        await sandbox.exec(Launch(argv=["true"]))
        await sandbox.renew()
    assert scene.server.renewals == []


class HandClock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.callback: Callable[[], None] = lambda: None
        self.when = 0.0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> "HandClock":
        self.when, self.callback = when, callback
        return self

    def cancel(self) -> None:
        self.callback = lambda: None

    def pass_by(self, seconds: float) -> None:
        end = self.now + seconds
        while self.when <= end and self.when > self.now:
            self.now = self.when
            self.callback()
        self.now = end


def test_the_server_is_told_early_and_rarely() -> None:
    clock, renewals = HandClock(), 0
    life = Life(1200, lambda: None, clock)
    assert life.server_ttl_s == 1800
    server_end = clock.now + life.server_ttl_s
    for _ in range(240):  # used every half minute for two hours
        clock.pass_by(30)
        life.begin_use()
        if life.must_renew:
            assert server_end - clock.now > 1200  # early: it would still have lived longer than we want it to
            life.renewed()
            server_end, renewals = clock.now + life.server_ttl_s, renewals + 1
        life.end_use()
    assert 10 < renewals < 30


def test_a_sandbox_ends_when_it_is_not_used_and_not_while_it_is() -> None:
    ends: list[float] = []
    clock = HandClock()
    life = Life(100, lambda: ends.append(clock.now), clock)
    life.begin_use()
    clock.pass_by(1000)
    assert ends == []
    life.end_use()
    clock.pass_by(1000)
    assert len(ends) == 1
    assert ends[0] == pytest.approx(2100, abs=100)


def strange(scene: Scene, name: str, *, owner: str = ELSEWHERE, ends_in: timedelta | None = timedelta(hours=1)) -> None:
    """A sandbox that somebody else has at the server."""
    metadata = labels.written({"episode": name}, {labels.MARK: "1", labels.ID: name, labels.OWNER: owner})
    now = time.time()
    body: dict[str, object] = {"metadata": metadata, "image": {"uri": "image"}}
    end = now + ends_in.total_seconds() if ends_in else None
    scene.server.records[name] = Record(name, body, Daemon(MemoryInside(), {}), now, end)


async def test_a_sweep_takes_what_has_no_living_owner_and_nothing_else(scene: Scene) -> None:
    provider = scene.provider()
    ours = await provider.create("ours", SandboxSpec())
    strange(scene, "of-the-dead", owner=DEAD)
    strange(scene, "forgotten-by-the-server", ends_in=timedelta(minutes=-10))
    strange(scene, "just-over", ends_in=timedelta(seconds=-5))
    strange(scene, "elsewhere")
    strange(scene, "without-an-end", ends_in=None)
    scene.server.records["not-a-gym-s"] = Record(
        "not-a-gym-s", {"image": {"uri": "image"}}, Daemon(MemoryInside(), {}), 1, 2
    )
    orphans = {info.sandbox_id for info in await provider.list() if info.is_orphan}
    assert orphans == {"of-the-dead", "forgotten-by-the-server"}
    swept = await provider.sweep()
    assert (set(swept.removed), swept.kept) == (orphans, 4)
    assert set(scene.server.records) == {
        *(ours.remote_id, "just-over", "elsewhere", "without-an-end", "not-a-gym-s"),
    }


async def test_a_sandbox_of_ours_that_we_never_heard_of_is_an_orphan(scene: Scene) -> None:
    """Its reply was lost, and it came to be after we had looked."""
    provider = scene.provider()
    ours = await provider.create("ours", SandboxSpec())
    record = scene.server.records[ours.remote_id]
    late = {**record.body, "metadata": {**record.body["metadata"], labels.ATTEMPT: "lost"}}  # type: ignore[dict-item]
    scene.server.records["late"] = Record("late", late, Daemon(MemoryInside(), {}), 1, record.expires_at)
    assert (await provider.sweep()).removed == ["ours"]
    assert list(scene.server.records) == [ours.remote_id]


async def test_closing_the_provider_ends_all_that_it_made_and_no_other_s(scene: Scene) -> None:
    provider, other = scene.provider(), scene.provider()
    await provider.create("one", SandboxSpec())
    kept = await other.create("two", SandboxSpec())
    scene.server.records["late"] = Record(
        "late", scene.server.creations[0], Daemon(MemoryInside(), {}), 1, time.time() + 99
    )
    await provider.aclose()
    assert list(scene.server.records) == [kept.remote_id]


async def test_all_pages_of_a_long_list_are_read(scene: Scene) -> None:
    for number in range(230):
        strange(scene, f"box-{number}")
    found = await scene.provider().list()
    assert len({info.sandbox_id for info in found}) == 230
    assert found[0].metadata == {"episode": "box-0"}


async def test_a_list_that_cannot_be_had_is_unavailable(scene: Scene) -> None:
    with pytest.raises(SandboxUnavailable, match="INVALID_API_KEY"):
        await scene.provider(api_key="another").list()
