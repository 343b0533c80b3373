"""Replies of many lines, one JSON object each, as they come, at the reader's pace."""

import asyncio
from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gym_core.http.departure import caller_gone

NDJSON = "application/x-ndjson"
STALLED_AFTER_S = 2 * 3600.0
"""A caller that takes nothing for so long is taken for gone."""


class LineSource(Protocol):
    async def next_line(self) -> bytes | None:
        """The next line with its end, or None after the last one."""

    async def aclose(self) -> None:
        """Called once, however the reply ended; ends what makes the lines. Survives cancellation."""


class NdjsonReply(Response):
    """Plain ASGI, to hear that the caller has gone while there is nothing to say."""

    def __init__(self, lines: LineSource) -> None:
        super().__init__(media_type=NDJSON, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(caller_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await self._lines.aclose()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while (line := await self._lines.next_line()) is not None:
            # Waits while the caller does not read: that is what holds the source back.
            async with asyncio.timeout(STALLED_AFTER_S):
                await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
