"""A server, or a daemon in a sandbox, that accepts what it is asked and never answers: each call ends by our own time.

The figures are those of `sdk.py` and `sandbox.py`: 10 s past the SDK's own time-outs, which are 30 s for a request and
300 s for a creation or a file.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from gym_core.errors import FailureKind, SandboxError, SandboxLost, SandboxUnavailable
from gym_core.sandbox.contract import Launch, SandboxSpec
from gym_core.sandbox.lease import LeaseTable
from gym_core.sandbox.lender import Lender, LendingRules
from gym_core.sandbox.providers.opensandbox import OpenSandboxProvider
from gym_core.sandbox.providers.opensandbox.sandbox import OpenSandbox
from gym_core.sandbox.providers.opensandbox.sdk import Order, Service, ServiceFault
from tests.fakes.clock import FastClock
from tests.sandboxes.opensandbox import IMAGE, settings_for
from tests.sandboxes.subject import SMALL
from tests.unit.sandbox.opensandbox.conftest import Scene

ALL = ".*"
CREATE, LIST, GET, KILL = "POST v1/sandboxes", "GET v1/sandboxes", "GET v1/sandboxes/[^/]+", "DELETE v1/sandboxes/.*"
DAEMON, UPLOAD, REMOVAL = "[A-Z]+ inside/.*/44772/.*", "POST inside/.*/files/upload", "DELETE inside/.*/files"
SIDECAR = "GET inside/.*/18080/policy"

ONE_S = 45.0
"""A request's deadline, and the little that takes time by this clock because it does answer."""
STOP_S = 10.0 + ONE_S
"""To learn of a command's id, and to interrupt it."""
TRANSFER_S = 310.0
CREATION_S = 3 * (310.0 + ONE_S)
RULES = LendingRules(ttl_s=60, sweep_every_s=60, max_sandboxes=1)


@pytest.fixture
async def clock() -> FastClock:
    return FastClock()


@pytest.fixture
async def provider(scene: Scene, clock: FastClock) -> AsyncIterator[OpenSandboxProvider]:
    """Whatever it could not do while the server was silent: a sweep makes up for it, and no task goes on."""
    provider = OpenSandboxProvider(settings_for(scene.server))
    yield provider
    scene.server.silent_at = None
    await provider.sweep()
    assert len(scene.server.records) == len(await provider.list())  # those that are in use
    await clock.run(provider.aclose(), within_s=ONE_S)
    assert scene.server.records == {}
    await asyncio.sleep(0)
    assert [task for task in asyncio.all_tasks() if "providers/opensandbox" in repr(task.get_coro())] == []


Call = Callable[[OpenSandbox], Awaitable[object]]

RUN: Call = lambda box: box.exec(Launch(argv=["true"], timeout_s=60))  # noqa: E731 - a table of calls
READ: Call = lambda box: box.read("/workspace/a")  # noqa: E731
WRITE: Call = lambda box: box.write("/workspace/a", b"content")  # noqa: E731
RENEW: Call = lambda box: box.renew()  # noqa: E731
LOOK: Call = lambda box: box.look()  # noqa: E731


@pytest.mark.parametrize(
    ("call", "silent_at", "within_s"),
    [
        pytest.param(RUN, DAEMON, 100 + STOP_S + ONE_S, id="exec"),
        pytest.param(RUN, ALL, 100 + STOP_S + ONE_S, id="exec, the server silent too"),
        pytest.param(READ, DAEMON, TRANSFER_S + STOP_S + ONE_S, id="read"),
        pytest.param(LOOK, DAEMON, TRANSFER_S + STOP_S + ONE_S, id="look"),
        pytest.param(WRITE, UPLOAD, TRANSFER_S + ONE_S, id="upload"),
        pytest.param(WRITE, DAEMON, TRANSFER_S + 2 * ONE_S, id="upload and all else"),
        pytest.param(WRITE, ALL, TRANSFER_S + 2 * ONE_S, id="upload, the server silent too"),
        pytest.param(RENEW, GET, 2 * ONE_S, id="renew"),
    ],
)
async def test_a_call_ends_with_an_error_of_ours_and_the_sandbox_lives_on(
    scene: Scene, provider: OpenSandboxProvider, clock: FastClock, call: Call, silent_at: str, within_s: float
) -> None:
    box = await provider.create("box", SandboxSpec())
    await box.write("/workspace/a", b"before")
    scene.server.silent_at = silent_at
    with pytest.raises(SandboxError, match="no answer within") as caught:
        await clock.run(call(box), within_s=within_s)
    assert caught.value.kind == FailureKind.SANDBOX_ERROR
    assert scene.server.unanswered
    scene.server.silent_at = None
    assert await box.is_alive()
    assert await box.read("/workspace/a") == b"before"


