"""The harness `tool_agent`: a native loop of model and tools over chat completions. No sandbox, no program of its own.

The tools are those of the environment: they run in its resources server (docs/decisions/011-tools-over-http.md).
"""

import asyncio
from collections.abc import Sequence

from agent_servers.tool_agent.budgets import Budgets, Ending
from agent_servers.tool_agent.dialects.names import DialectName, dialect_of
from agent_servers.tool_agent.dialects.openai import ToolImages
from agent_servers.tool_agent.loop import Policy, ToolLoop
from agent_servers.tool_agent.shown_images import ShownPixels
from agent_servers.tool_agent.toolbox import Toolbox
from gym_core.errors import AgentError, FailureKind, InvalidTask
from gym_core.servers.agent import AgentServer, AgentServerConfig, AgentSession, Turn
from gym_core.types.responses import ResponsesBody
from gym_core.types.tool import ToolAccess

_GRACE_S = 30.0


class ToolAgentConfig(AgentServerConfig):
    dialect: DialectName = "openai"
    """How the model writes its calls: by the endpoint's own tool calling, or in its text."""
    tool_images: ToolImages = "user"
    """Where the pictures of a tool go in the dialect "openai": many chat templates take none in a tool message."""
    explain_calls: bool = True
    """Whether the system prompt says how a text dialect writes calls; false where the task's own prompt does."""
    shown_pixels: ShownPixels | None = None
    """What pictures are scaled to before the model is shown them; tools keep them as they are. None scales none."""
    budgets: Budgets = Budgets()


class ToolAgent(AgentServer[ToolAgentConfig]):
    config_type = ToolAgentConfig

    async def run_turn(self, session: AgentSession, body: ResponsesBody) -> Turn:
        if body.tools:
            raise InvalidTask("the task declares tools of its own: tool_agent offers those of the resources server")
        limit_s = self.config.timeout_s
        access = session.request.model
        policy = Policy(self.context.pool.service(access.base_url, access.api_key), access, limit_s + _GRACE_S)
        toolbox = Toolbox(session.request.tool_accesses, self.context.pool, self.config.shown_pixels)
        dialect = dialect_of(self.config.dialect, tool_images=self.config.tool_images)
        explains = self.config.explain_calls
        loop = ToolLoop(
            policy, toolbox, dialect, self._budgets(body, session.request.tool_accesses), explains_calls=explains
        )
        record = loop.record
        try:
            async with asyncio.timeout(limit_s):
                await loop.play(body)
        except TimeoutError:
            record.end(Ending.TIMEOUT, AgentError("the time limit came first", kind=FailureKind.AGENT_TIMEOUT))
        finally:
            session.report = record.report()
        return Turn(output=record.output, usage=record.usage, failure=record.failure, ending=record.ending)

    def _budgets(self, body: ResponsesBody, accesses: Sequence[ToolAccess]) -> Budgets:
        """The block's, made tighter by what the row and the environment say."""
        budgets = self.config.budgets
        turns = [budgets.max_turns, *(access.max_turns for access in accesses)]
        calls = [budgets.max_tool_calls, body.max_tool_calls, *(access.max_tool_calls for access in accesses)]
        tighter = {
            "max_turns": min(limit for limit in turns if limit is not None),
            "max_tool_calls": max(0, min(limit for limit in calls if limit is not None)),
        }
        return budgets.model_copy(update=tighter)
