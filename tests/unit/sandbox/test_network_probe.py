"""The look at a sandbox's network: an open one is found, with what was seen."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.addresses import own_addresses
from gym_core.sandbox.contract import ExecResult, Launch, ModelOnly, SandboxSpec
from gym_core.sandbox.probe import Decoys, Door, must_be_closed
from tests.fakes.sandbox import FakeSandbox

REFUSED = [Door("127.0.0.1", 1)]


async def run_here(launch: Launch, sandbox: FakeSandbox) -> ExecResult:
    """No sandbox at all: the look is at the network of this very host."""
    process = await asyncio.create_subprocess_exec(
        *launch.argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    stdout, stderr = await process.communicate()
    return ExecResult(exit_code=process.returncode, stdout=stdout, stderr=stderr)


def unconfined(port: int | None = None) -> FakeSandbox:
    spec = SandboxSpec(network=ModelOnly(host="127.0.0.1", port=port)) if port else SandboxSpec()
    sandbox = FakeSandbox("box", spec)
    sandbox.on_exec(run_here)
    return sandbox


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[bytes], "asyncio.Future[int]"]]:
    servers: list[asyncio.Server] = []

    def start(answer: bytes) -> "asyncio.Future[int]":
        async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        async def opened() -> int:
            servers.append(await asyncio.start_server(say, "127.0.0.1", 0))
            port: int = servers[-1].sockets[0].getsockname()[1]
            return port

        return asyncio.ensure_future(opened())

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


async def test_a_sandbox_that_reaches_a_decoy_is_refused_and_each_is_named() -> None:
    decoys = Decoys()
    await decoys.open("127.0.0.1")
    try:
        opened = [door for door in decoys.doors if door.host in ("127.0.0.1", *own_addresses())]
        assert opened
        with pytest.raises(SandboxUnavailable, match="must not be") as caught:
            await must_be_closed(unconfined(), opened)
        for door in opened:
            assert f"{door.host}:{door.port}" in str(caught.value)
    finally:
        await decoys.close()
    await must_be_closed(unconfined(), opened)  # the control: nobody listens there any more


async def test_the_metadata_address_is_among_the_doors_and_a_foreign_model_s_address_is_not() -> None:
    decoys = Decoys()
    await decoys.open("192.0.2.1")
    hosts = [door.host for door in decoys.doors]
    await decoys.close()
    assert Door("169.254.169.254", 80) in decoys.doors
    assert "192.0.2.1" not in hosts
    assert "127.0.0.1" in hosts


async def test_a_model_server_that_answers_will_do(serve: Callable[[bytes], "asyncio.Future[int]"]) -> None:
    for answer in (b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 401 Unauthorized\r\n\r\n"):
        await must_be_closed(unconfined(await serve(answer)), REFUSED)


@pytest.mark.parametrize("answer", [b"", b"hello\r\n", b"\r\nHTTP/1.1 200 OK\r\n\r\n"])
async def test_one_that_hangs_up_or_talks_otherwise_will_not(
    serve: Callable[[bytes], "asyncio.Future[int]"], answer: bytes
) -> None:
    with pytest.raises(SandboxUnavailable, match="model server at http://127.0.0.1:.* did not answer"):
        await must_be_closed(unconfined(await serve(answer)), REFUSED)


async def test_one_that_is_not_there_will_not() -> None:
    with pytest.raises(SandboxUnavailable, match="did not answer"):
        await must_be_closed(unconfined(1), REFUSED)


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        (ExecResult(exit_code=127), "no bash"),
        (ExecResult(exit_code=2, stderr=b"odd"), "exit code 2, 'odd'"),
        (ExecResult(exit_code=None, timed_out=True), "exit code None"),
        (ExecResult(exit_code=0, stdout=b"open 10.0.0.1 80\n"), "10.0.0.1:80 can be reached"),
        (ExecResult(exit_code=None, stdout=b"open ::1 80\n"), "::1:80 can be reached"),
    ],
)
async def test_what_cannot_be_looked_at_is_not_lent(result: ExecResult, complaint: str) -> None:
    sandbox = FakeSandbox("box", SandboxSpec())
    sandbox.on_exec(lambda launch, _: result)
    with pytest.raises(SandboxUnavailable, match="is not lent") as caught:
        await must_be_closed(sandbox, REFUSED)
    assert complaint in str(caught.value)


async def test_the_shell_s_words_are_data() -> None:
    """Addresses come from a configuration; none of it is run."""
    path = f"/tmp/gym-probe-{os.getpid()}"
    await must_be_closed(unconfined(), [Door(f"$(touch {path})", 1), Door(f"`touch {path}`", 1)])
    assert not os.path.exists(path)  # noqa: PTH110, ASYNC240 - one look
