"""A connection that breaks: bytes passed on between a client and a server, up to a point."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass


@dataclass
class Relay:
    url: str = ""
    broken: int = 0
    """Connections that it broke."""


@contextlib.asynccontextmanager
async def breaking_relay(url: str, *, after_bytes: int) -> AsyncIterator[Relay]:
    """Before the server at `url`; its first connection is broken after so many bytes of the answer."""
    relay = Relay()
    host, port = url.removeprefix("http://").split(":")

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, may_break: bool) -> None:
        seen = 0
        with contextlib.suppress(ConnectionError):
            while content := await reader.read(4096):
                seen += len(content)
                if may_break and seen > after_bytes and not relay.broken:
                    relay.broken += 1
                    break
                writer.write(content)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        asking = asyncio.create_task(passed(reader, there_writer, may_break=False))
        await passed(there_reader, writer, may_break=True)
        there_writer.close()
        await asking

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    relay.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield relay
