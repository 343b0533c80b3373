"""Requests towards a model endpoint: a status, a few headers and the body as it comes, with a limit on every wait.

Knows HTTP and nothing of what is asked; whoever calls decides what is tried again.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import aiohttp
import aiohttp.abc
import aiohttp.payload

from gym_core.http.client import HttpPool

_MAX_COMPLAINT_CHARS = 2000
"""Of a parser's message, which quotes what came. Whoever shows it masks it, and cuts it shorter."""


class UpstreamTrouble(StrEnum):
    REFUSED = "refused"
    """Nobody listens, or the name does not resolve: nothing was sent."""
    DROPPED = "dropped"
    """The connection ended early, before or within the answer."""
    SILENT = "silent"
    """Nothing came within the time that was allowed."""
    MALFORMED = "malformed"
    """Not HTTP, or headers beyond every measure."""


class UpstreamError(Exception):
    def __init__(self, trouble: UpstreamTrouble, message: str) -> None:
        super().__init__(message)
        self.trouble = trouble


@dataclass(frozen=True)
class UpstreamLimits:
    connect_s: float
    idle_s: float
    """Longest wait for the first byte of a stream, and between two pieces of it."""
    total_s: float


@dataclass(frozen=True)
class UpstreamReply:
    status: int
    content_type: str
    retry_after: str | None
    _response: aiohttp.ClientResponse
    _where: str

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises UpstreamError."""
        with _named_errors(self._where):
            async for piece in self._response.content.iter_any():
                yield piece

    async def read(self, max_bytes: int) -> bytes:
        """The whole body, cut at `max_bytes`. Raises UpstreamError."""
        found = bytearray()
        async for piece in self.pieces():
            found += piece
            if len(found) >= max_bytes:
                break
        return bytes(found[:max_bytes])


class _Body(aiohttp.payload.Payload):
    """Bytes in at most two writes: aiohttp joins the first with the headers, which would copy megabytes once more.

    (It also warns of bodies beyond 1 MiB that come as plain bytes: writing them could block. The transport takes what
    the socket takes and keeps the rest.)
    """

    _JOINED_BYTES = 64 << 10

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._content = content
        self._size = len(content)

    async def write(self, writer: aiohttp.abc.AbstractStreamWriter) -> None:
        if len(self._content) <= self._JOINED_BYTES:
            await writer.write(self._content)
            return
        content = memoryview(self._content)
        await writer.write(content[: self._JOINED_BYTES])
        await writer.write(content[self._JOINED_BYTES :])

    async def as_bytes(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return self._content

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._content.decode(encoding, errors)


class Upstream:
    """One pool's way to model endpoints."""

    def __init__(self, pool: HttpPool, limits: UpstreamLimits) -> None:
        self._pool = pool
        self._timeout = aiohttp.ClientTimeout(
            total=limits.total_s, sock_connect=limits.connect_s, sock_read=limits.idle_s
        )

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None, is_streamed: bool = False
    ) -> AsyncIterator[UpstreamReply]:
        """`is_streamed`: the answer is to come in pieces, so that silence means trouble.

        Leaving early closes the connection, which is how an endpoint learns to stop. Raises UpstreamError.
        """
        with _named_errors(url):
            response = await self._pool.session.request(
                method,
                url,
                data=None if body is None else _Body(body),
                headers=headers,
                timeout=self._timeout,
                allow_redirects=False,
            )
        try:
            found = response.headers
            yield UpstreamReply(response.status, found.get("Content-Type", ""), found.get("Retry-After"), response, url)
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()


@contextlib.contextmanager
def _named_errors(where: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise UpstreamError(UpstreamTrouble.SILENT, f"{where}: no byte within the time allowed") from error
    except aiohttp.ClientConnectorError as error:
        raise UpstreamError(UpstreamTrouble.REFUSED, f"{where}: {type(error).__name__}") from error
    except aiohttp.ClientResponseError as error:
        raise UpstreamError(UpstreamTrouble.MALFORMED, f"{where}: {error.message[:_MAX_COMPLAINT_CHARS]}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise UpstreamError(UpstreamTrouble.DROPPED, f"{where}: {type(error).__name__}") from error
