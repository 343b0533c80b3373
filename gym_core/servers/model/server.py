"""The base of a model server: capture sessions, the proxied calls, and a look at the endpoint behind it.

Kinds of model servers subclass it and say how their endpoint is named (`endpoint_settings`); all of them can be a
policy or a judge.
"""

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gym_core.http.app import add_route
from gym_core.http.auth import Authenticate, BearerAuth, Knock, Principal, Role
from gym_core.http.upstream import Upstream, UpstreamLimits
from gym_core.servers.base import Server
from gym_core.servers.context import ServerContext
from gym_core.servers.model.answer import Answer
from gym_core.servers.model.asgi import ClientLeft, read_body, until_client_leaves
from gym_core.servers.model.check import EndpointProbe
from gym_core.servers.model.clock import Clock, SystemClock
from gym_core.servers.model.config import EndpointSettings, ModelServerConfig
from gym_core.servers.model.dialect import responses_reply
from gym_core.servers.model.endpoint import EndpointPool
from gym_core.servers.model.memory import keep_freed_memory
from gym_core.servers.model.policy_gate import PolicyGate
from gym_core.servers.model.proxy import ChatProxy, Forward
from gym_core.servers.model.refusal import Refusal
from gym_core.servers.model.relay import Relay
from gym_core.servers.model.request import Shape
from gym_core.servers.model.responses_request import read_as_chat
from gym_core.servers.model.session import ModelSession
from gym_core.servers.model.session_table import ModelSessions
from gym_core.servers.model.shortcut import Shortcut
from gym_core.types.checkup import AbilityReport
from gym_core.types.model_call import EndpointReport
from gym_core.types.policy import PausePolicy, PolicyState, SetPolicyVersion
from gym_core.types.session import CaptureSessionReply, CaptureSessionRequest, CaptureSummary

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

CHAT_PATH = "/v1/chat/completions"
SESSION_PATHS = frozenset({CHAT_PATH, "/v1/responses", "/v1/models"})
"""All that a session's key is good for."""
POLICY_PATHS = frozenset({"/v1/policy", "/v1/policy/pause", "/v1/policy/resume", "/v1/policy/version"})
_USER_PATHS = SESSION_PATHS | POLICY_PATHS
DEFAULT_CONTEXT_TOKENS = 262_144
REAP_EVERY_S = 30.0
PAUSED_CHECK_S = 20.0
"""How long a look at the endpoint waits for the end of a pause."""

ModelConfigT = TypeVar("ModelConfigT", bound=ModelServerConfig)


