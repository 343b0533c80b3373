"""The hot path of a model server: a chat completion as plain ASGI, in five steps: parse, shape, forward, record, reply.

A session's call is answered only when the endpoint's answer is whole: a harness keeps the fragment of a broken stream
in its history. It is told of final failures by a 4xx that it does not try again. Other callers (a judge, a trainer) get
the endpoint's bytes as they come.
"""

import asyncio
import logging
import uuid
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from msgspec import Raw
from starlette.types import Receive, Scope, Send

from gym_core.capture.recorder import CallRecord
from gym_core.errors import FailureKind
from gym_core.http.auth import Principal
from gym_core.http.upstream import UpstreamError, UpstreamReply
from gym_core.servers.model_answer import Answer, as_events, as_object, quotes_list_content
from gym_core.servers.model_clock import Clock
from gym_core.servers.model_endpoint import EndpointFault, EndpointPool, Progress, failure_of
from gym_core.servers.model_messages import ReadMessage, only_hash, read_message
from gym_core.servers.model_refusal import Refusal, model_unavailable
from gym_core.servers.model_request import Envelope, Shape, ShapedBody, parse, shape
from gym_core.servers.model_session import ModelSession, ModelSessions
from gym_core.types.model_call import CallOutcome
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

SUSPECT_SILENCE_S = 60.0
"""A call that was given up after the endpoint was silent this long counts as the endpoint's failure."""
_READ_OFF_LOOP_BYTES = 256 << 10
"""A message larger than this is read in a thread: its image is decoded and written."""
_JSON = [(b"content-type", b"application/json")]
_SSE = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]

ResultT = TypeVar("ResultT")


@dataclass
class Call:
    """One call of a session, from its arrival on."""

    session: ModelSession
    index: int
    envelope: Envelope
    messages: list[ReadMessage]
    images_added: list[str]
    arrived: float
    """Monotonic."""
    sent_at: float
    id: str = field(default_factory=lambda: f"mc_{uuid.uuid4().hex}")
    progress: Progress = field(default_factory=Progress)
    notes: list[str] = field(default_factory=list)
    sending: list[Raw] = field(default_factory=list)


class ClientLeft(Exception):
    pass


class BrokenRelay(Exception):
    """The endpoint broke off after the client saw its first byte."""


