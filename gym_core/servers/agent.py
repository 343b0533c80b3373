"""The base of a harness: it opens a session, takes images, plays one turn and hands over what happened.

Authors subclass `AgentServer` and write `run_turn`. It may raise; it is cancelled when the caller goes away, when the
session closes and when the server stops.
"""

import asyncio
import logging
import re
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeVar

from pydantic import Field, model_validator
from starlette.requests import Request
from starlette.responses import Response

from gym_core.config.schema import ServerRef
from gym_core.datasets.images import PreparedImage
from gym_core.errors import FAILURE_POLICY, EpisodeError, FailureKind, Outcome, SessionError
from gym_core.http.app import add_route, first_mistakes
from gym_core.http.departure import caller_gone
from gym_core.http.problem import BAD_REQUEST, problem_response
from gym_core.sandbox.contract import Sandbox
from gym_core.sandbox.leased import LeasedSandbox
from gym_core.servers.base import Server, ServerConfig
from gym_core.servers.context import ServerContext
from gym_core.servers.sessions import SessionTable
from gym_core.types.responses import IncompleteDetails, OutputItem, ResponseError, ResponsesBody, ResponsesReply, Usage
from gym_core.types.session import (
    AgentReport,
    CloseAgentSessionReply,
    CloseAgentSessionRequest,
    OpenAgentSessionReply,
    OpenAgentSessionRequest,
)
from gym_core.types.wire import Wire

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

MAX_IMAGE_BYTES = 64 << 20
IMAGE_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,100}\.(png|jpg|jpeg|webp|gif)$")
SESSION_HEADER = "x-gym-session"
MAX_RECEIPTS = 1000
"""Reports of closed sessions that are kept for a caller whose first close got no reply."""


class AgentServerConfig(ServerConfig):
    model_server: ServerRef
    """The policy."""
    timeout_s: float = Field(default=1800.0, gt=0)
    """Wall time of one turn; past it the model's run is stopped and scored 0."""
    session_idle_s: float = Field(default=7200.0, gt=0)
    """A session that nobody called on for so long is closed, so it must be longer than a turn."""

    @model_validator(mode="after")
    def _outlives_a_turn(self) -> Self:
        if self.session_idle_s <= self.timeout_s:
            raise ValueError(f"session_idle_s: {self.session_idle_s:g} is not > timeout_s ({self.timeout_s:g})")
        return self


AgentConfigT = TypeVar("AgentConfigT", bound=AgentServerConfig)


@dataclass
class AgentSession:
    """What this server holds for one episode."""

    request: OpenAgentSessionRequest
    sandbox: Sandbox | None
    report: AgentReport = field(default_factory=AgentReport)
    images: list[str] = field(default_factory=list)
    """Names of uploaded images, in order."""
    turn: "asyncio.Task[Turn] | None" = None
    """The turn that is being played."""

    def require_sandbox(self) -> Sandbox:
        if self.sandbox is None:
            raise SessionError(
                f"session {self.request.agent_session_id!r} has no sandbox", kind=FailureKind.SESSION_CONFLICT
            )
        return self.sandbox


class ImageList(Wire):
    images: list[str]


@dataclass(frozen=True)
class Turn:
    """What a harness made of one body. `failure` None means the model gave its final answer."""

    output: list[OutputItem]
    usage: Usage = Usage()
    failure: EpisodeError | None = None
    ending: str | None = None
    """How it ended, in a word of the harness: what a grader finds as `metadata["ending"]` of the reply."""


