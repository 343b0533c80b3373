"""A policy without a model: each call of a rollout is answered as the same call was in a saved run.

The same proxy, session keys and capture as before any endpoint. What was never recorded has no answer: the rollout then
ends as `replay_diverged`, with the call and the first difference.
"""

import asyncio
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from gym_core.errors import FailureKind
from gym_core.servers.context import ServerContext
from gym_core.servers.model.answer import Answer
from gym_core.servers.model.call import Call
from gym_core.servers.model.config import EndpointSettings, ModelServerConfig
from gym_core.servers.model.messages import IssuedCall
from gym_core.servers.model.proxy import Forward
from gym_core.servers.model.refusal import Refusal, context_exceeded, model_unavailable
from gym_core.servers.model.request import ShapedBody
from gym_core.servers.model.server import DEFAULT_CONTEXT_TOKENS, ModelServer
from gym_core.types.model_call import CallOutcome, CaptureGap, EndpointReport
from gym_core.types.session import CaptureSessionReply, CaptureSessionRequest, CaptureSummary
from model_servers.replay_model.library import Library, NoRecording
from model_servers.replay_model.recording import Diverged, RecordedCall, Recording, same_tools

OPENCODES_DATE = r"Today's date: [A-Z][a-z]{2} [A-Z][a-z]{2} \d{2} \d{4}"
"""In its system prompt: another on another day, and no change of the harness."""
NEVER_RECORDED = "this call was never recorded"
"""All that a harness is told: a quoted difference may hold words that it acts upon."""


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


class ReplayModelConfig(ModelServerConfig):
    run: str = Field(min_length=1)
    """`X.jsonl` of the saved run; its manifest and model calls lie beside it."""
    ignore: list[Annotated[str, AfterValidator(_pattern)]] = [OPENCODES_DATE]
    """Regular expressions over the JSON text of a message: what they match may differ from the recording."""


class UnknownCall(Refusal):
    """What differs is for the record and not for the harness."""

    def __init__(self, detail: str) -> None:
        kind = FailureKind.REPLAY_DIVERGED
        super().__init__(422, kind, NEVER_RECORDED, kind=kind)
        self.args = (detail,)


class ReplayModel(ModelServer[ReplayModelConfig]):
    config_type = ReplayModelConfig

    def __init__(self, config: ReplayModelConfig, context: ServerContext) -> None:
        super().__init__(config, context)
        self._library: Library | None = None
        self._reading = asyncio.Lock()
        self._recordings: dict[str, Recording | NoRecording] = {}

    def endpoint_settings(self) -> EndpointSettings:
        """There is none. A call without a session, which no recording can answer, finds no route at this address."""
        return EndpointSettings(base_urls=(f"{self.context.slice.url}/no_endpoint/v1",), model="replay")

    def forward(self) -> Forward:
        return self._replay

    async def check(self) -> EndpointReport:
        """What the saved run saw of its endpoint, since samples of a replay are that endpoint's."""
        known = EndpointReport(ok=True, answers=True, accepts_images=True, message="", model="replay")
        recorded = (await self._known()).endpoint
        return (recorded or known).model_copy(update={"ok": True, "answers": True, "message": ""})

    async def context_tokens(self) -> int:
        endpoint = (await self._known()).endpoint
        recorded = endpoint.context_tokens if endpoint else None
        return self.config.context_tokens or recorded or DEFAULT_CONTEXT_TOKENS

    async def open_session(self, request: CaptureSessionRequest) -> CaptureSessionReply:
        reply = await super().open_session(request)
        if request.session_id not in self._recordings:
            self._recordings[request.session_id] = await self._recording_for(request)
        return reply

    async def close_session(self, session_id: str) -> CaptureSummary:
        self._recordings.pop(session_id, None)
        return await super().close_session(session_id)

    async def _known(self) -> Library:
        """Read when it is first needed: where answers are only graded again, nobody asks. Raises ConfigError."""
        async with self._reading:
            if self._library is None:
                ignored = [re.compile(text) for text in self.config.ignore]
                self._library = await asyncio.to_thread(Library, Path(self.config.run), ignored)
        return self._library

    async def _recording_for(self, request: CaptureSessionRequest) -> Recording | NoRecording:
        if request.episode_id is None:
            return NoRecording("the session was opened for no rollout (`episode_id`)")
        try:
            return await asyncio.to_thread((await self._known()).recording, request.episode_id.rollout_id)
        except NoRecording as reason:
            return reason

    async def _replay(self, call: Call, body: ShapedBody) -> Answer:
        """Raises Refusal."""
        call.progress.sent = body
        recording = self._recordings.get(call.session.id)
        if not isinstance(recording, Recording):
            raise UnknownCall(str(recording) if recording else "its session is closed")
        try:
            answer = self._recorded(recording, call)
        except UnknownCall as end:
            # Whatever the harness asks after it is answered so, too: it would be no replay.
            self._recordings[call.session.id] = NoRecording(str(end))
            raise
        return answer

    def _recorded(self, recording: Recording, call: Call) -> Answer:
        """Raises Refusal."""
        try:
            recorded = recording.next([message.kept for message in call.messages])
        except Diverged as difference:
            raise UnknownCall(f"call {call.index + 1} was never recorded: {difference}") from difference
        tools = bytes(call.envelope.tools) if call.envelope.has_tools else b""
        if not same_tools(recorded.call.tools, tools):
            call.notes.append("replay_tools_differ")
        return _answer_of(recorded, call)


def _answer_of(recorded: RecordedCall, call: Call) -> Answer:
    """As it was given. Raises the Refusal that a recorded failure was told by."""
    facts, said = recorded.facts, recorded.facts.answer
    if said is None:
        if facts.outcome is not CallOutcome.FAILED:
            raise UnknownCall(
                f"call {call.index + 1} was asked in the recording too (call {recorded.number}), and no answer to it "
                f"was kept there: it was {facts.outcome}"
            )
        message = f"as recorded: {facts.failure_message or facts.failure_kind}"
        if facts.failure_kind == FailureKind.CONTEXT_LIMIT:
            raise context_exceeded(None, message)
        raise model_unavailable(message)
    gaps = tuple(facts.gaps or ())
    return Answer(
        id=f"chatcmpl-{facts.call_id}",
        content=said.content,
        reasoning=said.reasoning,
        reasoning_field="reasoning_content",
        calls=tuple(IssuedCall(tool.id, tool.name, tool.arguments) for tool in said.tool_calls),
        finish_reason=said.finish_reason,
        input_tokens=said.input_tokens,
        output_tokens=said.output_tokens,
        has_usage=CaptureGap.NO_USAGE not in gaps,
        tokens=recorded.call.tokens,
        notes=(),
        gaps=gaps,
    )
