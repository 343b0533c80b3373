"""From a trajectory to a verification: accuracy as the reward, tool use beside it. Knows no server."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from gym_core.errors import FailureKind
from gym_core.judging.contract import GradingInput, Judge, JudgeFailed, Verdict, VerdictLabel
from gym_core.judging.matching import AnswerKind, match
from gym_core.judging.math_value import same_value
from gym_core.types.responses import ResponsesReply
from gym_core.types.task import TaskData
from gym_core.types.verification import ACCURACY, MAX_TERM, TOOL_USE, Failure, Verification
from gym_core.types.wire import JsonObject, Wire
from resources_servers.pyvision.answer import Form, read_answer
from resources_servers.pyvision.trajectory import end_reason, tool_use
from resources_servers.pyvision.videos import Videos


class Grader(StrEnum):
    """How an answer is compared with the gold."""

    MATCH = "match"
    """By the kind of thing that the gold is, as `gym_core.judging.matching` does."""
    MATH = "math"
    """By value; a gold that has none as `match` does."""
    JUDGE = "judge"
    """As `match` does, and where free texts differ a judge is asked."""


class PyVisionTask(TaskData):
    """What the environment reads of a row."""

    question: str
    """With the choices, as the policy read it; for a judge."""
    expected_answer: Annotated[str, StringConstraints(min_length=1)]
    data_source: str = ""
    grader: Grader | None = None
    """None: what the configuration says for the data source."""
    answer_kind: AnswerKind | None = None
    options: tuple[str, ...] = Field(default=(), max_length=26)
    """Texts of a choice question, the first one being A."""
    videos: Videos = ()
    """`video_clue_0` and on, in the runtime alone."""


class ToolReward(Wire):
    """`tool_reward` of the block: what a trainer's reward has for tool use, beside a right answer."""

    rate: float = Field(default=0.1, ge=0, le=1)
    """For each turn whose code was executed."""
    max_turns: int = Field(default=30, ge=0)
    """So many turns earn it."""

    @model_validator(mode="after")
    def _is_a_term(self) -> Self:
        if self.rate * self.max_turns > MAX_TERM:
            raise ValueError(f"rate {self.rate:g} times max_turns {self.max_turns} is more than {MAX_TERM:g}")
        return self


@dataclass(frozen=True)
class Rules:
    """How a server grades."""

    default_grader: Grader = Grader.MATCH
    graders: Mapping[str, Grader] = field(default_factory=dict)
    """Data source to grader."""
    tool_reward: ToolReward = ToolReward()
    judge: Judge | None = None
    """None: what a judge would be asked has no verdict."""

    def grader_of(self, task: PyVisionTask) -> Grader:
        return task.grader or self.graders.get(task.data_source, self.default_grader)


async def grade(task: PyVisionTask, reply: ResponsesReply, rules: Rules) -> Verification:
    """R = R_acc, and 0.1 n_tc beside it where R_acc is 1. Raises JudgeFailed where there is no verdict to be had."""
    columns = answer_columns(task, reply, rules)
    found = read_answer(reply.final_text)
    if found.form is Form.NONE:
        reason = "the rollout ended with neither code nor <answer></answer>"
        failure = Failure(kind=FailureKind.NO_FINAL_ANSWER, reason=reason, stage="verify")
        return Verification.failed(failure, columns)
    matched = _Match(False, None)
    if found.text is not None:
        matched = await _compared(task, found.text, reply, rules, columns)
    accuracy = float(matched.is_right)
    turns = min(columns["code_turns"], rules.tool_reward.max_turns)
    return Verification(
        reward=accuracy,
        reward_components={ACCURACY: accuracy},
        shaping={TOOL_USE: round(rules.tool_reward.rate * turns * accuracy, 9)},
        details=columns | matched.columns(),
    )


def answer_columns(task: PyVisionTask, reply: ResponsesReply, rules: Rules) -> JsonObject:
    """Every column of a graded row, those of the comparison empty."""
    found = read_answer(reply.final_text)
    columns: JsonObject = {
        "end_reason": end_reason(reply).value,
        "extracted_answer": found.text,
        "answer_form": found.form.value,
        "graded_by": rules.grader_of(task).value,
    }
    return columns | asdict(tool_use(reply)) | _Match(False, None).columns()


@dataclass(frozen=True)
class _Match:
    is_right: bool
    by: str | None
    """ "text", "value", a kind of answer, or "judge"; None where it is wrong or nothing was compared."""
    verdict: Verdict | None = None

    def columns(self) -> JsonObject:
        verdict = self.verdict
        return {
            "matched_by": self.by if self.is_right else None,
            "judge_verdict": verdict.label.value if verdict else None,
            "judge_reason": verdict.reason if verdict else None,
            "judge_raw_reply": verdict.raw_reply if verdict else None,
            "judge_model": verdict.model if verdict else None,
            "judge_usage": verdict.usage.model_dump() if verdict and verdict.usage else None,
        }


async def _compared(
    task: PyVisionTask, answer: str, reply: ResponsesReply, rules: Rules, columns: JsonObject
) -> _Match:
    grader = rules.grader_of(task)
    if grader is Grader.MATH and same_value(task.expected_answer, answer):
        return _Match(True, "value")
    result = match(task.expected_answer, answer, task.answer_kind, task.options)
    if result.equal or grader is not Grader.JUDGE or result.kind is not AnswerKind.TEXT:
        return _Match(result.equal, result.kind.value)
    if rules.judge is None:
        why = f"data source {task.data_source!r} needs a judge for answers in words: set judge_model_server"
        raise JudgeFailed(why, kind=FailureKind.JUDGE_FAILED, details=columns)
    asked = GradingInput(
        question=task.question, gold=task.expected_answer, answer=answer, text=reply.assistant_text(),
        answer_kind=task.answer_kind, options=task.options,
    )  # fmt: skip
    try:
        verdict = await rules.judge.grade(asked)
    except JudgeFailed as error:
        error.details = columns | error.details
        raise
    return _Match(verdict.label is VerdictLabel.EQUIVALENT, "judge", verdict)
