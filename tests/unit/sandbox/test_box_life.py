"""However much it is used, a sandbox of ours ends one day: what lets a janitor tell a leftover without its owner."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gym_core.errors import SandboxLost
from gym_core.sandbox.box.box import BoxSandbox
from gym_core.sandbox.box.channel import Channel
from gym_core.sandbox.box.layout import longest_s
from gym_core.sandbox.contract import SandboxSpec
from gym_core.types.session import SandboxEnforcement

HOUR_S = 3600.0


class Shifted(asyncio.SelectorEventLoop):
    """Its clock is put forward by hand."""

    shift_s = 0.0

    def time(self) -> float:
        return super().time() + self.shift_s


class Answered:
    """A request that process 1 has answered."""

    def __init__(self) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.status.set_result(0)

    async def ended_within(self, timeout_s: float) -> bool:
        return True


class Willing:
    async def request(self, message: object, fds: object = ()) -> Answered:
        return Answered()


class Cell:
    name, init_pid, env = "cell", None, dict[str, str]()

    @property
    def channel(self) -> Channel:
        return Willing()  # type: ignore[return-value]  # what of it a renewal needs

    @property
    def enforced(self) -> SandboxEnforcement:
        raise NotImplementedError

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass


def play(scene: Callable[[BoxSandbox, Shifted], Awaitable[None]], spec: SandboxSpec) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Shifted)
        sandbox = BoxSandbox("box", spec, lambda _: Cell(), lambda: None)
        await sandbox.open()
        try:
            await scene(sandbox, loop)
        finally:
            await sandbox.close()

    with asyncio.Runner(loop_factory=Shifted) as runner:
        runner.run(run())


async def an_hour_later(loop: Shifted) -> None:
    loop.shift_s += HOUR_S
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("ttl_s", "hours"), [(2 * HOUR_S, 24), (12 * HOUR_S, 48)])
def test_renewed_every_hour_it_lives_for_a_day_or_for_four_times_its_ttl(ttl_s: float, hours: int) -> None:
    async def scene(sandbox: BoxSandbox, loop: Shifted) -> None:
        for _ in range(hours - 1):
            await an_hour_later(loop)
            await sandbox.renew()
        await an_hour_later(loop)
        with pytest.raises(SandboxLost, match="none lives longer"):
            await sandbox.renew()

    spec = SandboxSpec(ttl_s=ttl_s)
    assert longest_s(spec) == hours * HOUR_S
    play(scene, spec)


def test_one_that_is_not_renewed_ends_by_its_ttl() -> None:
    async def scene(sandbox: BoxSandbox, loop: Shifted) -> None:
        await an_hour_later(loop)
        assert await sandbox.is_alive()
        await an_hour_later(loop)
        with pytest.raises(SandboxLost, match="not used or renewed for 7200 s"):
            await sandbox.renew()

    play(scene, SandboxSpec())
