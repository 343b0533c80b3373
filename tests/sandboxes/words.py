"""A server for looks from inside: it says one word to whoever connects."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def serve_words(word: bytes, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Its port, while it is open."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word)
        writer.write_eof()
        # Closing before the other side has spoken would break its pipe. A look that was killed never speaks: then the
        # loop's end cancels this, and asyncio logs a cancelled handler as an error.
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await reader.read(1 << 16)
        writer.close()

    async with await asyncio.start_server(say, host, 0) as server:
        port: int = server.sockets[0].getsockname()[1]
        yield port
