"""Bare ASGI, as the proxy needs it: a bounded body, a whole reply, and work that ends when its client goes."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TypeVar

from starlette.types import Receive, Scope, Send

from gym_core.http.departure import caller_gone
from gym_core.servers.model.refusal import Refusal

JSON_HEADERS = [(b"content-type", b"application/json")]
SSE_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
Headers = list[tuple[bytes, bytes]]

ResultT = TypeVar("ResultT")


class ClientLeft(Exception):
    pass


async def read_body(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    """Raises Refusal for one that is too large, ClientLeft."""
    too_large = Refusal(413, "body_too_large", f"the body is larger than {max_bytes} bytes")
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > max_bytes:
            raise too_large
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        piece = message.get("body", b"")
        size += len(piece)
        if size > max_bytes:
            raise too_large
        pieces.append(piece)
        if not message.get("more_body"):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def until_client_leaves(receive: Receive, work: Coroutine[object, object, ResultT]) -> ResultT:
    """The work's result; the work is cancelled when the client goes. Raises ClientLeft, and what the work raises."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(caller_gone(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeft
        if working.cancelled():
            raise Refusal(401, "session_closed", "this session was closed")
        return working.result()
    finally:
        for task in (working, leaving):
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task


async def send_start(send: Send, status: int, headers: Headers) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def send_whole(send: Send, status: int, headers: Headers, content: bytes) -> None:
    length = (b"content-length", str(len(content)).encode())
    await send_start(send, status, [*headers, length])
    await send({"type": "http.response.body", "body": content})


async def send_refusal(send: Send, refusal: Refusal) -> None:
    extra = [(b"retry-after", refusal.retry_after.encode())] if refusal.retry_after else []
    await send_whole(send, refusal.status, JSON_HEADERS + extra, refusal.body())
