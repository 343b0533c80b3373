"""The resources server of `pyvision_image` and `pyvision_video`: a living Python process with clues, PyVision's reward.

The two differ in their rows: images are in the prompt and in the process, videos in the process alone.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from gym_core.config.schema import ServerRef
from gym_core.judging.check import check_judge
from gym_core.judging.contract import Judge
from gym_core.judging.llm_judge import LlmJudge
from gym_core.judging.model_server_endpoint import ModelServerEndpoint
from gym_core.servers.context import ServerContext
from gym_core.servers.python_runtime import (
    GRACE_S,
    CodeArguments,
    Execution,
    PythonSession,
    PythonToolServer,
    PythonToolServerConfig,
    Setup,
)
from gym_core.servers.resources import ResourcesSession, Submission
from gym_core.servers.tools import Tool, ToolError, ToolOutput, ToolSession
from gym_core.types.checkup import JudgeReport
from gym_core.types.session import SeedSessionRequest
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from resources_servers.pyvision.clues import BINDING_TIMEOUT_S, binding_of, setup_of
from resources_servers.pyvision.grading import Grader, PyVisionTask, Rules, ToolReward, answer_columns, grade
from resources_servers.pyvision.observation import Observation, clue_name
from resources_servers.pyvision.videos import place_videos


class PyVisionConfig(PythonToolServerConfig):
    tool_timeout_s: float = Field(default=300.0, gt=0)
    """Of one call: a run of the model's code, and one of ours that gives its pictures their names."""
    beside_s: ClassVar[float] = 2 * BINDING_TIMEOUT_S + GRACE_S
    tool_reward: ToolReward = ToolReward()
    default_grader: Grader = Grader.MATCH
    """Of rows that name no grader and whose data source is not in `graders`."""
    graders: dict[str, Grader] = {}
    """Data source to grader."""
    judge_model_server: ServerRef | None = None
    """The chat model behind the grader `judge`; None masks what rows of their own would ask it."""
    judge_timeout_s: float = Field(default=180.0, gt=0, le=290)
    """Of one call, the judge server's own retries included."""
    judge_max_in_flight: int = Field(default=32, gt=0)
    videos_path: str | None = None
    """Path inside a sandbox of the folder in which the rows' video files are; None is the one mount that there is."""
    max_video_bytes: int = Field(default=2 << 30, gt=0)
    """Of one file in that folder."""

    @model_validator(mode="after")
    def _judge_has_a_server(self) -> Self:
        if self.judge_model_server is None and Grader.JUDGE in (self.default_grader, *self.graders.values()):
            raise ValueError("a grader is judge: that needs judge_model_server")
        return self

    @model_validator(mode="after")
    def _videos_path_is_shared(self) -> Self:
        targets = [mount.target for mount in self.sandbox_config.mounts]
        path = self.videos_path
        if path is not None and not any(path == target or path.startswith(f"{target}/") for target in targets):
            raise ValueError(f"videos_path: {path!r} is in none of sandbox_config.mounts {targets}")
        return self

    @property
    def shared_videos(self) -> str | None:
        mounts = self.sandbox_config.mounts
        return self.videos_path or (mounts[0].target if len(mounts) == 1 else None)


@dataclass
class PyVisionSession(PythonSession[PyVisionTask]):
    videos: list[str] = field(default_factory=list)
    """Paths inside."""
    images: dict[str, bytes] = field(default_factory=dict)
    """Files of the clues by name: the prompt's, and what was shown since."""


class PyVisionServer(PythonToolServer[PyVisionTask, PyVisionConfig]):
    config_type = PyVisionConfig
    task_type = PyVisionTask
    measured_columns = ("code_turns", "code_turns_raised", "code_turns_useful", "format_failures", "images_shown")

    def __init__(self, config: PyVisionConfig, context: ServerContext) -> None:
        super().__init__(config, context)
        self.rules = Rules(config.default_grader, config.graders, config.tool_reward, self._make_judge())

    # -- a session ----------------------------------------------------------

    def make_session(self, request: SeedSessionRequest) -> PyVisionSession:
        return PyVisionSession(**vars(super().make_session(request)))

    async def begin_session(self, session: ResourcesSession) -> None:
        await super().begin_session(session)
        held = _held(session)
        if held.sandbox is not None:
            held.videos = await place_videos(
                held.task.videos,
                held.sandbox,
                shared=self.config.shared_videos,
                max_bytes=self.config.max_video_bytes,
            )

    def list_tools(self, task: PyVisionTask) -> list[Tool[Any]]:
        return [dataclasses.replace(tool, run=self._run_and_bind) for tool in super().list_tools(task)]

    def setup(self, session: PythonSession[PyVisionTask]) -> Setup:
        held = _held(session)
        held.images |= {clue_name(index): held.shelf[index].content for index in range(held.shelf.prompt_count)}
        return setup_of(held.images, held.videos)

    def observe(self, session: PythonSession[PyVisionTask], execution: Execution) -> ToolOutput:
        if execution.outcome == "not_run":
            raise ToolError("; ".join(execution.notes))
        notes = [f"[{note}]" for note in execution.notes]
        seen = Observation(execution.text, execution.images, execution.outcome == "ok", notes)
        return ToolOutput(seen.parts(len(session.shelf)))

    async def _run_and_bind(self, session: ToolSession[PyVisionTask], arguments: CodeArguments) -> ToolOutput:
        """Run the code; the pictures that it showed are variables for the next one."""
        output = await self.run_code(session, arguments)
        notes = await self._bind(_held(session), [part for part in output.parts if isinstance(part, bytes)])
        return dataclasses.replace(output, parts=[*output.parts, *notes])

    async def _bind(self, held: PyVisionSession, pictures: Sequence[bytes]) -> list[str]:
        """What the model is to know of it: its code can stand in the way, and its pictures are shown all the same."""
        first = len(held.shelf)
        made = {clue_name(first + index): picture for index, picture in enumerate(pictures)}
        held.images |= made
        if not made or held.runtime is None:
            return []
        code = binding_of(list(made), held.runtime.folder)
        bound = await held.runtime.hand_over(made, code, timeout_s=BINDING_TIMEOUT_S)
        if bound is None or bound.outcome == "ok":
            return []
        why = bound.text.strip().splitlines()[-1:] if bound.outcome == "raised" else bound.notes
        return [f"[{', '.join(made)} could not be made variables: {'; '.join(why)[:300]}]"]

    # -- the grade ----------------------------------------------------------

    async def verify(self, submission: Submission[PyVisionTask]) -> Verification:
        return await grade(submission.task, submission.response, self.rules)

    async def describe_failure(self, submission: Submission[PyVisionTask]) -> JsonObject:
        return answer_columns(submission.task, submission.response, self.rules)

    async def check_grader(self) -> JudgeReport:
        return await check_judge(self.rules.judge) if self.rules.judge else JudgeReport()

    def _make_judge(self) -> Judge | None:
        server = self.config.judge_model_server
        if server is None:
            return None
        peer, limit_s = self.context.peer(server), self.config.judge_timeout_s
        endpoint = ModelServerEndpoint(peer, model=server.name, timeout_s=limit_s)
        return LlmJudge(endpoint, max_in_flight=self.config.judge_max_in_flight)


def _held(session: ResourcesSession) -> PyVisionSession:
    assert isinstance(session, PyVisionSession)
    return session
