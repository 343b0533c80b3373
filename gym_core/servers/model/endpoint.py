"""The endpoints of one model: where a call goes, what is tried again, and what was learned of how to ask.

One layer owns the retries of a call, and it is this one. Nothing that a client has begun to see is tried again.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from gym_core.errors import FailureKind
from gym_core.http.upstream import Upstream, UpstreamError, UpstreamReply, UpstreamTrouble
from gym_core.servers.model.answer import (
    MAX_ERROR_BYTES,
    Answer,
    PartialAnswer,
    read_object,
    read_partial,
    read_stream,
)
from gym_core.servers.model.answer_form import BrokenAnswer, WrongForm
from gym_core.servers.model.clock import Clock
from gym_core.servers.model.config import EndpointSettings, RetryConfig
from gym_core.servers.model.policy_gate import PolicyGate
from gym_core.servers.model.prompt_ids import PromptMemory
from gym_core.servers.model.refusal import Refusal, context_exceeded, model_unavailable
from gym_core.servers.model.rejections import (
    PICTURE_LIMIT_ADVICE,
    named_fields,
    read_context_refusal,
    read_output_cap,
    speaks_of_picture_limit,
    wants_completion_tokens,
)
from gym_core.servers.model.request import ShapedBody
from gym_core.servers.model.waits import Waits

log = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 256 << 20
MAX_ADAPTATIONS = 5
"""Times that one call is asked differently because the endpoint said how."""
MAX_WRONG_FORMS = 3
"""Times that one call is asked when whole answers come that are no completions: asking again hardly helps."""
_OFF_LOOP_BYTES = 1 << 20
"""An answer larger than this is decoded in a thread."""
_BUSY = 429
_TRANSIENT = frozenset({408, 409, 425, _BUSY})
_GONE = frozenset({502, 503, 504})
"""What a gateway says of a server that is not there; 504 stands for silence, too."""
REST_S = 30.0
"""An endpoint that was gone is asked again after this long, while others are there."""

ResultT = TypeVar("ResultT")


class EndpointFault(Exception):
    """One attempt failed by the endpoint's doing. `status` None means that no answer came.

    The message names the endpoint: it is for the record, not for code in a sandbox. What it quotes is masked.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: str | None = None,
        is_gone: bool = False,
        wrong_form: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.is_gone = is_gone or status in _GONE
        """Not there at all, rather than wrong in what it said."""
        self.wrong_form = wrong_form
        """What is no completion in an answer that came whole, in words for everybody; "" of any other fault."""
        self.is_transient = status is None or status in _TRANSIENT or status >= 500


@dataclass
class Progress:
    """What is known of a call so far; true also when it is cut off."""

    attempts: int = 0
    faults: int = 0
    status: int | None = None
    queued_s: float = 0.0
    """Waited before it was sent, for a slot of ours or for the end of a pause, whether or not that came."""
    held_s: float = 0.0
    """Of it, by a pause."""
    waits: Waits = field(default_factory=Waits)
    """Of all calls that this one is counted with."""
    endpoint: int | None = None
    """Position in `base_urls` of the one asked last."""
    policy_version: int | None = None
    """When the last attempt was sent."""
    policy_version_end: int | None = None
    """When the answer was whole."""
    started_at: float = 0.0
    """Monotonic, of the last attempt; `first_byte_s` counts from it."""
    first_byte_s: float | None = None
    last_byte_at: float | None = None
    """Monotonic; None while nothing is being waited for."""
    last_fault: str | None = None
    notes: list[str] = field(default_factory=list)
    sent: ShapedBody | None = None
    """As the last attempt sent it."""
    received: bytearray = field(default_factory=bytearray)
    """What the last attempt's answer holds so far; empty again once it was read."""
    has_end: bool = False
    """Whether that answer came to its end."""

    def partial(self) -> PartialAnswer | None:
        """The tokens of an answer that never got whole."""
        return read_partial(bytes(self.received), has_end=self.has_end) if self.received else None


@dataclass
class Endpoint:
    index: int
    """Position in `base_urls`."""
    url: str
    rests_until: float = 0.0
    """Monotonic: it was gone when it was last asked."""
    refused: set[str] = field(default_factory=set)
    """Fields of ours that it does not take."""
    accepted: bool = False
    """Whether it has answered a body with every wanted field."""
    token_field: str | None = None
    output_cap: int | None = None

    def at(self, path: str) -> str:
        """Engines serve their token routes beside /v1, not below it."""
        return (self.url.removesuffix("/v1") if path.startswith("/inference/") else self.url) + path


