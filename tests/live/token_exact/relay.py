"""A fake between proxy and engine: it keeps a log of all that the engine said, and breaks some answers on purpose.

Which answers: every n-th, with one fault after the other, and none of a request that met one before. So each broken
answer is followed by a good one, however many sessions run at a time.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Self

import aiohttp
from aiohttp import web

from gym_core.types.wire import JsonObject
from tests.live.token_exact.engine_log import Fault, Seen
from tests.live.token_exact.policy import SCENARIO, STALLED

CHAT, RENDER, GENERATE = "/v1/chat/completions", "/v1/chat/completions/render", "/inference/v1/generate"
FAULTS = (
    Fault.BROKEN_STREAM, Fault.SERVER_ERROR, Fault.LOST_IDS, Fault.CLEAN_HALF, Fault.BROKEN_STREAM, Fault.SERVER_ERROR,
    Fault.CLEAN_HALF, Fault.BROKEN_STREAM,
)  # fmt: skip
"""Lost ids are the rarest: they mask the whole branch."""
EVENTS_BEFORE_FAULT = 3
STALL_S = 60.0
MAX_BODY_BYTES = 256 << 20

Steering = Callable[[JsonObject], JsonObject]
"""Changes a chat request, or a render of one, on its way to the engine."""


class FakeFaultRelay:
    """`async with FakeFaultRelay(fault_every=5) as relay:`; then `engine_url` is set. URLs are without /v1."""

    def __init__(self, *, fault_every: int = 0, steering: Steering | None = None) -> None:
        self.log: list[Seen] = []
        """Requests that ask for tokens, of sessions alone: a run's own look at the endpoint is left out."""
        self.url = ""
        self.engine_url = ""
        self._fault_every = fault_every
        self._steering = steering
        self._faults = itertools.cycle(FAULTS)
        self._asked: set[str] = set()

    async def __aenter__(self) -> Self:
        self._client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600))
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._client.close()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        if not self._is_of_session(request.path, raw):
            async with self._ask(request, raw) as reply:
                return _copy(reply, await reply.read())
        seen = Seen.of_request(request.path, raw, self._next_fault(raw))
        self.log.append(seen)
        if seen.fault is Fault.SERVER_ERROR:
            return web.json_response({"error": {"message": "made to fail", "code": 500}}, status=500)
        async with self._ask(request, raw) as reply:
            if reply.headers.get("Content-Type", "").startswith("text/event-stream"):
                return await self._stream(request, reply, seen)
            content = await reply.read()
            if reply.status == 200:
                seen.hear(json.loads(content))
                seen.is_whole = True
            return _copy(reply, content)

    def _is_of_session(self, path: str, raw: bytes) -> bool:
        """Whether it asks for tokens of a session. One that sends ids goes on from an earlier one that sent messages:
        before the first of those it is the run's own look."""
        return (path == CHAT and SCENARIO.search(raw.decode()) is not None) or (path == GENERATE and bool(self.log))

    def _ask(self, request: web.Request, raw: bytes) -> "aiohttp.client._RequestContextManager":
        if self._steering is not None and request.path in (CHAT, RENDER):
            raw = json.dumps(self._steering(json.loads(raw))).encode()
        headers = {"Content-Type": "application/json"}
        url = self.engine_url + request.path
        return self._client.request(request.method, url, data=raw or None, headers=headers)

    def _next_fault(self, raw: bytes) -> Fault:
        seen = Seen.of_request("", raw, Fault.NONE)
        if STALLED.search(raw.decode()):
            return Fault.STALL
        if not self._fault_every or seen.request_hash in self._asked:
            return Fault.NONE
        self._asked.add(seen.request_hash)
        return next(self._faults) if len(self._asked) % self._fault_every == 0 else Fault.NONE

    async def _stream(self, request: web.Request, reply: aiohttp.ClientResponse, seen: Seen) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        number = 0
        async for event in _events(reply):
            if event != "[DONE]":
                said = json.loads(event)
                seen.hear(said)
                number += bool(said.get("choices"))
                if number == EVENTS_BEFORE_FAULT:
                    match seen.fault:
                        case Fault.BROKEN_STREAM:
                            assert request.transport is not None
                            request.transport.abort()
                            return response
                        case Fault.CLEAN_HALF:
                            return response
                        case Fault.STALL:
                            await asyncio.sleep(STALL_S)
                        case Fault.LOST_IDS:
                            said["choices"][0].pop("token_ids", None)
                            event = json.dumps(said)
            await response.write(f"data: {event}\n\n".encode())
            seen.is_whole = event == "[DONE]"
        return response


async def _events(reply: aiohttp.ClientResponse) -> AsyncIterator[str]:
    held = b""
    async for piece in reply.content.iter_any():
        *lines, held = (held + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip().decode()


def _copy(reply: aiohttp.ClientResponse, content: bytes) -> web.Response:
    return web.Response(body=content, status=reply.status, content_type=reply.content_type)