class ModelServer(Server[ModelConfigT]):
    """Subclasses set `config_type` and write `endpoint_settings`."""

    clock: Clock = SystemClock()

    def __init__(self, config: ModelConfigT, context: ServerContext) -> None:
        super().__init__(config, context)
        self.sessions = ModelSessions(context.state_dir, config.session_limits, self.clock)
        limits = UpstreamLimits(config.connect_timeout_s, config.idle_timeout_s, config.request_timeout_s)
        settings = self.endpoint_settings()
        upstream = Upstream(context.pool, limits)
        self._probe = EndpointProbe(upstream, settings, allow_leak=config.allow_template_leak)
        self._gate = PolicyGate(config.max_pause_s)
        pool = EndpointPool(
            settings,
            upstream,
            retry=config.retries,
            clock=self.clock,
            max_concurrent=config.max_concurrent_requests,
            gate=self._gate,
        )
        shape = Shape(
            settings.model, config.max_output_tokens, config.sampling_overrides, settings.fixed | config.extra_body
        )
        self._relay = Relay(pool, shape)
        self._proxy = ChatProxy(
            pool,
            self.sessions,
            self._relay,
            shape,
            alias=config.model_alias,
            pins_system_prompt=config.pin_system_prompt,
            max_body_bytes=config.max_body_bytes,
            clock=self.clock,
            forward=self.forward(),
        )
        self._context_tokens = config.context_tokens
        self._asking = asyncio.Lock()
        self._reaper: asyncio.Task[None] | None = None

    def endpoint_settings(self) -> EndpointSettings:
        raise NotImplementedError(f"{type(self).__name__} has no endpoint: write `endpoint_settings`")

    def forward(self) -> Forward | None:
        """What answers the calls of sessions instead of an endpoint; None where there is one."""
        return None

    def authenticate(self) -> Authenticate:
        services = super().authenticate()

        def authenticate(knock: Knock) -> Principal | None:
            session = self.sessions.of_key(knock.token)
            if session is not None:
                good = knock.path in SESSION_PATHS and session.may_come_from(knock.host)
                return Principal(Role.SESSION, session.id) if good else None
            caller = services(knock)
            if caller and caller.role is not Role.RUN and knock.path not in _USER_PATHS:
                return None
            return caller

        return authenticate

    async def open(self) -> None:
        keep_freed_memory()
        self._reaper = asyncio.create_task(self._reap_for_ever(), name="capture-session-reaper")

    async def close(self) -> None:
        if self._reaper:
            self._reaper.cancel()
            with suppress(asyncio.CancelledError):
                await self._reaper
        self._gate.close()
        await self.sessions.close_all()

    async def _reap_for_ever(self) -> None:
        while True:
            await asyncio.sleep(REAP_EVERY_S)
            await self.sessions.reap(self.config.session_idle_s)

    def add_routes(self, app: "FastAPI") -> None:
        # Neither FastAPI nor a request object touches the bodies of this path; the route is there for its 405.
        app.add_middleware(Shortcut, path=CHAT_PATH, target=BearerAuth(self._proxy, self.authenticate()))
        app.router.routes.append(Route(CHAT_PATH, self._proxy, methods=["POST"]))
        app.add_api_route("/v1/responses", self._responses_route, methods=["POST"], response_model=None)
        app.add_api_route("/v1/models", self._models_route, methods=["GET"], response_model=None)
        add_route(
            app, "POST", "/v1/capture_sessions", self.open_session,
            body=CaptureSessionRequest, reply=CaptureSessionReply,
        )  # fmt: skip
        add_route(app, "GET", "/v1/capture_sessions/{session_id}", self.read_session, reply=CaptureSummary)
        add_route(app, "DELETE", "/v1/capture_sessions/{session_id}", self.close_session, reply=CaptureSummary)
        add_route(app, "POST", "/v1/check", self.check, reply=EndpointReport)
        add_route(app, "POST", "/v1/check_abilities", self.check_abilities, reply=AbilityReport)
        add_route(app, "GET", "/v1/policy", self.policy_state, reply=PolicyState)
        add_route(app, "POST", "/v1/policy/pause", self._gate.pause, body=PausePolicy, reply=PolicyState)
        add_route(app, "POST", "/v1/policy/resume", self.resume_policy, reply=PolicyState)
        add_route(
            app, "PUT", "/v1/policy/version", self.set_policy_version, body=SetPolicyVersion, reply=PolicyState
        )  # fmt: skip

    async def open_session(self, request: CaptureSessionRequest) -> CaptureSessionReply:
        """The session's key; asked again, the same one. Raises SessionError, ValueError."""
        context_tokens = await self.context_tokens()
        session = self.sessions.open(request)
        return CaptureSessionReply(
            session_id=session.id,
            api_key=session.key,
            context_tokens=context_tokens,
            max_output_tokens=min(self.config.max_output_tokens, context_tokens),
        )

    async def read_session(self, session_id: str) -> CaptureSummary:
        return self.sessions.summary(session_id)

    async def close_session(self, session_id: str) -> CaptureSummary:
        return await self.sessions.close(session_id)

    async def check(self) -> EndpointReport:
        """One real completion with two pictures of each endpoint, and what training needs to know. Takes up to
        `CHECK_TIMEOUT_S` a try; never raises."""
        try:
            async with asyncio.timeout(PAUSED_CHECK_S):
                await self._gate.opened()
        except TimeoutError:
            message = "the policy is paused: POST /v1/policy/resume ends that"
            return EndpointReport(ok=False, message=message, model=self.endpoint_settings().model)
        with self._gate.in_flight():
            return await self._probe.report()

    async def check_abilities(self) -> AbilityReport:
        """What the model can do, by three answers of it. Takes up to `CHECK_TIMEOUT_S`; never raises."""
        with self._gate.in_flight():
            return await self._probe.abilities()

    async def policy_state(self) -> PolicyState:
        return self._gate.state()

    async def resume_policy(self) -> PolicyState:
        return self._gate.resume()

    async def set_policy_version(self, asked: SetPolicyVersion) -> PolicyState:
        return self._gate.set_version(asked.version)

    async def context_tokens(self) -> int:
        """From config, else what the endpoint says, else the default. Asked once."""
        async with self._asking:
            if self._context_tokens is None:
                self._context_tokens = await self._probe.context_tokens() or DEFAULT_CONTEXT_TOKENS
            return self._context_tokens

    async def _models_route(self, _: Request) -> Response:
        model = {"id": self.config.model_alias, "object": "model", "created": 0, "owned_by": "gym"}
        context = {"max_model_len": self._context_tokens} if self._context_tokens else {}
        return JSONResponse({"object": "list", "data": [model | context]})

    async def _responses_route(self, request: Request) -> Response:
        """The Responses dialect, not streamed."""
        caller: Principal = request.state.principal
        try:
            answer = await self._answer(caller, request)
        except Refusal as refusal:
            return Response(refusal.body(), status_code=refusal.status, media_type="application/json")
        except ClientLeft:
            return Response(status_code=499)
        return Response(
            responses_reply(answer, self.config.model_alias).model_dump_json(), media_type="application/json"
        )

    async def _answer(self, caller: Principal, request: Request) -> Answer:
        """Raises Refusal, ClientLeft."""
        receive, max_bytes = request.receive, self.config.max_body_bytes
        if caller.session_id is None:
            content = await read_body(request.scope, receive, max_bytes)
            return await until_client_leaves(receive, self._relayed(content))
        session = self.sessions.find(caller.session_id)
        with session.admitted():
            with session.refusals_noted():
                content = await read_body(request.scope, receive, max_bytes)
            session.count_bytes(len(content))
            return await until_client_leaves(receive, self._completed(session, content))

    async def _relayed(self, content: bytes) -> Answer:
        return await self._relay.complete(await read_as_chat(content))

    async def _completed(self, session: ModelSession, content: bytes) -> Answer:
        with session.refusals_noted():
            body = await read_as_chat(content)
        _, answer = await self._proxy.complete(session, body)
        return answer
