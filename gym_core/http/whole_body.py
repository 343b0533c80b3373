"""uvicorn's protocol, but for large request bodies: they go from the socket into the memory in which an app gets them.

uvicorn's own way copies each byte of a body four times (out of the read buffer, out of the parser, into the request's
buffer, out of it) and the app a fifth time: with 3 MB that is most of what a server spends on it. Here an app may ask
for the whole body through an ASGI extension, and the system writes into it. No body is read before it is asked for,
and an app that knows nothing of the extension gets pieces as ever.
"""

import asyncio
import functools
import io
from collections.abc import Awaitable, Callable

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

ReadWhole = Callable[[], Awaitable[bytes | None]]
_EXTENSION = "gym.whole_body"
_MIN_BYTES = 128 << 10
"""A smaller body comes with one or two reads."""


def whole_body(scope: Scope) -> ReadWhole | None:
    """To be called once and instead of `receive`: gives the body, or None when its client has gone. It takes memory as
    `content-length` says, so that is to be looked at before. None where the server offers no such thing."""
    offered: dict[str, ReadWhole] = scope.get("extensions", {}).get(_EXTENSION, {})
    return offered.get("read")


class WholeBodyProtocol(HttpToolsProtocol):
    """For `uvicorn.Config(http=...)`."""

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        n_bytes = _length(self.headers)
        if n_bytes >= _MIN_BYTES and self.cycle.scope is self.scope and self.scheme == "http":
            read = functools.partial(self._read_whole, self.cycle, n_bytes)
            self.scope["extensions"] = {_EXTENSION: {"read": read}}

    async def _read_whole(self, cycle: RequestResponseCycle, n_bytes: int) -> bytes | None:
        if cycle.disconnected or self.transport.is_closing():
            return None
        if not cycle.more_body:
            content: bytes | None = bytes(cycle.body)
        else:
            filling = _Filling(self, cycle, n_bytes)
            self._read_with(filling)
            content = filling.content() if await filling.is_whole else None
        cycle.body.clear()
        cycle.message_event.clear()  # what sets it next is the client's leaving
        return content

    def go_on(self, cycle: RequestResponseCycle) -> None:
        """The body is whole: what comes next is another request."""
        cycle.more_body = False
        self.parser = httptools.HttpRequestParser(self)  # the last one still waits for the body
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn sets it
        self._read_with(self)

    def _read_with(self, protocol: asyncio.BaseProtocol) -> None:
        # A transport asks its protocol how to read when it begins to.
        self.flow.pause_reading()
        self.transport.set_protocol(protocol)
        self.flow.resume_reading()


class _Filling(asyncio.BufferedProtocol):
    """Has a connection until one body is whole."""

    def __init__(self, http: WholeBodyProtocol, cycle: RequestResponseCycle, n_bytes: int) -> None:
        self.is_whole: asyncio.Future[bool] = http.loop.create_future()
        """False when the client has gone."""
        self._http = http
        self._cycle = cycle
        self._file = io.BytesIO(bytes(n_bytes))
        come = len(cycle.body)
        self._left = self._file.getbuffer()
        self._left[:come] = cycle.body
        self._left = self._left[come:]

    def get_buffer(self, _: int) -> memoryview:
        return self._left

    def buffer_updated(self, n_bytes: int) -> None:
        self._left = self._left[n_bytes:]
        if not self._left:
            self._http.go_on(self._cycle)
            self._end(is_whole=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._http.connection_lost(exc)
        self._end(is_whole=False)

    def pause_writing(self) -> None:
        self._http.pause_writing()

    def resume_writing(self) -> None:
        self._http.resume_writing()

    def content(self) -> bytes:
        """Uncopied, because nobody looks at the memory any more: a transport does, during its last word to us."""
        self._left.release()
        return self._file.getvalue()

    def _end(self, *, is_whole: bool) -> None:
        if not self.is_whole.done():  # whoever waited may have been cancelled
            self.is_whole.set_result(is_whole)


def _length(headers: list[tuple[bytes, bytes]]) -> int:
    """By `content-length`; 0 when that does not tell, or when the client waits to be told to go on."""
    found = 0
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            found = int(value)
        elif name in (b"transfer-encoding", b"expect"):
            return 0
    return found