async def test_an_upload_whose_leftover_cannot_be_removed_is_one(
    scene: Scene, provider: OpenSandboxProvider, clock: FastClock
) -> None:
    box = await provider.create("box", SandboxSpec())
    scene.server.silent_at = REMOVAL
    await clock.run(box.write("/workspace/a", b"content"), within_s=ONE_S)
    assert await box.read("/workspace/a") == b"content"


async def test_whether_a_sandbox_lives_is_said_in_time(
    scene: Scene, provider: OpenSandboxProvider, clock: FastClock
) -> None:
    box = await provider.create("box", SandboxSpec())
    scene.server.silent_at = ALL
    assert not await clock.run(box.is_alive(), within_s=ONE_S)


async def test_telling_the_server_of_a_new_end_has_a_deadline(scene: Scene, clock: FastClock) -> None:
    service = Service(settings_for(scene.server))
    order = Order(image=IMAGE, ttl_s=60, resources=SMALL, labels={}, allowed_address=None, mounts=())
    remote = await service.create(order)
    scene.server.silent_at = f"POST v1/sandboxes/{remote.id}/renew-expiration"
    with pytest.raises(ServiceFault, match="renewal: no answer within"):
        await clock.run(remote.renew(60), within_s=ONE_S)
    await service.aclose()


@pytest.mark.parametrize(
    ("silent_at", "within_s"),
    [
        pytest.param(CREATE, CREATION_S, id="the server"),
        pytest.param(ALL, CREATION_S, id="server and sandbox"),
        pytest.param(DAEMON, CREATION_S, id="the daemon"),
        pytest.param("POST inside/.*/command", TRANSFER_S + STOP_S + ONE_S, id="the daemon's commands"),
        pytest.param(SIDECAR, ONE_S, id="the sidecar"),
    ],
)
async def test_a_creation_without_an_answer_lends_nothing_and_gives_its_place_back(
    scene: Scene, provider: OpenSandboxProvider, clock: FastClock, silent_at: str, within_s: float
) -> None:
    table = LeaseTable()
    lender = Lender(provider, RULES, table)
    scene.server.silent_at = silent_at
    with pytest.raises(SandboxUnavailable, match="not made|is no good") as caught:
        await clock.run(lender.lend("box", SandboxSpec()), within_s=within_s)
    assert caught.value.kind == FailureKind.PROVIDER_UNAVAILABLE
    assert len(table) == 0
    scene.server.silent_at = None
    await provider.sweep()
    assert scene.server.records == {}
    await lender.lend("box", SandboxSpec())  # into the only place
    await table.stop()


async def test_a_cancelled_creation_without_an_answer_ends(
    scene: Scene, provider: OpenSandboxProvider, clock: FastClock
) -> None:
    scene.server.silent_at = CREATE
    creating = asyncio.create_task(provider.create("box", SandboxSpec()))
    while not scene.server.unanswered:  # noqa: ASYNC110 - the faked server has no event for it
        await asyncio.sleep(0)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await clock.run(creating, within_s=ONE_S)


async def test_lists_and_sweeps_without_an_answer_are_unavailable(
    scene: Scene, provider: OpenSandboxProvider, clock: FastClock
) -> None:
    scene.server.silent_at = LIST
    for call in (provider.list(), provider.sweep()):
        with pytest.raises(SandboxUnavailable, match="list: no answer within"):
            await clock.run(call, within_s=ONE_S)


@pytest.mark.parametrize("silent_at", [KILL, ALL])
async def test_a_close_without_an_answer_ends_and_the_next_sweep_takes_what_is_left(
    scene: Scene, provider: OpenSandboxProvider, clock: FastClock, silent_at: str
) -> None:
    box = await provider.create("box", SandboxSpec())
    scene.server.silent_at = silent_at
    await clock.run(box.close(), within_s=3 * ONE_S + 5)
    assert list(scene.server.records) == [box.remote_id]
    with pytest.raises(SandboxLost, match="closed"):
        await box.exec(Launch(argv=["true"]))
    scene.server.silent_at = None
    assert (await provider.sweep()).removed == ["box"]


async def test_a_sweep_whose_kills_have_no_answer_keeps_what_it_could_not_take(
    scene: Scene, provider: OpenSandboxProvider, clock: FastClock
) -> None:
    box = await provider.create("box", SandboxSpec())
    scene.server.silent_at = KILL
    await clock.run(box.close(), within_s=3 * ONE_S + 5)
    swept = await clock.run(provider.sweep(), within_s=ONE_S)
    assert (swept.removed, swept.kept) == ([], 1)


async def test_a_provider_of_a_silent_server_closes(scene: Scene, clock: FastClock) -> None:
    provider = OpenSandboxProvider(settings_for(scene.server))
    await provider.create("box", SandboxSpec())
    scene.server.silent_at = ALL
    await clock.run(provider.aclose(), within_s=4 * ONE_S + 5)
