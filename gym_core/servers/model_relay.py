"""Calls without a session, from a judge or a trainer: the endpoint's bytes as they come, and nothing kept.

The same fields and images pass as in a session. A fault is retried only while the client has seen nothing; in the end
the client is told the endpoint's own status.
"""

from starlette.types import Send

from gym_core.errors import FailureKind
from gym_core.http.upstream import UpstreamError, UpstreamReply
from gym_core.servers.model_answer import Answer, BrokenAnswer
from gym_core.servers.model_asgi import send_start
from gym_core.servers.model_endpoint import EndpointFault, EndpointPool, Progress
from gym_core.servers.model_messages import only_hash, read_message
from gym_core.servers.model_refusal import Refusal
from gym_core.servers.model_request import Envelope, Shape, parse, shape

_ASKED_FIELDS = ("stream", "n", "logprobs", "top_logprobs", "return_token_ids")
"""Ours in a session, the client's own here."""


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
        passing = _Passing(send)
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

    def __init__(self, send: Send) -> None:
        self._send = send
        self._has_begun = False

    async def on(self, reply: UpstreamReply) -> None:
        try:
            async for piece in reply.pieces():
                if not self._has_begun:
                    self._has_begun = True
                    await send_start(self._send, 200, [(b"content-type", reply.content_type.encode("latin-1"))])
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        except UpstreamError as error:
            if self._has_begun:
                raise BrokenRelay(str(error)) from error
            raise
        if not self._has_begun:
            raise BrokenAnswer("an empty answer")


def _read(body: bytes) -> Envelope:
    envelope, _ = parse(body)
    for raw in envelope.messages:
        read_message(bytes(raw), {}, only_hash)
    return envelope


def _told(fault: EndpointFault) -> Refusal:
    return Refusal(fault.status or 502, FailureKind.MODEL_UNAVAILABLE, str(fault), retry_after=fault.retry_after)
