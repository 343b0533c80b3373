"""The relay between two loopback sockets; which network they belong to makes no difference to it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from gym_core.sandbox.box.relay import MAX_CONNECTIONS, Relay
from gym_core.sandbox.contract import ModelOnly

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Setting:
    """A model server that behaves as a test says, and the relay before it."""

    def __init__(self) -> None:
        self.handler: Handler = shout
        self.serving: set[asyncio.StreamWriter] = set()
        self._clients: list[asyncio.StreamWriter] = []

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = listener.getsockname()
        self.relay = Relay(listener, ModelOnly(host="127.0.0.1", port=self._server.sockets[0].getsockname()[1]))

    async def connect(self) -> Streams:
        streams = await asyncio.open_connection(*self.address)
        self._clients.append(streams[1])
        return streams

    async def close_server(self) -> None:
        self._server.close()

    async def close(self) -> None:
        self._server.close()
        await self.relay.close()
        for writer in self._clients:
            writer.transport.abort()
        async with asyncio.timeout(5):
            while self.serving:  # noqa: ASYNC110 - the last handler's end
                await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.add(writer)
        try:
            await self.handler(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()
            self.serving.discard(writer)


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers only when the client has finished sending."""
    writer.write((await reader.read()).upper())
    await writer.drain()


async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"x")
    await reader.read()


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    setting = Setting()
    await setting.open()
    yield setting
    await setting.close()


async def test_a_client_that_has_finished_sending_gets_its_answer(setting: Setting) -> None:
    reader, writer = await setting.connect()
    writer.write(b"hello " * 100_000)
    writer.write_eof()
    async with asyncio.timeout(10):
        assert await reader.read() == b"HELLO " * 100_000


async def test_a_long_answer_arrives_whole_after_the_server_closed(setting: Setting) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(3_000_000))
        await writer.drain()

    setting.handler = answer
    reader, _ = await setting.connect()
    async with asyncio.timeout(10):
        assert len(await reader.read()) == 3_000_000


async def test_a_client_that_breaks_off_is_broken_off_at_the_server(setting: Setting) -> None:
    setting.handler = hold
    reader, writer = await setting.connect()
    assert await reader.read(1) == b"x"
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close sends a reset
    writer.transport.abort()
    async with asyncio.timeout(5):
        while setting.serving:  # noqa: ASYNC110 - the handler's end
            await asyncio.sleep(0)


async def test_an_unreachable_server_closes_the_client_s_connection(setting: Setting) -> None:
    await setting.close_server()
    reader, _ = await setting.connect()
    async with asyncio.timeout(5):
        assert await reader.read() == b""


async def test_no_more_than_so_many_connections_are_relayed_at_once(setting: Setting) -> None:
    setting.handler = hold
    held = [await setting.connect() for _ in range(MAX_CONNECTIONS)]
    for reader, _ in held:
        assert await reader.read(1) == b"x"
    extra, _ = await setting.connect()
    waiting = asyncio.ensure_future(extra.read(1))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert len(setting.serving) == MAX_CONNECTIONS

    held[0][1].write_eof()
    async with asyncio.timeout(5):
        assert await waiting == b"x"


async def test_closing_ends_every_connection(setting: Setting) -> None:
    setting.handler = hold
    reader, _ = await setting.connect()
    assert await reader.read(1) == b"x"
    await setting.relay.close()
    async with asyncio.timeout(5):
        assert await reader.read() == b""
