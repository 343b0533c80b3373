"""One rollout attempt, start to end: seed, open, respond, close, verify, close.

What is in here is the order of things and what a failure of each means. Transport is the `ServiceClient`'s business,
the plan and the retries are the collector's.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gym_core.capture.images import AssetStore, externalize, inline
from gym_core.errors import (
    EpisodeError,
    FailureKind,
    ModelUnavailable,
    Outcome,
    TransportError,
    error_of_kind,
    kind_of_word,
    outcome_of,
)
from gym_core.http.client import ServiceClient
from gym_core.types.flat_row import VerifyRequest, verification_from_flat, verify_request_to_flat
from gym_core.types.ids import EpisodeId
from gym_core.types.responses import ResponsesBody, ResponsesReply
from gym_core.types.rollout import Completed, EpisodeEvidence, EpisodeResult, EpisodeTiming, Failed, RunRequest
from gym_core.types.session import (
    AgentReport,
    CaptureSessionReply,
    CaptureSessionRequest,
    CaptureSummary,
    CloseAgentSessionReply,
    CloseAgentSessionRequest,
    CloseSessionReply,
    CloseSessionRequest,
    ModelAccess,
    OpenAgentSessionReply,
    OpenAgentSessionRequest,
    Sampling,
    SandboxEnforcement,
    SeedSessionReply,
    SeedSessionRequest,
)
from gym_core.types.verification import Failure, Verification

log = logging.getLogger(__name__)

SEED_TIMEOUT_S = 180.0
"""A sandbox of a remote provider may have to pull its image."""
RESPOND_MARGIN_S = 180.0
"""The agent enforces its own time limit; this much later it is taken for lost."""
VERIFY_TIMEOUT_S = 1800.0
"""A judge with its retries; environments bound their own below it."""
CLOSE_TIMEOUT_S = 30.0
MAX_WAIT_SHARE = 0.05
"""Of the time limit. An agent that ran out of it, and lost more than this to our own queue, is not scored."""
_SMALL_REPLY_BYTES = 64 << 10
"""Read in less time than a thread takes to be handed it."""


@dataclass(frozen=True)
class EpisodeServers:
    """The servers that make up an environment."""

    resources: ServiceClient
    agent: ServiceClient
    policy: ServiceClient
    agent_timeout_s: float


@dataclass(frozen=True)
class EpisodeStorage:
    """Where an episode's pictures and calls are kept."""

    assets: AssetStore
    captures_dir: Path