class EndpointPool:
    """All endpoints of one model. Calls of one affinity go to one of them, and to the next while that one is gone."""

    def __init__(
        self,
        settings: EndpointSettings,
        upstream: Upstream,
        *,
        retry: RetryConfig,
        clock: Clock,
        max_concurrent: int,
        gate: PolicyGate,
    ) -> None:
        self.settings = settings
        self.endpoints = [Endpoint(index, url.rstrip("/")) for index, url in enumerate(settings.base_urls)]
        self.gate = gate
        self._upstream = upstream
        self._retry = retry
        self._clock = clock
        self._slots = asyncio.Semaphore(max_concurrent)
        self._headers = {"Content-Type": "application/json", **settings.headers}

    async def complete(
        self, body: ShapedBody, *, affinity: int, progress: Progress, memory: PromptMemory | None = None
    ) -> Answer:
        """A whole answer. Raises Refusal, EndpointFault once it is final."""

        async def gather(reply: UpstreamReply) -> Answer:
            return await self._gather(reply, progress, memory)

        return await self.ask(body, gather, affinity=affinity, progress=progress)

    async def ask(
        self,
        body: ShapedBody,
        consume: Callable[[UpstreamReply], Awaitable[ResultT]],
        *,
        affinity: int,
        progress: Progress,
    ) -> ResultT:
        """What `consume` makes of a 200. Whatever it raises but EndpointFault ends the call."""
        deadline = self._clock.monotonic() + self._retry.patience_s
        adaptations = n_counted = n_turned_away = n_wrong_forms = 0
        question = _Question(body)
        while True:
            endpoint = self._choose(affinity, n_turned_away)
            try:
                return await self._attempt(endpoint, question, consume, progress)
            except _AskAgain as again:
                adaptations += 1
                if adaptations > MAX_ADAPTATIONS:
                    raise EndpointFault("the endpoint keeps refusing how it is asked", status=400) from again
                question = again.question
            except EndpointFault as fault:
                progress.faults += 1
                progress.last_fault = str(fault)[:500]
                progress.last_byte_at = progress.first_byte_s = None
                # A busy endpoint is no broken one: only the patience bounds how often it is asked.
                n_counted += fault.status != _BUSY
                n_wrong_forms += bool(fault.wrong_form)
                if fault.is_gone:
                    endpoint.rests_until = self._clock.monotonic() + REST_S
                else:
                    n_turned_away += 1
                pause_s = self._pause(progress.faults, fault.retry_after)
                # A pause of the policy takes none of the call's patience.
                is_late = self._clock.monotonic() + pause_s > deadline + progress.held_s
                is_last = n_counted >= self._retry.max_attempts or n_wrong_forms >= MAX_WRONG_FORMS or is_late
                if is_last or not fault.is_transient:
                    raise
                log.warning("endpoint fault", extra={"attempt": progress.attempts, "fault": str(fault)[:200]})
                await self._clock.sleep(pause_s)

    def _choose(self, affinity: int, n_turned_away: int) -> Endpoint:
        """The first that is there, from the affinity's own on, past those that turned this call away. When all are
        gone, the one that was not asked for longest."""
        now, n = self._clock.monotonic(), len(self.endpoints)
        ordered = [self.endpoints[(affinity + step) % n] for step in range(n)]
        there = [endpoint for endpoint in ordered if endpoint.rests_until <= now]
        if not there:
            return min(ordered, key=lambda endpoint: endpoint.rests_until)
        return there[n_turned_away % len(there)]

    def _pause(self, faults: int, retry_after: str | None) -> float:
        retry = self._retry
        pause_s = min(retry.first_pause_s * 2.0 ** (faults - 1), retry.max_pause_s) * random.uniform(0.75, 1.25)
        try:
            wanted_s = float(retry_after or 0)
        except ValueError:  # a date: rare, and our own pause will do
            wanted_s = 0.0
        return max(pause_s, min(wanted_s, retry.max_pause_s) if wanted_s > 0 else 0.0)

    async def _attempt(
        self,
        endpoint: Endpoint,
        question: "_Question",
        consume: Callable[[UpstreamReply], Awaitable[ResultT]],
        progress: Progress,
    ) -> ResultT:
        progress.attempts += 1
        progress.endpoint = endpoint.index
        progress.status = progress.first_byte_s = None
        progress.received, progress.has_end = bytearray(), False
        without = frozenset(endpoint.refused) | question.without
        question.body = _capped(question.body, endpoint)
        progress.sent = question.body.narrowed(without, endpoint.token_field)
        content = progress.sent.encode()
        await self._take_slot(progress)
        with self._slot_taken(progress):
            progress.started_at = progress.last_byte_at = self._clock.monotonic()
            try:
                async with self._upstream.request(
                    "POST",
                    endpoint.at(question.body.path),
                    headers=self._headers,
                    body=content,
                    is_streamed=bool(question.body.fields.get("stream")),
                ) as reply:
                    progress.status = reply.status
                    if reply.status != 200:
                        text = (await reply.read(MAX_ERROR_BYTES)).decode("utf-8", "replace")
                        self._refused(endpoint, question, reply, text)
                    result = await consume(reply)
            except UpstreamError as error:
                status = 504 if error.trouble is UpstreamTrouble.SILENT else None
                raise EndpointFault(self.settings.masked(str(error))[:500], status=status, is_gone=True) from error
            except BrokenAnswer as error:
                said = f"{endpoint.url}: {self.settings.masked(str(error))[:600]}"
                raise EndpointFault(said, wrong_form=str(error) if isinstance(error, WrongForm) else "") from error
        progress.last_byte_at = None
        progress.policy_version_end = self.gate.version
        endpoint.rests_until = 0.0
        endpoint.refused |= question.without
        endpoint.accepted = endpoint.accepted or not endpoint.refused
        return result

    def _refused(self, endpoint: Endpoint, question: "_Question", reply: UpstreamReply, text: str) -> None:
        """Always raises: how to ask again, or what the refusal means."""
        status, masked = reply.status, self.settings.masked
        shown = masked(text)
        if status == 413:
            raise context_exceeded(None, f"the endpoint takes no body of this size: {shown}")
        if status not in (400, 422):
            retry_after = masked(reply.retry_after) if reply.retry_after else None
            raise EndpointFault(f"{endpoint.url}: HTTP {status}: {shown[:300]}", status=status, retry_after=retry_after)
        context = read_context_refusal(text)
        if context is not None:
            left = context.left_tokens
            if question.body.max_tokens is not None and (left is None or 0 < left < question.body.max_tokens):
                raise _AskAgain(_Question(question.body.with_max_tokens(left), question.without))
            raise context_exceeded(context.limit_tokens, shown)
        if speaks_of_picture_limit(text):
            raise model_unavailable(f"{PICTURE_LIMIT_ADVICE} ({shown[:300]})")
        if wants_completion_tokens(text) and endpoint.token_field is None:
            endpoint.token_field = "max_completion_tokens"
            raise _AskAgain(question)
        cap = read_output_cap(text)
        if cap and (question.body.max_tokens or 0) > cap:
            endpoint.output_cap = cap
            raise _AskAgain(question)
        self._learn_unwanted(endpoint, question, text)
        raise Refusal(status, "endpoint_refused", f"the model endpoint refused the request: {shown[:500]}")

    def _learn_unwanted(self, endpoint: Endpoint, question: "_Question", text: str) -> None:
        """Raises _AskAgain when the refusal may be about a field that we can do without."""
        if self.settings.wants_strictly:
            return
        candidates = [name for name in self.settings.wanted if name in question.body.fields]
        candidates = [name for name in candidates if name not in endpoint.refused | question.without]
        named = named_fields(text, candidates)
        if named:
            endpoint.refused |= named
            log.warning("the endpoint does not take a field", extra={"fields": sorted(named)})
            raise _AskAgain(question)
        if candidates and not endpoint.accepted:
            # It did not say which. Learned only when leaving them out helps.
            raise _AskAgain(_Question(question.body, question.without | frozenset(candidates)))

    @contextmanager
    def _slot_taken(self, progress: Progress) -> Iterator[None]:
        """Around a call's turn."""
        try:
            with self.gate.in_flight():
                progress.policy_version = self.gate.version
                yield
        finally:
            self._slots.release()

    async def _take_slot(self, progress: Progress) -> None:
        """Wait for one of our slots while the policy is not paused. Whoever gets it sends before it awaits anything."""
        asked_at = self._clock.monotonic()
        progress.waits.begin(asked_at)
        try:
            with self.gate.waiting():
                await self._slots.acquire()
                try:
                    await self._held(progress)
                except BaseException:
                    self._slots.release()
                    raise
        finally:
            now = self._clock.monotonic()
            progress.queued_s += now - asked_at
            progress.waits.end(now)

    async def _held(self, progress: Progress) -> None:
        if not self.gate.is_paused:
            return
        since = self._clock.monotonic()
        try:
            await self.gate.opened()
        finally:
            progress.held_s += self._clock.monotonic() - since

    async def _gather(self, reply: UpstreamReply, progress: Progress, memory: PromptMemory | None) -> Answer:
        raw = progress.received
        try:
            async for piece in reply.pieces():
                progress.last_byte_at = self._clock.monotonic()
                if progress.first_byte_s is None:
                    progress.first_byte_s = progress.last_byte_at - progress.started_at
                raw += piece
                if len(raw) > MAX_ANSWER_BYTES:
                    raise BrokenAnswer(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
        except UpstreamError:
            if not raw.rstrip().endswith(b"data: [DONE]"):
                raise
        progress.has_end = True
        read = read_object if reply.content_type.startswith("application/json") else read_stream
        if len(raw) > _OFF_LOOP_BYTES:
            answer = await asyncio.to_thread(read, bytes(raw), memory)
        else:
            answer = read(bytes(raw), memory)
        progress.received = bytearray()
        return answer


@dataclass
class _Question:
    body: ShapedBody
    without: frozenset[str] = frozenset()
    """Fields left out on suspicion."""


class _AskAgain(Exception):
    def __init__(self, question: _Question) -> None:
        super().__init__()
        self.question = question


def _capped(body: ShapedBody, endpoint: Endpoint) -> ShapedBody:
    if endpoint.output_cap and (body.max_tokens or 0) > endpoint.output_cap:
        return body.with_max_tokens(endpoint.output_cap)
    return body


def failure_of(fault: EndpointFault | Refusal) -> FailureKind | None:
    """The word for the record; None when the request itself was bad."""
    return fault.kind if isinstance(fault, Refusal) else FailureKind.MODEL_UNAVAILABLE
