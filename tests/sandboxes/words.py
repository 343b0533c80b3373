"""A server for looks from inside: it says one word to whoever connects."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def serve_words(word: bytes, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Its port, while it is open."""

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word)
        writer.close()

    async with await asyncio.start_server(say, host, 0) as server:
        port: int = server.sockets[0].getsockname()[1]
        yield port