class ChatProxy:
    """ASGI app of `/v1/chat/completions`; expects the caller in `scope["state"]["principal"]`."""

    def __init__(
        self,
        pool: EndpointPool,
        sessions: ModelSessions,
        shape_: Shape,
        *,
        alias: str,
        max_body_bytes: int,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._sessions = sessions
        self._shape = shape_
        self._alias = alias
        self._max_body_bytes = max_body_bytes
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller: Principal = scope["state"]["principal"]
        try:
            if caller.session_id is None:
                body = await self._read_body(scope, receive)
                await until_client_leaves(receive, self.relay(body, send))
                return
            session = self._sessions.find(caller.session_id)
            with session.admitted():
                body = await self._read_body(scope, receive)
                headers, content = await until_client_leaves(receive, self.answer(session, body))
            await _send_whole(send, 200, headers, content)
        except Refusal as refusal:
            extra = [(b"retry-after", refusal.retry_after.encode())] if refusal.retry_after else []
            await _send_whole(send, refusal.status, _JSON + extra, refusal.body())
        except BrokenRelay as error:
            # The response stays unterminated, so that the client sees a broken stream and not a short answer.
            log.warning("endpoint broke off a relayed answer", extra={"error": str(error)[:200]})
        except ClientLeft:
            log.info("client went away")

    async def answer(self, session: ModelSession, body: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Headers and content of the reply to a session's call. Raises Refusal."""
        call, answer = await self.complete(session, body)
        return self.reply(call, answer)

    async def complete(self, session: ModelSession, body: bytes) -> tuple[Call, Answer]:
        """The first four steps of an admitted call. Raises Refusal; whatever happens is in the session's capture."""
        session.count_bytes(len(body))
        with session.ended_by_close():
            call = await self.parse(session, body)
            shaped = self.shape(call)
            self._intend(call, shaped)
            try:
                answer = await self.forward(call, shaped)
            except asyncio.CancelledError:
                self._record_abandoned(call)
                raise
            except (Refusal, EndpointFault) as failure:
                raise self._record_failure(call, failure) from failure
            except Exception as bug:
                log.exception("unexpected error in a model call")
                self._record_failure(call, EndpointFault(f"proxy: {type(bug).__name__}"))
                raise model_unavailable("the model server failed; its log has the traceback") from bug
            return call, self.record(call, answer)

    async def parse(self, session: ModelSession, body: bytes) -> Call:
        arrived = self._clock.monotonic()
        try:
            envelope, dropped = parse(body)
            if dropped:
                session.note(f"dropped_field:{dropped}")
            if session.has_used_tools and not envelope.has_tools:
                raise Refusal(400, "tools_missing", "this session's calls declare tools; one without is refused")
            messages = [await self._read(session, raw) for raw in envelope.messages]
        except Refusal as refusal:
            session.note(f"refused:{refusal.code}")
            raise
        session.has_used_tools = envelope.has_tools
        images = dict.fromkeys(image for message in messages for image in message.images)
        added = [image for image in images if image not in session.images]
        session.images |= dict.fromkeys(added)
        index, session.calls = session.calls, session.calls + 1
        call = Call(session, index, envelope, messages, added, arrived, self._clock.time())
        call.sending = [
            raw if message.rewritten is None else Raw(message.rewritten)
            for raw, message in zip(envelope.messages, messages, strict=True)
        ]
        return call

    async def _read(self, session: ModelSession, raw: Raw) -> ReadMessage:
        content = bytes(raw)
        known = session.memory.recall(content)
        if known is not None:
            return known
        if len(content) > _READ_OFF_LOOP_BYTES:
            return await asyncio.to_thread(session.memory.read, content)
        return session.memory.read(content)

    def shape(self, call: Call) -> ShapedBody:
        settings = self._pool.settings
        ours: JsonObject = dict(settings.wanted)
        if settings.streams:
            ours |= {"stream": True, "stream_options": {"include_usage": True}}
        return shape(call.envelope, call.sending, self._shape.for_session(call.session.sampling), ours)

    async def forward(self, call: Call, body: ShapedBody) -> Answer:
        session = call.session
        return await self._pool.complete(
            body, affinity=session.affinity, progress=call.progress, memory=session.prompts
        )

    def record(self, call: Call, answer: Answer) -> Answer:
        """The answer as the harness gets it, after it was kept."""
        session = call.session
        answer = session.issue(answer)
        call.notes += [*answer.notes, *call.progress.notes]
        if any(message.rewritten for message in call.messages):
            call.notes.append("tool_call_restored")
        said = (answer.content + answer.reasoning).encode("utf-8", "surrogatepass")
        if quotes_list_content(said) and not any(quotes_list_content(message.kept) for message in call.messages):
            call.notes.append("template_leak")
        session.count_answer(answer, seconds=self._clock.monotonic() - call.arrived)
        self._keep(call, CallOutcome.ANSWERED, answer=answer)
        return answer

    def reply(self, call: Call, answer: Answer) -> tuple[list[tuple[bytes, bytes]], bytes]:
        created = int(call.sent_at)
        if call.envelope.stream:
            return _SSE, as_events(answer, self._alias, created, wants_usage=call.envelope.wants_usage)
        return _JSON, msgspec.json.encode(as_object(answer, self._alias, created))

    async def relay(self, body: bytes, send: Send) -> None:
        """A call without a session: nothing kept, retried only while the client has seen nothing."""
        envelope, _ = parse(body)
        for raw in envelope.messages:
            read_message(bytes(raw), {}, only_hash)
        asked = ("stream", "n", "logprobs", "top_logprobs", "return_token_ids")
        ours: dict[str, object] = {
            name: getattr(envelope, name) for name in asked if getattr(envelope, name) is not None
        }
        if envelope.stream_options:
            ours["stream_options"] = {"include_usage": envelope.wants_usage}
        shaped = shape(envelope, envelope.messages, self._shape, ours)
        has_begun = False

        async def pass_on(reply: UpstreamReply) -> None:
            nonlocal has_begun
            async for piece in reply.pieces():
                if not has_begun:
                    has_begun = True
                    await _send_start(send, 200, [(b"content-type", reply.content_type.encode("latin-1"))])
                await send({"type": "http.response.body", "body": piece, "more_body": True})

        async def pass_on_once(reply: UpstreamReply) -> None:
            try:
                await pass_on(reply)
            except UpstreamError as error:
                if has_begun:
                    raise BrokenRelay(str(error)) from error
                raise

        try:
            await self._pool.ask(shaped, pass_on_once, affinity=hash(body[:4096]) & 0xFFFF, progress=Progress())
        except EndpointFault as fault:
            raise Refusal(
                fault.status or 502, FailureKind.MODEL_UNAVAILABLE, str(fault), retry_after=fault.retry_after
            ) from fault
        await send({"type": "http.response.body", "body": b""})

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        limit = self._max_body_bytes
        too_large = Refusal(413, "body_too_large", f"the body is larger than {limit} bytes")
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > limit:
                raise too_large
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            piece = message.get("body", b"")
            size += len(piece)
            if size > limit:
                raise too_large
            pieces.append(piece)
            if not message.get("more_body"):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _intend(self, call: Call, body: ShapedBody) -> None:
        call.progress.sent = body
        call.session.intend(
            {"call_id": call.id, "session_id": call.session.id, "index": call.index, "sent_at": call.sent_at}
        )

    def _record_failure(self, call: Call, failure: Refusal | EndpointFault) -> Refusal:
        """What the harness is told."""
        session, kind = call.session, failure_of(failure)
        if kind is None:
            # The endpoint called the request bad. After it took an earlier one of this session, only what the model
            # added can be to blame; before that, it is how we ask.
            kind = FailureKind.AGENT_RUN_ERROR if session.answered else FailureKind.MODEL_UNAVAILABLE
        session.count_failure(kind, str(failure))
        self._keep(call, CallOutcome.FAILED, failure=(kind, str(failure)))
        if isinstance(failure, Refusal):
            return failure
        how = f"HTTP {failure.status}" if failure.status else "no whole answer"
        return model_unavailable(f"the model endpoint failed ({how}, {call.progress.attempts} attempts)")

    def _record_abandoned(self, call: Call) -> None:
        progress, silent_s = call.progress, 0.0
        if progress.last_byte_at is not None:
            silent_s = self._clock.monotonic() - progress.last_byte_at
        message = "the client went away"
        if progress.faults or silent_s > SUSPECT_SILENCE_S:
            message = f"given up while the endpoint failed: {progress.last_fault or f'silent for {silent_s:.0f} s'}"
            call.session.count_failure(FailureKind.MODEL_UNAVAILABLE, message)
        call.session.note("call_abandoned")
        self._keep(call, CallOutcome.ABANDONED, failure=(None, message))

    def _keep(
        self,
        call: Call,
        outcome: CallOutcome,
        *,
        answer: Answer | None = None,
        failure: tuple[FailureKind | None, str] | None = None,
    ) -> None:
        progress = call.progress
        for note in call.notes:
            call.session.note(note)
        facts: JsonObject = {
            "call_id": call.id,
            "session_id": call.session.id,
            "index": call.index,
            "sent_at": call.sent_at,
            "outcome": outcome,
            "sampling": progress.sent.sampling if progress.sent else {},
            "images": [image for message in call.messages for image in message.images],
            "images_added": call.images_added,
            "answer": answer.for_record().model_dump() if answer else None,
            "failure_kind": failure[0] if failure else None,
            "failure_message": failure[1][:2000] if failure else None,
            "endpoint_status": progress.status,
            "attempts": progress.attempts,
            "timings": {
                "queued_s": progress.queued_s,
                "first_byte_s": progress.first_byte_s,
                "total_s": self._clock.monotonic() - call.arrived,
            },
            "notes": call.notes,
        }
        tools = bytes(call.envelope.tools) if call.envelope.has_tools else b""
        messages = [message.kept for message in call.messages]
        call.session.keep(CallRecord(facts, messages, tools, answer.tokens if answer else None))


async def until_client_leaves(receive: Receive, work: Coroutine[object, object, ResultT]) -> ResultT:
    """The work's result; the work is cancelled when the client goes. Raises ClientLeft, and what the work raises."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_disconnect(receive))
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


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_start(send: Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _send_whole(send: Send, status: int, headers: list[tuple[bytes, bytes]], content: bytes) -> None:
    length = (b"content-length", str(len(content)).encode())
    await _send_start(send, status, [*headers, length])
    await send({"type": "http.response.body", "body": content})
