"""The hot path of a model server: a chat completion as plain ASGI, in five steps: parse, shape, forward, record, reply.

A session's call is answered only when the endpoint's answer is whole: a harness keeps the fragment of a broken stream
in its history. It is told of final failures by a 4xx that it does not try again. Other callers (a judge, a trainer) get
the endpoint's bytes as they come.

Own CPU a call, capture on, on two cores that others keep busy: 0.8 ms with a small body, 1.5 ms with 0.41 MB, 4 ms with
3.3 MB, 12 ms with 20 MB; a relay of the same libraries that looks at nothing takes 0.2, 0.6, 3.2 and 16. `python -m
tests.bench proxy` measures both. A body is in memory once (`whole_body`), long messages are sent from there, and
pictures that came before are compared (`long_strings`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from msgspec import Raw
from starlette.types import Receive, Scope, Send

from gym_core.errors import EpisodeError, FailureKind
from gym_core.http.auth import Principal
from gym_core.http.problem import response_of
from gym_core.servers.model.answer import Answer, as_events, as_object, quotes_list_content
from gym_core.servers.model.asgi import (
    JSON_HEADERS,
    SSE_HEADERS,
    ClientLeft,
    Headers,
    read_body,
    send_refusal,
    send_whole,
    until_client_leaves,
)
from gym_core.servers.model.call import Call, Failed
from gym_core.servers.model.clock import Clock
from gym_core.servers.model.endpoint import EndpointFault, EndpointPool, failure_of
from gym_core.servers.model.exact_prefix import ExactPrefix
from gym_core.servers.model.long_strings import Cut
from gym_core.servers.model.messages import ReadMessage
from gym_core.servers.model.refusal import FIRST_TOO_LARGE, Refusal, model_unavailable
from gym_core.servers.model.relay import BrokenRelay, Relay
from gym_core.servers.model.request import Envelope, Shape, ShapedBody, parse, shape
from gym_core.servers.model.session import ModelSession
from gym_core.servers.model.session_table import ModelSessions
from gym_core.types.model_call import CallOutcome
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

SUSPECT_SILENCE_S = 60.0
"""A call that was given up after the endpoint was silent this long counts as the endpoint's failure. So does one that
waited this long for a slot of ours, and longer than for its answer: the model had no chance to be slow."""
_READ_OFF_LOOP_BYTES = 1 << 20
"""A message larger than this is read in a thread: its image is decoded and written."""


Forward = Callable[[Call, ShapedBody], Awaitable[Answer]]
"""A whole answer to a session's call. Raises Refusal, or EndpointFault once it is final."""


