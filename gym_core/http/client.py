"""Calls between services: typed, bounded, with a time-out each. The only user of aiohttp's client.

aiohttp rather than httpx: a call costs a quarter of the CPU, and a rollout makes eight of them
(docs/decisions/001-one-http-client.md).
"""

import asyncio
import contextlib
import io
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

import aiohttp
from pydantic import ValidationError

from gym_core.errors import FailureKind, TransportError
from gym_core.http.problem import error_of
from gym_core.types.wire import Wire

ReplyT = TypeVar("ReplyT", bound=Wire)

DEFAULT_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 5.0
_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""Nothing was sent: safe to try again."""
RECONNECT_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Waits between tries when the connection is refused: a service that is being restarted comes back within them."""
MAX_REPLY_BYTES = 512 << 20
_WHOLE_BODY_BYTES = 1 << 20
"""A longer body is sent piece by piece, so that sending it does not hold the event loop."""


@dataclass(frozen=True)
class HttpReply:
    status: int
    body: bytes


class HttpPool:
    """One connection pool of a process. Open it inside the event loop; whoever opens it closes it."""

    def __init__(self, connections_per_host: int = 1024) -> None:
        self._limit = connections_per_host
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=self._limit, keepalive_timeout=30)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
                auto_decompress=False,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=1 << 20,
                headers={"Accept-Encoding": "identity"},  # replies are read as they come
            )
        return self._session

    def service(self, url: str, token: str) -> "ServiceClient":
        return ServiceClient(self, url, token)

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class ServiceClient:
    """One service as another one calls it. Errors come back as the class they left as.

    A refused connection is tried again for a few seconds, since nothing can have happened; nothing else is.
    """

    def __init__(self, pool: HttpPool, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._pool = pool
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    async def call(
        self,
        method: str,
        route: str,
        body: Wire | None,
        reply: type[ReplyT],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> ReplyT:
        """Send one `Wire`, get one back. Raises what the service raised, or TransportError."""
        raw = await self.call_raw(method, route, body.model_dump_json().encode() if body else b"", timeout_s=timeout_s)
        try:
            return reply.model_validate_json(raw)
        except ValidationError as error:
            raise TransportError(f"{method} {self.url}{route}: not a {reply.__name__}: {error}") from error

    async def call_raw(
        self,
        method: str,
        route: str,
        body: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> bytes:
        """As `call`, for bodies somebody else parses."""
        answer = await self.send(method, route, body=body, headers=headers, timeout_s=timeout_s)
        if answer.status >= 400:
            raise error_of(answer.status, answer.body, f"{method} {self.url}{route}")
        return answer.body

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> HttpReply:
        """The bare exchange: any status is a reply. Raises TransportError."""
        request = _Request(method, path, body, query, headers)
        async with self._exchange(request, timeout_s=timeout_s) as response:
            content = await response.read()
        if len(content) > MAX_REPLY_BYTES:
            raise TransportError(f"{method} {self.url}{path}: reply of {len(content)} bytes")
        return HttpReply(response.status, content)

    async def stream(
        self, method: str, path: str, *, body: bytes = b"", timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> AsyncGenerator[bytes, None]:
        """Lines of a streamed reply, without their ends, as they come. Raises like `call`."""
        async with self._exchange(_Request(method, path, body), timeout_s=timeout_s) as response:
            if response.status >= 400:
                raise error_of(response.status, await response.read(), f"{method} {self.url}{path}")
            pending = bytearray()
            async for chunk in response.content.iter_any():
                pending += chunk
                if b"\n" not in chunk:  # a line may be megabytes long
                    continue
                *lines, rest = pending.split(b"\n")
                pending = bytearray(rest)
                for line in lines:
                    yield bytes(line)
            if pending:
                yield bytes(pending)

    @contextlib.asynccontextmanager
    async def _exchange(self, request: "_Request", *, timeout_s: float) -> AsyncIterator[aiohttp.ClientResponse]:
        where = f"{request.method} {self.url}{request.path}"
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._connect(request)
                async with response:
                    yield response
        except _NOT_CONNECTED as error:  # before TimeoutError, which one of them also is
            raise TransportError(f"{where}: {error}", kind=FailureKind.TRANSPORT_UNREACHABLE) from error
        except TimeoutError as error:
            reason = f"{where}: no answer within {timeout_s:g} s"
            raise TransportError(reason, kind=FailureKind.TRANSPORT_TIMEOUT) from error
        except (aiohttp.ClientError, ConnectionError) as error:
            reason = f"{where}: {type(error).__name__}: {error}"
            raise TransportError(reason, kind=FailureKind.TRANSPORT_PEER_DROP) from error

    async def _connect(self, request: "_Request") -> aiohttp.ClientResponse:
        headers = {**self._headers, **request.headers} if request.headers else self._headers
        for pause_s in (*RECONNECT_PAUSES_S, None):
            try:
                return await self._pool.session.request(
                    request.method, self.url + request.path, params=request.query, data=_payload(request.body),
                    headers=headers,
                )  # fmt: skip
            except _NOT_CONNECTED:
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    body: bytes = b""
    query: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    return io.BytesIO(body) if len(body) > _WHOLE_BODY_BYTES else body or None
