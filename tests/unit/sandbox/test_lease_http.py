"""A lent sandbox over real HTTP on loopback: what goes wrong, and what the other end sees of it."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from gym_core.errors import FailureKind, SandboxError, SandboxLost, TransportError
from gym_core.sandbox.contract import ExecResult, Launch, SandboxSpec
from gym_core.sandbox.leased import LeasedSandbox
from gym_core.types.session import SandboxLease
from tests.fakes.lending import Lender, open_lender
from tests.fakes.sandbox import FakeSandbox

HELLO = Launch(argv=["hello"])


@pytest.fixture
async def lender() -> AsyncIterator[Lender]:
    async with open_lender() as lender:
        yield lender


@pytest.fixture
def sandbox() -> FakeSandbox:
    return FakeSandbox("box", SandboxSpec())


async def forever() -> ExecResult:
    await asyncio.Event().wait()
    return ExecResult(exit_code=0)


async def test_output_is_seen_before_the_command_ends(lender: Lender, sandbox: FakeSandbox) -> None:
    go_on = asyncio.Event()
    seen: list[tuple[str, bytes]] = []
    leased = lender.lend(Talking(go_on))

    def on_output(stream: str, data: bytes) -> None:
        seen.append((stream, data))
        go_on.set()

    async with asyncio.timeout(5):
        result = await leased.exec(HELLO, on_output)
    assert seen == [("stdout", b"\xff\x00first"), ("stderr", b"second")]
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"\xff\x00first", b"second")


class Talking(FakeSandbox):
    """Says something, and ends only when it was heard."""

    def __init__(self, go_on: asyncio.Event) -> None:
        super().__init__("talking", SandboxSpec())
        self._go_on = go_on

    async def exec(self, launch: Launch, on_output: object = None) -> ExecResult:
        assert callable(on_output)
        on_output("stdout", b"\xff\x00first")
        await self._go_on.wait()
        on_output("stderr", b"second")
        return ExecResult(exit_code=7, stdout=b"\xff\x00first", stderr=b"second")


async def test_a_borrower_that_hangs_up_ends_its_silent_command(lender: Lender, sandbox: FakeSandbox) -> None:
    sandbox.on_exec(lambda launch, box: forever())
    calling = asyncio.create_task(lender.lend(sandbox).exec(HELLO))
    async with asyncio.timeout(5):
        while not sandbox.launches:  # noqa: ASYNC110 - another task's progress
            await asyncio.sleep(0)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        while not sandbox.cancelled:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
    assert sandbox.cancelled == [HELLO]


async def test_a_sandbox_that_dies_is_lost_to_the_borrower_too(lender: Lender, sandbox: FakeSandbox) -> None:
    sandbox.on_exec(lambda launch, box: forever())
    leased = lender.lend(sandbox)
    calling = asyncio.create_task(leased.exec(HELLO))
    async with asyncio.timeout(5):
        while not sandbox.launches:  # noqa: ASYNC110 - another task's progress
            await asyncio.sleep(0)
        sandbox.die()
        with pytest.raises(SandboxLost):
            await calling
    assert not await leased.is_alive()


async def test_a_lease_that_was_released_is_a_lost_sandbox(lender: Lender, sandbox: FakeSandbox) -> None:
    leased = lender.lend(sandbox)
    await lender.table.release(leased.id)
    for use in (leased.exec(HELLO), leased.read("/a"), leased.write("/a", b""), leased.renew()):
        with pytest.raises(SandboxLost):
            await use
    assert not await leased.is_alive()
    await leased.close()


async def test_a_sandbox_s_error_comes_back_as_its_class(lender: Lender, sandbox: FakeSandbox) -> None:
    def fail(launch: Launch, box: FakeSandbox) -> ExecResult:
        raise SandboxError("no process to be had")

    sandbox.on_exec(fail)
    with pytest.raises(SandboxError, match="no process") as caught:
        await lender.lend(sandbox).exec(HELLO)
    assert caught.value.kind == FailureKind.SANDBOX_ERROR


async def test_a_bug_in_the_sandbox_is_told_without_its_detail(lender: Lender, sandbox: FakeSandbox) -> None:
    def fail(launch: Launch, box: FakeSandbox) -> ExecResult:
        raise RuntimeError("secret detail")

    sandbox.on_exec(fail)
    with pytest.raises(Exception, match="internal error") as caught:
        await lender.lend(sandbox).exec(HELLO)
    assert "secret" not in str(caught.value)


async def test_a_lease_is_renewed_while_a_long_command_runs(lender: Lender, sandbox: FakeSandbox) -> None:
    async def until_renewed(box: FakeSandbox) -> ExecResult:
        while box.renewals < 2:  # noqa: ASYNC110 - the borrower's progress
            await asyncio.sleep(0)
        return ExecResult(exit_code=0)

    sandbox.on_exec(lambda launch, box: until_renewed(box))
    async with asyncio.timeout(5):
        assert (await lender.lend(sandbox, ttl_s=0.1).exec(HELLO)).ok


async def test_closing_gives_the_sandbox_back(lender: Lender, sandbox: FakeSandbox) -> None:
    leased = lender.lend(sandbox)
    await leased.close()
    assert sandbox.closed
    assert len(lender.table) == 0


async def test_modes_and_odd_names_survive_the_way(lender: Lender, sandbox: FakeSandbox) -> None:
    leased = lender.lend(sandbox)
    path = "/workspace/ü%2F?#&+ ;.bin"
    await leased.write(path, b"\0\xff", mode=0o750)
    assert sandbox.files == {path: b"\0\xff"}
    assert sandbox.modes == {path: 0o750}
    assert await leased.read(path) == b"\0\xff"
    await leased.write("/workspace/../a//b/./c", b"1")
    assert sandbox.files["/a/b/c"] == b"1"
    with pytest.raises(ValueError, match="line break"):
        await leased.read("/workspace/a\nb")


async def test_a_lease_may_be_ended_twice(lender: Lender, sandbox: FakeSandbox) -> None:
    lease = lender.lease(sandbox)
    url, headers = f"{lender.url}/v1/sandboxes/{lease.lease_id}", {"Authorization": f"Bearer {lease.token}"}
    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.delete(url, headers=headers) as reply:
                assert reply.status == 204
        async with session.get(url, headers=headers) as reply:
            assert reply.status == 404
    assert sandbox.closed


@pytest.mark.parametrize("token", ["", "Bearer ", "Bearer wrong", "Basic abc"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/exec"),
        ("PUT", "/files/a"),
        ("GET", "/files/a"),
        ("POST", "/renew"),
        ("GET", ""),
        ("DELETE", ""),
    ],
)
async def test_no_route_opens_without_the_lease_s_token(
    lender: Lender, sandbox: FakeSandbox, method: str, path: str, token: str
) -> None:
    lease = lender.lease(sandbox)
    url = f"{lender.url}/v1/sandboxes/{lease.lease_id}{path}"
    body = HELLO.model_dump_json()
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=body, headers={"Authorization": token}) as reply,
    ):
        assert reply.status == 404
        assert (await reply.json())["error"]["kind"] == "session_lost"
    assert (sandbox.launches, sandbox.files, sandbox.closed, sandbox.renewals) == ([], {}, False, 0)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/exec", "not json"),
        ("POST", "/exec", '{"argv": []}'),
        ("POST", "/exec", '{"argv": ["a"], "shell": true}'),
        ("POST", "/exec", json.dumps({"argv": ["a"], "output_cap_bytes": 1 << 40})),
        ("PUT", "/files/a?mode=9z", ""),
        ("GET", "/files/a?max_bytes=-1", ""),
    ],
)
async def test_nonsense_is_refused_at_the_door(
    lender: Lender, sandbox: FakeSandbox, method: str, path: str, body: str
) -> None:
    lease = lender.lease(sandbox)
    url = f"{lender.url}/v1/sandboxes/{lease.lease_id}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=body, headers={"Authorization": f"Bearer {lease.token}"}) as reply,
    ):
        assert reply.status == 422
    assert sandbox.launches == []


class Scripted:
    """A lender whose reply to `exec` is written by the test."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = lines

    async def send(self, *_: object, **__: object) -> "Scripted":
        return self

    status = 204
    body = b""

    async def stream(self, *_: object, **__: object) -> AsyncIterator[bytes]:
        for line in self._lines:
            yield line


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], "ended before the command"),
        ([b'{"stream": "stdout", "data": "aGk="}'], "ended before the command"),
        ([b"<html>"], "not a line"),
        ([b'{"stream": "stdout", "data": "!"}'], "not a line"),
        ([b'{"stream": "stdin", "data": "aGk="}'], "not a line"),
    ],
)
async def test_a_reply_that_is_cut_or_nonsense_is_never_a_result(
    lender: Lender, sandbox: FakeSandbox, lines: list[bytes], complaint: str
) -> None:
    lease: SandboxLease = lender.lease(sandbox)
    with pytest.raises(TransportError, match=complaint):
        await LeasedSandbox(lease, Scripted(*lines)).exec(HELLO)
