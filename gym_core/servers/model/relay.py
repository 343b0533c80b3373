"""Calls without a session, from a judge or a trainer: the endpoint's bytes as they come, and nothing kept.

The same fields and images pass as in a session. An error that comes as a 200 is held until it is whole, and passes with
our secrets masked. A fault is retried only while the client has seen nothing; in the end the client is told the
endpoint's own status.
"""

import re

from starlette.types import Send

from gym_core.errors import FailureKind
from gym_core.http.upstream import UpstreamError, UpstreamReply, UpstreamTrouble
from gym_core.servers.model.answer import Answer
from gym_core.servers.model.answer_form import BrokenAnswer
from gym_core.servers.model.asgi import send_start
from gym_core.servers.model.config import EndpointSettings
from gym_core.servers.model.endpoint import MAX_ANSWER_BYTES, EndpointFault, EndpointPool, Progress
from gym_core.servers.model.messages import only_hash, read_message
from gym_core.servers.model.refusal import Refusal
from gym_core.servers.model.request import Envelope, Shape, parse, shape

_ASKED_FIELDS = ("stream", "n", "logprobs", "top_logprobs", "return_token_ids")
"""Ours in a session, the client's own here."""
_ERROR = re.compile(rb'"error"\s*:\s*[^\sn]')
"""An `error` that is not null. Generated text cannot look like it: its quotes are escaped."""


class BrokenRelay(Exception):
    """The endpoint broke off after the client saw its first byte."""


class Relay:
    def __init__(self, pool: EndpointPool, shape_: Shape) -> None:
        self._pool = pool
        self._shape = shape_

    async def stream(self, body: bytes, send: Send) -> None:
        """Send the whole response. Raises Refusal before it has begun, BrokenRelay after."""
        envelope = _read(body)
        ours: dict[str, object] = {
            name: getattr(envelope, name) for name in _ASKED_FIELDS if getattr(envelope, name) is not None
        }
        if envelope.stream_options:
            ours["stream_options"] = {"include_usage": envelope.wants_usage}
        shaped = shape(envelope, envelope.messages, self._shape, ours)
        passing = _Passing(send, self._pool.settings)
        try:
            await self._pool.ask(shaped, passing.on, affinity=hash(body[:4096]) & 0xFFFF, progress=Progress())
        except EndpointFault as fault:
            raise _told(fault) from fault
        await send({"type": "http.response.body", "body": b""})

    async def complete(self, body: bytes) -> Answer:
        """A whole answer, for a dialect that is not streamed. Raises Refusal."""
        envelope = _read(body)
        shaped = shape(envelope, envelope.messages, self._shape, {})
        try:
            return await self._pool.complete(shaped, affinity=hash(body[:4096]) & 0xFFFF, progress=Progress())
        except EndpointFault as fault:
            raise _told(fault) from fault


class _Passing:
    """One answer on its way through."""

    def __init__(self, send: Send, settings: EndpointSettings) -> None:
        self._send = send
        self._settings = settings
        self._has_begun = False

    async def on(self, reply: UpstreamReply) -> None:
        held = bytearray()
        try:
            async for piece in reply.pieces():
                if not held and not self._is_error(piece, reply):
                    await self._pass(piece, reply)
                    continue
                held += piece
                if len(held) > MAX_ANSWER_BYTES:
                    raise UpstreamError(UpstreamTrouble.MALFORMED, f"an error of more than {MAX_ANSWER_BYTES} bytes")
        except UpstreamError as error:
            if self._has_begun:
                await self._pass_masked(held, reply)
                raise BrokenRelay(self._settings.masked(str(error))) from error
            raise
        await self._pass_masked(held, reply)
        if not self._has_begun:
            raise BrokenAnswer("an empty answer")

    def _is_error(self, piece: bytes, reply: UpstreamReply) -> bool:
        """Whether an error begins in this piece, or an answer begins that is no completion."""
        if not self._has_begun and not reply.content_type.startswith("text/event-stream") and b'"choices"' not in piece:
            return True
        return b'"error"' in piece and _ERROR.search(piece) is not None

    async def _pass_masked(self, held: bytearray, reply: UpstreamReply) -> None:
        if held:
            shown = self._settings.masked(held.decode("utf-8", "surrogateescape"))
            await self._pass(shown.encode("utf-8", "surrogateescape"), reply)

    async def _pass(self, piece: bytes, reply: UpstreamReply) -> None:
        if not self._has_begun:
            self._has_begun = True
            await send_start(self._send, 200, [(b"content-type", reply.content_type.encode("latin-1"))])
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})


def _read(body: bytes) -> Envelope:
    envelope, _ = parse(body)
    for raw in envelope.messages:
        read_message(bytes(raw), {}, only_hash)
    return envelope


def _told(fault: EndpointFault) -> Refusal:
    return Refusal(fault.status or 502, FailureKind.MODEL_UNAVAILABLE, str(fault), retry_after=fault.retry_after)
