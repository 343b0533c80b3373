"""The smallest harness: one chat completion with the task's text and images. No tools, no sandbox."""

import asyncio

from agent_servers.single_call.chat import make_request, turn_of
from gym_core.errors import AgentError, FailureKind
from gym_core.servers.agent import AgentServer, AgentServerConfig, AgentSession, Turn
from gym_core.types.responses import ResponsesBody

_GRACE_S = 30.0


class SingleCall(AgentServer[AgentServerConfig]):
    async def run_turn(self, session: AgentSession, body: ResponsesBody) -> Turn:
        access = session.request.model
        request = make_request(body, access)
        policy = self.context.pool.service(access.base_url, access.api_key)
        limit_s = self.config.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                reply = await policy.send("POST", "/chat/completions", body=request, timeout_s=limit_s + _GRACE_S)
        except TimeoutError:
            return Turn(output=[], failure=AgentError("the time limit came first", kind=FailureKind.AGENT_TIMEOUT))
        return turn_of(reply.status, reply.body, context_tokens=access.context_tokens)
