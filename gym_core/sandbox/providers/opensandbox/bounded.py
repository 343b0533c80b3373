"""HTTP with a bound on what one answer may weigh: the daemon in a sandbox can be replaced by what runs there."""

from collections.abc import AsyncIterator

import httpx

MOST_BYTES = 256 << 20
"""A file of 64 MiB comes as 86 MiB of text; no other answer is as long."""


def bounded_transport(*, max_connections: int, most_bytes: int = MOST_BYTES) -> httpx.AsyncBaseTransport:
    """Certificates are verified."""
    # None is kept: the address of a sandbox is soon nobody's, or another's.
    limits = httpx.Limits(max_connections=max_connections, max_keepalive_connections=0)
    return _BoundedTransport(httpx.AsyncHTTPTransport(limits=limits), most_bytes)


class _BoundedTransport(httpx.AsyncBaseTransport):
    def __init__(self, inner: httpx.AsyncBaseTransport, most_bytes: int) -> None:
        self._inner = inner
        self._most_bytes = most_bytes

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        if response.headers.get("Content-Encoding", "identity") != "identity":  # little that unpacks to much
            await response.stream.aclose()
            raise httpx.ReadError("a packed answer, which was not asked for")
        response.stream = _BoundedStream(response.stream, self._most_bytes)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, most_bytes: int) -> None:
        self._inner = inner
        self._left = most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._left -= len(chunk)
            if self._left < 0:
                raise httpx.ReadError("an answer longer than any that is expected")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