@dataclass(eq=False)
class Episode:
    """One attempt. Make one, `run()` it once; closing goes on in `pending` when the caller is cancelled twice."""

    request: RunRequest
    attempt: int
    servers: EpisodeServers
    storage: EpisodeStorage
    pending: set["asyncio.Task[None]"]
    """Clean-up still running; the owner awaits it before it exits."""

    stage: str = field(default="plan", init=False)
    stage_since: float = field(default_factory=time.monotonic, init=False)
    """On the monotonic clock."""

    def __post_init__(self) -> None:
        self.id = EpisodeId(rollout_id=self.request.rollout_id, attempt=self.attempt)
        # A session's id must be new even when a killed run left no trace of its attempts.
        self._session_id = f"{self.id}-{secrets.token_hex(4)}"
        self._response: ResponsesReply | None = None
        self._agent = AgentReport()
        self._capture: CaptureSummary | None = None
        self._capture_error: EpisodeError | None = None
        self._sandbox: SandboxEnforcement | None = None
        self._seconds: dict[str, float] = {}
        self._closed: set[str] = set()

    @property
    def session_id(self) -> str:
        """What each of the servers calls its session of this episode."""
        return self._session_id

    async def run(self) -> EpisodeResult:
        """Never raises but for cancellation: a failure is a value. Costs eight HTTP calls, about 5 ms of CPU in all."""
        return await self._ended(self._play())

    async def regrade(self, response: ResponsesReply) -> EpisodeResult:
        """Grade what an earlier episode handed in: no agent and no policy is asked. As `run` otherwise."""
        return await self._ended(self._grade_alone(response))

    async def _ended(self, verifying: Awaitable[Verification]) -> EpisodeResult:
        started = time.monotonic()
        try:
            verification = await verifying
        except EpisodeError as error:
            return Failed(evidence=self._evidence(started), failure=self._failure(error.kind, str(error)))
        except Exception as bug:
            log.exception("episode broke", extra={"episode": str(self.id), "stage": self.stage})
            reason = f"{type(bug).__name__}: {bug}"
            return Failed(evidence=self._evidence(started), failure=self._failure(FailureKind.INTERNAL, reason))
        return Completed(evidence=self._evidence(started), verification=verification)

    async def _play(self) -> Verification:
        async with AsyncExitStack() as closing:
            # Each clean-up is registered before the call that may create what it cleans.
            async with self._timed("seed"):
                closing.push_async_callback(self._close_once, "resources")
                seeded = await self._seed()
            async with self._timed("open"):
                closing.push_async_callback(self._close_once, "capture")
                access = await self._open_capture()
                closing.push_async_callback(self._close_once, "agent")
                await self._open_agent(access, seeded)
            async with self._timed("respond"):
                response = await self._respond()
            await self._close_once("agent")
            await self._close_once("capture")
            self._raise_if_unrecorded()
            self._raise_if_broken(response)
            async with self._timed("verify"):
                return await self._verify(response)

    async def _grade_alone(self, response: ResponsesReply) -> Verification:
        async with AsyncExitStack() as closing:
            async with self._timed("seed"):
                closing.push_async_callback(self._close_once, "resources")
                await self._seed()
            async with self._timed("verify"):
                return await self._verify(response)

    # -- steps --------------------------------------------------------------

    async def _seed(self) -> SeedSessionReply:
        request = SeedSessionRequest(
            resources_session_id=self._session_id,
            episode_id=self.id,
            task_id=self.request.task.id,
            task_data=self.request.task.task_data,
        )
        reply = await self.servers.resources.call(
            "POST", "/seed_session", request, SeedSessionReply, timeout_s=SEED_TIMEOUT_S
        )
        if reply.sandbox_access:
            self._sandbox = reply.sandbox_access.enforced
        return reply

    async def _open_capture(self) -> ModelAccess:
        request = CaptureSessionRequest(
            session_id=self._session_id,
            episode_id=self.id,
            captures_dir=str(self.storage.captures_dir),
            assets_dir=str(self.storage.assets.folder),
            sampling=sampling_of(self.request.task.responses_create_params),
        )
        reply = await self.servers.policy.call("POST", "/v1/capture_sessions", request, CaptureSessionReply)
        return ModelAccess(
            base_url=f"{self.servers.policy.url}/v1",
            api_key=reply.api_key,
            context_tokens=reply.context_tokens,
            max_output_tokens=reply.max_output_tokens,
        )

    async def _open_agent(self, access: ModelAccess, seeded: SeedSessionReply) -> None:
        request = OpenAgentSessionRequest(
            agent_session_id=self._session_id,
            episode_id=self.id,
            task_id=self.request.task.id,
            model=access,
            sandbox_access=seeded.sandbox_access,
            tool_accesses=[seeded.resources_tools] if seeded.resources_tools else [],
        )
        await self.servers.agent.call("POST", "/v1/agent_sessions", request, OpenAgentSessionReply)

    async def _respond(self) -> ResponsesReply:
        body = await asyncio.to_thread(self._inlined_body)
        raw = await self.servers.agent.call_raw(
            "POST",
            "/v1/responses",
            body,
            timeout_s=self.servers.agent_timeout_s + RESPOND_MARGIN_S,
            headers={"x-gym-session": self._session_id},
        )
        is_small = len(raw) < _SMALL_REPLY_BYTES
        self._response = self._stored_reply(raw) if is_small else await asyncio.to_thread(self._stored_reply, raw)
        return self._response

    def _inlined_body(self) -> bytes:
        return inline(self.request.task.responses_create_params, self.storage.assets).to_json(exclude_none=True)

    def _stored_reply(self, raw: bytes) -> ResponsesReply:
        try:
            reply = ResponsesReply.from_json(raw)
        except ValueError as error:
            raise TransportError(f"agent server: not a Responses reply: {error}") from error
        return externalize(reply, self.storage.assets)

    def _raise_if_unrecorded(self) -> None:
        """Without its record nobody can say whether the endpoint failed the model, or train on what was sampled."""
        if self._capture_error is not None:
            raise self._capture_error

    def _raise_if_broken(self, response: ResponsesReply) -> None:
        """A broken episode has no grade. A model's failure that the endpoint caused is the endpoint's."""
        self._raise_if_diverged()
        error = response.error
        if error is None:
            return
        kind = kind_of_word(error.code) or FailureKind.INTERNAL
        if kind is FailureKind.AGENT_TIMEOUT:
            self._raise_if_held_up()
        if kind is FailureKind.CONTEXT_LIMIT:
            self._raise_if_never_answered(error.message)
        if kind in _BLAMED_ON_ENDPOINT and self._capture is not None:
            endpoint = kind_of_word(self._capture.last_failure)
            if endpoint is not None and outcome_of(endpoint) is Outcome.MASK:
                raise error_of_kind(endpoint, self._capture.last_failure_message or "the endpoint failed")
        if response.status == "failed":
            raise error_of_kind(kind, error.message)

    def _raise_if_diverged(self) -> None:
        """Whatever a harness made of it: past a call that was never recorded nothing is a replay."""
        capture = self._capture
        if capture is not None and capture.last_failure == FailureKind.REPLAY_DIVERGED:
            raise error_of_kind(FailureKind.REPLAY_DIVERGED, capture.last_failure_message or "the replay diverged")

    def _raise_if_held_up(self) -> None:
        """Time that the model's calls stood in our queue, in a pause of the policy for one, was not the model's."""
        waited_s, limit_s = self._capture.queued_s if self._capture else 0.0, self.servers.agent_timeout_s
        if waited_s > MAX_WAIT_SHARE * limit_s:
            raise ModelUnavailable(
                f"the time limit of {limit_s:g} s came first, and for {waited_s:.1f} s of it calls stood in the model "
                "server's queue (a pause of the policy, or max_concurrent_requests)"
            )

    def _raise_if_never_answered(self, reason: str) -> None:
        """A context that was full before the model said anything was filled by the task."""
        capture = self._capture
        if capture is not None and capture.last_finish_reason is None:
            why = capture.last_failure_message or reason
            raise ModelUnavailable(f"the task's own prompt does not fit: {why}")

    async def _verify(self, response: ResponsesReply) -> Verification:
        request = VerifyRequest(task=self.request.task, response=response, resources_session_id=self._session_id)
        raw = await self.servers.resources.call_raw(
            "POST", "/verify", msgspec.json.encode(verify_request_to_flat(request)), timeout_s=VERIFY_TIMEOUT_S
        )
        try:
            return verification_from_flat(msgspec.json.decode(raw, type=dict[str, object]))
        except ValueError as error:
            raise TransportError(f"resources server: not a verification: {error}") from error

    # -- closing ------------------------------------------------------------

    async def _close_agent(self) -> None:
        request = CloseAgentSessionRequest(agent_session_id=self._session_id, episode_id=self.id)
        reply = await self.servers.agent.call(
            "POST", "/v1/agent_sessions/close", request, CloseAgentSessionReply, timeout_s=CLOSE_TIMEOUT_S
        )
        self._agent = reply.agent_observations

    async def _close_capture(self) -> None:
        route = f"/v1/capture_sessions/{self._session_id}"
        self._capture = await self.servers.policy.call("DELETE", route, None, CaptureSummary, timeout_s=CLOSE_TIMEOUT_S)

    async def _close_resources(self) -> None:
        request = CloseSessionRequest(resources_session_id=self._session_id, episode_id=self.id)
        await self.servers.resources.call(
            "POST", "/close_session", request, CloseSessionReply, timeout_s=CLOSE_TIMEOUT_S
        )

    async def _close_once(self, what: str) -> None:
        """Close one of the three, once, also when the caller is cancelled meanwhile. A failing close is logged: the
        other side's lease and idle time end what it holds."""
        if what in self._closed:
            return
        self._closed.add(what)
        task = asyncio.create_task(self._close_logged(what), name=f"close-{what}-{self.id}")
        self.pending.add(task)
        task.add_done_callback(self.pending.discard)
        await asyncio.shield(task)

    async def _close_logged(self, what: str) -> None:
        close = {"agent": self._close_agent, "capture": self._close_capture, "resources": self._close_resources}[what]
        try:
            await close()
        except EpisodeError as error:
            if what == "capture":
                self._capture_error = error
            log.warning("close failed", extra={"what": what, "episode": str(self.id), "reason": str(error)[:200]})

    # -- evidence -----------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _timed(self, stage: str) -> AsyncIterator[None]:
        self.stage = stage
        self.stage_since = started = time.monotonic()
        try:
            yield
        finally:
            self._seconds[stage] = time.monotonic() - started

    def _failure(self, kind: FailureKind, reason: str) -> Failure:
        return Failure(kind=kind, reason=reason[:2000], stage=self.stage)

    def _evidence(self, started: float) -> EpisodeEvidence:
        model_s = self._capture.model_seconds if self._capture else 0.0
        return EpisodeEvidence(
            episode_id=self.id,
            response=self._response,
            agent=self._agent,
            capture=self._capture,
            sandbox=self._sandbox,
            timing=EpisodeTiming(total=time.monotonic() - started, model=model_s, **self._seconds),
        )


def sampling_of(body: ResponsesBody) -> Sampling:
    """What a row says of sampling, as the policy model server is told."""
    return Sampling(temperature=body.temperature, top_p=body.top_p, max_output_tokens=body.max_output_tokens)


_BLAMED_ON_ENDPOINT = frozenset(
    {
        FailureKind.AGENT_RUN_ERROR,
        FailureKind.NO_FINAL_ANSWER,
        FailureKind.AGENT_TIMEOUT,
        FailureKind.CONTEXT_LIMIT,
    }
)
"""A model's failures that a failing endpoint produces too: the capture says which it was."""