class ChatProxy:
    """ASGI app of `/v1/chat/completions`; expects the caller in `scope["state"]["principal"]`."""

    def __init__(
        self,
        pool: EndpointPool,
        sessions: ModelSessions,
        relay: Relay,
        shape_: Shape,
        *,
        alias: str,
        pins_system_prompt: bool,
        max_body_bytes: int,
        clock: Clock,
        forward: Forward | None = None,
    ) -> None:
        """`forward` answers sessions' calls in place of the pool."""
        self._pool = pool
        self._relay = relay
        self._sessions = sessions
        self._shape = shape_
        self._alias = alias
        self._pins_system_prompt = pins_system_prompt
        self._max_body_bytes = max_body_bytes
        self._clock = clock
        self._forward = forward
        mode = pool.settings.exact_prefix
        self._exact_prefix = ExactPrefix(pool, mode) if mode else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller: Principal = scope["state"]["principal"]
        try:
            if caller.session_id is None:
                body = await read_body(scope, receive, self._max_body_bytes)
                await until_client_leaves(receive, self._relay.stream(body, send))
                return
            session = self._sessions.find(caller.session_id)
            with session.admitted():
                with session.refusals_noted():
                    body = await read_body(scope, receive, self._max_body_bytes)
                headers, content = await until_client_leaves(receive, self.answer(session, body))
            await send_whole(send, 200, headers, content)
        except Refusal as refusal:
            await send_refusal(send, refusal)
        except BrokenRelay as error:
            # The response stays unterminated, so that the client sees a broken stream and not a short answer.
            log.warning("endpoint broke off a relayed answer", extra={"error": str(error)[:200]})
        except ClientLeft:
            log.info("client went away")
        except EpisodeError as error:
            await response_of(error)(scope, receive, send)
        except Exception:  # a 500 would be asked again for ever by a harness
            log.exception("unexpected error in a model call")
            await send_refusal(send, model_unavailable("the model server failed; its log has the traceback"))

    async def answer(self, session: ModelSession, body: bytes) -> tuple[Headers, bytes]:
        """Headers and content of the reply to a session's call. Raises Refusal."""
        session.count_bytes(len(body))
        call, answer = await self.complete(session, body)
        return self.reply(call, answer)

    async def complete(self, session: ModelSession, body: bytes) -> tuple[Call, Answer]:
        """The first four steps of an admitted call. Raises Refusal; whatever happens is in the session's capture."""
        with session.ended_by_close():
            call = await self.parse(session, body)
            call.intend()
            try:
                answer = await self.forward(call, self.shape(call))
                return call, self.record(call, answer)
            except asyncio.CancelledError:
                self._record_abandoned(call)
                raise
            except (Refusal, EndpointFault) as failure:
                raise self._record_failure(call, failure) from failure
            except Exception as bug:
                self._record_failure(call, EndpointFault(f"the model server failed: {type(bug).__name__}"))
                raise

    async def parse(self, session: ModelSession, body: bytes) -> Call:
        arrived = self._clock.monotonic()
        with session.refusals_noted():
            envelope, dropped, cut = _parse(session, body)
            if dropped:
                session.note(f"dropped_field:{dropped}")
            if session.has_used_tools and not envelope.has_tools:
                raise Refusal(400, "tools_missing", "this session's calls declare tools; one without is refused")
            raws = list(envelope.messages)
            messages = [await self._read(session, raw) for raw in raws]
            if cut:
                raws = session.long_strings.places(body, cut, raws)
            pinned = self._pins_system_prompt and session.system_prompts.settled(envelope.tools, raws[0], messages)
            if pinned:
                raws[0] = Raw(pinned)
                messages[0] = await self._read(session, raws[0])
        session.has_used_tools = envelope.has_tools
        images = dict.fromkeys(image for message in messages for image in message.images)
        added = [image for image in images if image not in session.images]
        session.images |= dict.fromkeys(added)
        index, session.calls = session.calls, session.calls + 1
        call = Call(session, index, envelope, messages, added, arrived, self._clock.time())
        call.sending = [
            raw if message.rewritten is None else Raw(message.rewritten)
            for raw, message in zip(raws, messages, strict=True)
        ]
        if pinned:
            call.notes.append("system_prompt_pinned")
        return call

    async def _read(self, session: ModelSession, raw: Raw) -> ReadMessage:
        # A copy to hash it by, gone before the next one: a picture's message is a megabyte, and comes with every call.
        short = bytes(raw)
        known = session.memory.recall(short)
        if known is not None:
            return known
        content = session.long_strings.whole(short)
        if len(content) > _READ_OFF_LOOP_BYTES:
            return await asyncio.to_thread(session.memory.read, content, short)
        return session.memory.read(content, short)

    def shape(self, call: Call) -> ShapedBody:
        settings = self._pool.settings
        ours: JsonObject = dict(settings.wanted)
        if settings.streams:
            ours |= {"stream": True, "stream_options": {"include_usage": True}}
        return shape(call.envelope, call.sending, self._shape.for_session(call.session.sampling), ours)

    async def forward(self, call: Call, body: ShapedBody) -> Answer:
        session = call.session
        if self._forward:
            return await self._forward(call, body)
        if self._exact_prefix:
            return await self._exact_prefix.complete(call, body)
        return await self._pool.complete(
            body, affinity=session.affinity, progress=call.progress, memory=session.prompts
        )

    def record(self, call: Call, answer: Answer) -> Answer:
        """The answer as the harness gets it, after it was kept."""
        session = call.session
        answer = session.issue(answer)
        if self._exact_prefix:
            self._exact_prefix.remember(call, answer)
        call.notes += [*answer.notes, *call.progress.notes]
        if call.is_restored:
            call.notes.append("tool_call_restored")
        said = (answer.content + answer.reasoning).encode("utf-8", "surrogatepass")
        if quotes_list_content(said) and not any(quotes_list_content(message.kept) for message in call.messages):
            call.notes.append("template_leak")
        seconds = self._clock.monotonic() - call.arrived - call.progress.queued_s
        session.count_answer(answer, seconds=seconds)
        call.keep(CallOutcome.ANSWERED, now=self._clock.monotonic(), answer=answer)
        return answer

    def reply(self, call: Call, answer: Answer) -> tuple[Headers, bytes]:
        created = int(call.sent_at)
        if call.envelope.stream:
            return SSE_HEADERS, as_events(answer, self._alias, created, wants_usage=call.envelope.wants_usage)
        return JSON_HEADERS, msgspec.json.encode(as_object(answer, self._alias, created))

    def _record_failure(self, call: Call, failure: Refusal | EndpointFault) -> Refusal:
        """What the harness is told."""
        session, kind, message = call.session, failure_of(failure), str(failure)
        # After the endpoint took an earlier request of this session, only what the model added can be to blame for one
        # that is bad, too large or too long; before that, it is the task, the endpoint, or how we ask.
        if kind is None:
            kind = FailureKind.AGENT_RUN_ERROR if session.answered else FailureKind.MODEL_UNAVAILABLE
        elif kind is FailureKind.CONTEXT_LIMIT and not session.answered:
            kind, message = FailureKind.MODEL_UNAVAILABLE, f"{FIRST_TOO_LARGE} ({message[:500]})"
            failure = model_unavailable(FIRST_TOO_LARGE)
        session.count_failure(kind, message)
        call.keep(CallOutcome.FAILED, now=self._clock.monotonic(), failure=Failed(kind, message))
        if isinstance(failure, Refusal):
            return failure
        how = f"HTTP {failure.status}" if failure.status else "no whole answer"
        why = f": {failure.wrong_form}" if failure.wrong_form else ""
        return model_unavailable(f"the model endpoint failed ({how}, {call.progress.attempts} attempts){why}")

    def _record_abandoned(self, call: Call) -> None:
        blame = self._blame_for_wait(call)
        kind = FailureKind.MODEL_UNAVAILABLE if blame else None
        message = f"given up while {blame}" if blame else "the client went away"
        if blame:
            call.session.count_failure(kind, message)
        call.session.note("call_abandoned")
        call.keep(CallOutcome.ABANDONED, now=self._clock.monotonic(), failure=Failed(kind, message))

    def _blame_for_wait(self, call: Call) -> str | None:
        """What was wrong, and not of the model, with the time that an abandoned call took."""
        progress, now = call.progress, self._clock.monotonic()
        silent_s = now - progress.last_byte_at if progress.last_byte_at is not None else 0.0
        if silent_s > SUSPECT_SILENCE_S or (progress.faults and progress.first_byte_s is None):
            return f"the endpoint failed: {progress.last_fault or f'silent for {silent_s:.0f} s'}"
        if progress.queued_s > max(SUSPECT_SILENCE_S, (now - call.arrived) / 2):
            return (
                f"it waited {progress.queued_s:.0f} s for one of the model server's max_concurrent_requests, "
                f"{progress.held_s:.0f} s of it in a pause of the policy"
            )
        return None


def _parse(session: ModelSession, body: bytes) -> tuple[Envelope, str | None, Cut | None]:
    """The envelope, the first field that was dropped, and the body as it was read when that is cut."""
    strings = session.long_strings
    cut = strings.cut(body)
    if cut is not None:
        with suppress(Refusal):  # the refusal of the body as it came is the one to tell
            envelope, dropped = parse(cut.body)
            # Elsewhere than in messages a string has no name.
            if sum(strings.count(bytes(raw)) for raw in envelope.messages) == len(cut.spans):
                return envelope, dropped, cut
    return *parse(body), None
