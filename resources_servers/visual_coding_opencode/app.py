"""The resources server of `visual_coding_opencode`: lends the sandbox, grades the answer about the image."""

from typing import Literal, Self

from pydantic import Field, model_validator

from gym_core.config.schema import ServerRef
from gym_core.judging.check import check_judge
from gym_core.judging.contract import Judge
from gym_core.judging.grader_prompt import SYSTEM
from gym_core.judging.llm_judge import LlmJudge
from gym_core.judging.matcher_judge import MatcherJudge
from gym_core.judging.model_server_endpoint import ModelServerEndpoint
from gym_core.servers.context import ServerContext
from gym_core.servers.resources import ResourcesServer, ResourcesServerConfig, Submission
from gym_core.types.checkup import JudgeReport
from gym_core.types.verification import Verification
from gym_core.types.wire import JsonObject
from resources_servers.visual_coding_opencode.grading import Attempt, VisualCodingTask, answer_columns, grade_attempt


class VisualCodingConfig(ResourcesServerConfig):
    judge: Literal["llm", "matcher"] = "llm"
    """"matcher" compares by rule: no judge server and no key, for golds of a known form."""
    judge_model_server: ServerRef | None = None
    """The chat model behind `judge: llm`."""
    judge_timeout_s: float = Field(default=180.0, gt=0, le=290)
    """Of one call, the judge server's own retries included. An answer takes six calls at most (three tries, and three
    more when the reply held no verdict), which must end before the head server gives grading up (VERIFY_TIMEOUT_S)."""
    judge_max_in_flight: int = Field(default=32, gt=0)
    judge_instructions: str | None = Field(default=None, min_length=1)
    """What the judge is told, in place of `grader_prompt.SYSTEM`. It must ask for the same JSON object."""

    @model_validator(mode="after")
    def _llm_judge_has_a_server(self) -> Self:
        if self.judge == "llm" and self.judge_model_server is None:
            raise ValueError("judge: llm needs judge_model_server (or set judge: matcher)")
        return self


class VisualCodingServer(ResourcesServer[VisualCodingTask, VisualCodingConfig]):
    config_type = VisualCodingConfig
    task_type = VisualCodingTask

    def __init__(self, config: VisualCodingConfig, context: ServerContext) -> None:
        super().__init__(config, context)
        self.judge: Judge = self._make_judge()

    async def verify(self, submission: Submission[VisualCodingTask]) -> Verification:
        return await grade_attempt(_attempt(submission), self.judge)

    async def describe_failure(self, submission: Submission[VisualCodingTask]) -> JsonObject:
        return answer_columns(_attempt(submission))

    async def check_grader(self) -> JudgeReport:
        return await check_judge(self.judge)

    def _make_judge(self) -> Judge:
        if self.config.judge == "matcher" or self.config.judge_model_server is None:
            return MatcherJudge()
        server = self.config.judge_model_server
        endpoint = ModelServerEndpoint(
            self.context.peer(server), model=server.name, timeout_s=self.config.judge_timeout_s
        )
        return LlmJudge(
            endpoint,
            instructions=self.config.judge_instructions or SYSTEM,
            max_in_flight=self.config.judge_max_in_flight,
        )


def _attempt(submission: Submission[VisualCodingTask]) -> Attempt:
    return Attempt(submission.task, final_text=submission.text, all_text=submission.assistant_text)
