"""Bare ASGI, as the proxy needs it: a bounded body, a whole reply, and work that ends when its client goes."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TypeVar

from starlette.types import Receive, Scope, Send

from gym_core.http.departure import caller_gone
from gym_core.http.whole_body import whole_body
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
    read_whole = whole_body(scope)
    if read_whole:
        whole = await read_whole()
        if whole is None:
            raise ClientLeft
        return whole
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
    waiting = asyncio.current_task()
    if waiting is None:
        raise RuntimeError("not in a task")
    n_cancelled = waiting.cancelling()
    working = asyncio.create_task(work)
    has_left = False

    def leave(leaving: asyncio.Task[None]) -> None:
        nonlocal has_left
        if not leaving.cancelled():
            has_left = not working.done()
            working.cancel()
            leaving.exception()  # looked at, so that nobody complains of it

    leaving = asyncio.create_task(caller_gone(receive))
    leaving.add_done_callback(leave)
    try:
        # Itself, rather than the first of both: each task or future in between is one more turn of the event loop.
        with suppress(Exception, asyncio.CancelledError):
            await working
    finally:
        leaving.cancel()
    if waiting.cancelling() > n_cancelled:
        raise asyncio.CancelledError
    if has_left:
        raise ClientLeft
    if working.cancelled():
        raise Refusal(401, "session_closed", "this session was closed")
    return working.result()


async def send_start(send: Send, status: int, headers: Headers) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def send_whole(send: Send, status: int, headers: Headers, content: bytes) -> None:
    length = (b"content-length", str(len(content)).encode())
    await send_start(send, status, [*headers, length])
    await send({"type": "http.response.body", "body": content})


async def send_refusal(send: Send, refusal: Refusal) -> None:
    extra = [(b"retry-after", refusal.retry_after.encode())] if refusal.retry_after else []
    await send_whole(send, refusal.status, JSON_HEADERS + extra, refusal.body())
