"""The harness `opencode_agent`: one body in, one run of the real OpenCode in the session's sandbox, all of it out."""

import asyncio
import logging
from contextlib import suppress

from pydantic import Field

from agent_servers.opencode_agent.images import named_images
from agent_servers.opencode_agent.outcome import Ending, broken_inside, failure_of, is_in_models_hands
from agent_servers.opencode_agent.play import Assignment, Played, play
from agent_servers.opencode_agent.prompt import prompt_of
from agent_servers.opencode_agent.settings import OPENCODE_VERSION, Model
from agent_servers.opencode_agent.transcript import make_transcript
from gym_core.errors import ConfigError, EpisodeError, FailureKind, SandboxError, SandboxLost, SessionError
from gym_core.sandbox.contract import Sandbox
from gym_core.servers.agent import AgentServer, AgentServerConfig, AgentSession, Turn
from gym_core.types.responses import ResponsesBody, Usage
from gym_core.types.session import AgentReport, CaptureSummary

log = logging.getLogger(__name__)


class OpenCodeAgentConfig(AgentServerConfig):
    start_timeout_s: float = Field(default=60.0, gt=0)
    """Time to the first model call. A run that has made none by then, and idles, is stopped and started once more."""


class OpenCodeAgent(AgentServer[OpenCodeAgentConfig]):
    config_type = OpenCodeAgentConfig

    async def run_turn(self, session: AgentSession, body: ResponsesBody) -> Turn:
        sandbox = session.require_sandbox()
        assignment = Assignment(
            prompt=prompt_of(body),
            images=await self._attach(sandbox, session, body),
            model=_model(sandbox, session, body),
            timeout_s=self.config.timeout_s,
            start_timeout_s=self.config.start_timeout_s,
        )

        async def has_called() -> bool | None:
            calls = await self._calls(session)
            return None if calls is None else calls.first_call_at is not None

        try:
            played = await play(sandbox, assignment, has_called)
        except SandboxLost:
            raise  # its lender saw it
        except (SandboxError, OSError, ValueError) as error:
            if not is_in_models_hands(await self._calls(session)):
                raise
            return Turn(output=[], failure=broken_inside(error))
        ending = Ending(
            journal=played.journal,
            result=played.result,
            attached_images=len(assignment.images),
            context_tokens=assignment.model.context_tokens,
            calls=await self._calls(session),
            complaint=played.complaint,
        )
        return await asyncio.to_thread(_turn, session, played, ending)

    async def _attach(self, sandbox: Sandbox, session: AgentSession, body: ResponsesBody) -> list[str]:
        """Put the body's images into the workspace; their paths, then those of the images uploaded before."""
        images = await asyncio.to_thread(named_images, body, session.images)
        for image in images:
            await sandbox.write(f"{sandbox.workdir}/{image.name}", image.content)
        return [f"{sandbox.workdir}/{name}" for name in (*(image.name for image in images), *session.images)]

    async def _calls(self, session: AgentSession) -> CaptureSummary | None:
        """What the policy server saw of this session; None when it cannot be asked."""
        route = f"/v1/capture_sessions/{session.request.agent_session_id}"
        with suppress(EpisodeError, ConfigError):
            return await self.context.peer(self.config.model_server).call("GET", route, None, CaptureSummary)
        log.warning("no capture summary", extra={"session": session.request.agent_session_id})
        return None


def _model(sandbox: Sandbox, session: AgentSession, body: ResponsesBody) -> Model:
    if sandbox.model_url is None:
        raise SessionError(
            f"sandbox {sandbox.id!r} cannot reach the policy server: set `sandbox_network_access: model_only`",
            kind=FailureKind.SESSION_CONFLICT,
        )
    access = session.request.model
    return Model(
        base_url=sandbox.model_url,
        api_key=access.api_key,
        context_tokens=access.context_tokens,
        max_output_tokens=min(body.max_output_tokens or access.max_output_tokens, access.max_output_tokens),
        temperature=body.temperature,
        top_p=body.top_p,
    )


def _turn(session: AgentSession, played: Played, ending: Ending) -> Turn:
    transcript = make_transcript(played.journal)
    session.report = AgentReport(
        tool_calls=transcript.tool_calls,
        images_read=transcript.images_read,
        notes=[*dict.fromkeys([*played.notes, *transcript.notes])],
        versions={"opencode": played.journal.version or OPENCODE_VERSION},
    )
    return Turn(output=list(transcript.items), usage=_usage(transcript.usage, ending.calls), failure=failure_of(ending))


def _usage(told: Usage, calls: CaptureSummary | None) -> Usage:
    """The policy server's count where it has one."""
    if calls is None or not calls.output_tokens:
        return told
    return Usage(
        input_tokens=calls.input_tokens,
        output_tokens=calls.output_tokens,
        total_tokens=calls.input_tokens + calls.output_tokens,
    )
