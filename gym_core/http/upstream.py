"""Requests towards a model endpoint: a status, a few headers and the body as it comes, with a limit on every wait.

Knows HTTP and nothing of what is asked; whoever calls decides what is tried again.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
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
    """Each piece from where it lies, but for the first bytes: aiohttp joins those with the headers.

    (It also warns of bodies beyond 1 MiB that come as plain bytes: writing them could block. The transport takes what
    the socket takes and keeps the rest.)
    """

    _JOINED_BYTES = 64 << 10

    def __init__(self, pieces: Sequence[bytes | memoryview]) -> None:
        super().__init__(pieces)
        self._pieces = pieces
        self._size = sum(map(len, pieces))

    async def write(self, writer: aiohttp.abc.AbstractStreamWriter) -> None:
        first = memoryview(self._pieces[0])
        await writer.write(first[: self._JOINED_BYTES])
        for piece in (first[self._JOINED_BYTES :], *self._pieces[1:]):
            if piece:
                await writer.write(piece)

    async def as_bytes(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"".join(self._pieces)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._pieces).decode(encoding, errors)


class Upstream:
    """One pool's way to model endpoints."""

    def __init__(self, pool: HttpPool, limits: UpstreamLimits) -> None:
        self._pool = pool
        self._timeout = aiohttp.ClientTimeout(
            total=limits.total_s, sock_connect=limits.connect_s, sock_read=limits.idle_s
        )

    @contextlib.asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: Sequence[bytes | memoryview] | None = None,
        is_streamed: bool = False,
    ) -> AsyncIterator[UpstreamReply]:
        """`body` in one piece or more. `is_streamed`: the answer is to come in pieces, so that silence means trouble.

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
