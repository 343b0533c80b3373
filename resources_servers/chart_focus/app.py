"""The resources server of `chart_focus`: questions about charts and tables, with one look that the model edits."""

from typing import Self

from pydantic import Field, model_validator

from gym_core.config.schema import ServerRef
from gym_core.errors import InvalidTask
from gym_core.judging.check import check_judge
from gym_core.judging.contract import Judge
from gym_core.judging.llm_judge import LlmJudge
from gym_core.judging.model_server_endpoint import ModelServerEndpoint
from gym_core.judging.yes_no_prompt import REASK, SYSTEM, parse_yes_no
from gym_core.servers.context import ServerContext
from gym_core.servers.python_runtime import Execution, PythonSession, PythonToolServer, PythonToolServerConfig, Setup
from gym_core.servers.resources import Submission
from gym_core.servers.tools import ToolOutput, ToolSession
from gym_core.types.checkup import JudgeReport
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from resources_servers.chart_focus.grading import Attempt, RewardRules, answer_columns, grade
from resources_servers.chart_focus.runtime import chart_setup, observation
from resources_servers.chart_focus.task import ChartTask

_JUDGE_TOKENS = 256


class ChartFocusConfig(PythonToolServerConfig):
    reward: RewardRules = RewardRules()
    judge_model_server: ServerRef | None = None
    """The chat model behind the channel `judge`."""
    judge_timeout_s: float = Field(default=120.0, gt=0, le=290)
    """Of one call; an answer takes six at most."""
    judge_max_in_flight: int = Field(default=32, gt=0)

    @model_validator(mode="after")
    def _judge_channel_has_a_server(self) -> Self:
        if self.reward.channels.judge and self.judge_model_server is None:
            raise ValueError("reward.channels.judge needs judge_model_server (or set it to 0)")
        return self

    @model_validator(mode="after")
    def _an_edited_image_is_shown(self) -> Self:
        if not self.python_runtime.max_images:
            raise ValueError("python_runtime.max_images: 0 shows no edited image, so that every action would fail")
        return self


class ChartFocusServer(PythonToolServer[ChartTask, ChartFocusConfig]):
    config_type = ChartFocusConfig
    task_type = ChartTask
    measured_columns = (
        "exact_match",
        "rule_score",
        "judge_score",
        "tool_used",
        "tool_failed",
        "roi_recall",
        "roi_precision",
        "roi_iou",
    )

    def __init__(self, config: ChartFocusConfig, context: ServerContext) -> None:
        super().__init__(config, context)
        self.judge = self._make_judge()

    def check_image(self, session: ToolSession[ChartTask], index: int) -> None:
        """The boxes are those of the first image, whether or not the model comes to use them."""
        image = session.shelf[0]
        try:
            session.task.check_boxes(width=image.width, height=image.height)
        except ValueError as error:
            raise InvalidTask(str(error)) from error

    def setup(self, session: PythonSession[ChartTask]) -> Setup:
        if not len(session.shelf):
            raise InvalidTask("a task of chart_focus has an image in its prompt")
        return chart_setup(session.task, session.shelf[0].content)

    def observe(self, session: PythonSession[ChartTask], execution: Execution) -> ToolOutput:
        return observation(execution)

    async def verify(self, submission: Submission[ChartTask]) -> Verification:
        return await grade(_attempt(submission), self.config.reward, self.judge)

    async def describe_failure(self, submission: Submission[ChartTask]) -> JsonObject:
        return answer_columns(_attempt(submission), self.config.reward)

    async def check_grader(self) -> JudgeReport:
        return await check_judge(self.judge) if self.judge else JudgeReport()

    def _make_judge(self) -> Judge | None:
        server = self.config.judge_model_server
        if not self.config.reward.channels.judge or server is None:
            return None
        endpoint = ModelServerEndpoint(
            self.context.peer(server), model=server.name, timeout_s=self.config.judge_timeout_s
        )
        return LlmJudge(
            endpoint,
            instructions=SYSTEM,
            read_reply=parse_yes_no,
            reask=REASK,
            max_tokens=_JUDGE_TOKENS,
            max_in_flight=self.config.judge_max_in_flight,
        )


def _attempt(submission: Submission[ChartTask]) -> Attempt:
    return Attempt(submission.task, submission.response)