class AgentServer(Server[AgentConfigT]):
    """Subclasses write `run_turn`, and `config_type` when their block has more fields."""

    config_type = AgentServerConfig

    def __init__(self, config: AgentConfigT, context: ServerContext) -> None:
        super().__init__(config, context)
        self.sessions: SessionTable[AgentSession] = SessionTable(self._finish_session, idle_s=config.session_idle_s)
        self._receipts: dict[str, AgentReport] = {}

    async def run_turn(self, session: AgentSession, body: ResponsesBody) -> Turn:
        """Play the model to its final answer, a limit or a failure.

        Hand over what was seen with `Turn.failure` set rather than raising, wherever something was seen. Sets
        `session.report`.
        """
        raise NotImplementedError(f"{type(self).__name__} plays nothing: write `run_turn`")

    async def end_session(self, session: AgentSession) -> None:
        """Release what the session holds; no turn is running. The sandbox belongs to its lender."""

    async def open(self) -> None:
        self.sessions.start()

    async def close(self) -> None:
        await self.sessions.stop()

    def add_routes(self, app: "FastAPI") -> None:
        add_route(
            app, "POST", "/v1/agent_sessions", self.open_session,
            body=OpenAgentSessionRequest, reply=OpenAgentSessionReply,
        )  # fmt: skip
        add_route(
            app, "POST", "/v1/agent_sessions/close", self.close_session,
            body=CloseAgentSessionRequest, reply=CloseAgentSessionReply,
        )  # fmt: skip
        app.add_api_route("/v1/responses", self._responses_route, methods=["POST"], response_model=None)
        add_route(app, "GET", "/v1/agent_sessions/{session_id}/images", self.list_images, reply=ImageList)
        path = "/v1/agent_sessions/{session_id}/images/{name}"
        app.add_api_route(path, self._put_image_route, methods=["PUT"], response_model=None)
        app.add_api_route(path, self._get_image_route, methods=["GET"], response_model=None)

    # -- sessions -----------------------------------------------------------

    async def open_session(self, request: OpenAgentSessionRequest) -> OpenAgentSessionReply:
        await self.sessions.open(request.agent_session_id, request.episode_id, lambda: self._begin_session(request))
        return OpenAgentSessionReply(agent_session_id=request.agent_session_id)

    async def _begin_session(self, request: OpenAgentSessionRequest) -> AgentSession:
        lease = request.sandbox_access
        sandbox = LeasedSandbox(lease, self.context.pool.service(lease.url, lease.token)) if lease else None
        return AgentSession(request, sandbox)

    async def close_session(self, request: CloseAgentSessionRequest) -> CloseAgentSessionReply:
        session_id = request.agent_session_id
        try:
            opened_for = self.sessions.find(session_id).request.episode_id
        except SessionError:
            opened_for = request.episode_id  # closing twice, or one that never opened, is fine
        if opened_for != request.episode_id:
            raise SessionError(
                f"session {session_id!r} belongs to episode {opened_for}, not {request.episode_id}",
                kind=FailureKind.SESSION_CONFLICT,
            )
        await self.sessions.close(session_id)
        report = self._receipts.get(session_id, AgentReport())
        return CloseAgentSessionReply(agent_session_id=session_id, agent_observations=report)

    async def _finish_session(self, session: AgentSession) -> None:
        if session.turn is not None:
            session.turn.cancel()
            await asyncio.wait({session.turn})
        self._receipts[session.request.agent_session_id] = session.report
        while len(self._receipts) > MAX_RECEIPTS:
            del self._receipts[next(iter(self._receipts))]
        await self.end_session(session)

    # -- the turn -----------------------------------------------------------

    async def _responses_route(self, request: Request) -> Response:
        session_id = request.headers.get(SESSION_HEADER, "")
        try:
            body = ResponsesBody.from_json(await request.body())
        except ValueError as error:
            return problem_response(422, BAD_REQUEST, f"POST /v1/responses: {first_mistakes(error)}")
        responding = asyncio.create_task(self.respond(session_id, body))
        leaving = asyncio.create_task(caller_gone(request.receive))
        try:
            await asyncio.wait({responding, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not responding.done():
                log.warning("caller left during a turn", extra={"session": session_id})
                return Response(status_code=499)
            reply = responding.result()
        finally:
            responding.cancel()
            leaving.cancel()
            await asyncio.wait({responding, leaving})
        return Response(reply.to_json(), media_type="application/json")

    async def respond(self, session_id: str, body: ResponsesBody) -> ResponsesReply:
        """Play one turn. Raises SessionError for a session that is unknown, closed, closed meanwhile or busy."""
        session = self.sessions.find(session_id)
        if session.turn is not None:
            raise SessionError(f"session {session_id!r} plays a turn already", kind=FailureKind.SESSION_CONFLICT)
        started = time.monotonic()
        session.turn = asyncio.create_task(self.run_turn(session, body), name=f"turn-{session_id}")
        try:
            await asyncio.wait({session.turn})
            if session.turn.cancelled():
                raise SessionError(f"session {session_id!r} closed during its turn", kind=FailureKind.SESSION_CONFLICT)
            turn = session.turn.result()
        finally:
            if not session.turn.done():
                session.turn.cancel()
                await asyncio.wait({session.turn})
            session.turn = None
            session.report = session.report.model_copy(update={"seconds": time.monotonic() - started})
        return reply_of(turn)

    # -- images -------------------------------------------------------------

    async def list_images(self, session_id: str) -> ImageList:
        return ImageList(images=self.sessions.find(session_id).images)

    async def put_image(self, session_id: str, name: str, content: bytes) -> None:
        """Put an image into the session's workspace, where the coming turn will show it to the model.

        Kept byte for byte, but for kinds that models do not take, which become PNG. Raises ValueError for a bad name or
        size, and for what is no image.
        """
        if not IMAGE_NAME.match(name):
            raise ValueError(f"image name {name!r}: letters, digits, '.', '_', '-' and an image ending are allowed")
        if not 0 < len(content) <= MAX_IMAGE_BYTES:
            raise ValueError(f"image {name!r}: {len(content)} bytes is not in 1..{MAX_IMAGE_BYTES}")
        session = self.sessions.find(session_id)
        sandbox = session.require_sandbox()
        image = await asyncio.to_thread(PreparedImage.from_bytes, content, row=f"image {name!r}")
        await sandbox.write(f"{sandbox.workdir}/{name}", image.content)
        if name not in session.images:
            session.images.append(name)

    async def get_image(self, session_id: str, name: str) -> bytes:
        """An image of the workspace, uploaded or made by the model."""
        if not IMAGE_NAME.match(name):
            raise ValueError(f"image name {name!r} is not one")
        sandbox = self.sessions.find(session_id).require_sandbox()
        return await sandbox.read(f"{sandbox.workdir}/{name}", MAX_IMAGE_BYTES)

    async def _put_image_route(self, request: Request) -> Response:
        await self.put_image(**request.path_params, content=await request.body())
        return Response(status_code=204)

    async def _get_image_route(self, request: Request) -> Response:
        content = await self.get_image(**request.path_params)
        headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}
        return Response(content, media_type="application/octet-stream", headers=headers)


def reply_of(turn: Turn) -> ResponsesReply:
    """The Responses shape of a turn: a limit is "incomplete", a broken run "failed", both with the kind as code."""
    failure = turn.failure
    status = "completed"
    if failure is not None:
        is_limit = FAILURE_POLICY[failure.kind].outcome is Outcome.SCORE_ZERO
        status = "incomplete" if is_limit else "failed"
    return ResponsesReply.model_validate(
        {
            "id": f"resp_{uuid.uuid4().hex}",
            "created_at": time.time(),
            "status": status,
            "output": turn.output,
            "usage": turn.usage,
            "error": ResponseError(code=failure.kind, message=str(failure)[:2000]) if failure else None,
            "incomplete_details": IncompleteDetails(reason=failure.kind)
            if failure and status == "incomplete"
            else None,
            "metadata": {"ending": turn.ending} if turn.ending else None,
        }
    )
