"""From a trajectory to a verification: two channels with weights, and what a failed or missing action does to them."""

from dataclasses import dataclass
from typing import Self

from pydantic import Field, model_validator

from gym_core.errors import FailureKind
from gym_core.judging.contract import GradingInput, Judge, JudgeFailed, VerdictLabel
from gym_core.judging.verdict_columns import NOT_JUDGED, verdict_columns
from gym_core.statistics.regions import score_looks
from gym_core.types.responses import ResponsesReply
from gym_core.types.verification import Failure, Verification
from gym_core.types.wire import JsonObject, Wire
from resources_servers.chart_focus.answers import ANSWER_SEPARATOR, final_answer, listed, rule_score
from resources_servers.chart_focus.task import ChartTask
from resources_servers.chart_focus.trajectory import ToolFlag, read_trajectory

RULE, JUDGE, NO_TOOL = "rule", "judge", "no_tool"
"""The two components of the reward, and the shaping term."""


_MAX_WEIGHT = 1e6
"""The sum of two, and each one's share of it, are numbers still."""


class ChannelWeights(Wire):
    """The reward is the channels' mean with these weights."""

    rule: float = Field(default=1.0, ge=0, le=_MAX_WEIGHT)
    judge: float = Field(default=0.0, ge=0, le=_MAX_WEIGHT)
    """0 asks no judge."""

    @model_validator(mode="after")
    def _some_channel_counts(self) -> Self:
        if self.rule + self.judge <= 0:
            raise ValueError("one of the channels needs a weight above 0")
        return self


class RewardRules(Wire):
    """`reward` of the block."""

    channels: ChannelWeights = ChannelWeights()
    failed_tool_scores_zero: bool = True
    """As VTool-R1 has it; false grades the answer all the same."""
    extra_answers_count: bool = False
    """true divides the rule channel by the number of answers where it is larger than that of golds, so that a long list
    of guesses does not pay. VTool-R1 divides by the golds alone."""
    no_tool_weight: float = Field(default=1.0, ge=0, le=1)
    """What a trainer's reward is multiplied by when no action was taken; 1 makes no difference. `reward` stays."""


@dataclass(frozen=True)
class Attempt:
    task: ChartTask
    response: ResponsesReply

    @property
    def answer(self) -> str | None:
        return final_answer(self.response.final_text)


async def grade(attempt: Attempt, rules: RewardRules, judge: Judge | None) -> Verification:
    """`judge` is None where the channel has no weight. Raises JudgeFailed, its details completed."""
    columns = answer_columns(attempt, rules)
    weights, flag = rules.channels, columns["tool_flag"]
    if attempt.answer is None:
        failure = Failure(
            kind=FailureKind.NO_FINAL_ANSWER, reason="no FINAL ANSWER in the last message", stage="verify"
        )
        return Verification.failed(failure, columns)
    if flag == ToolFlag.FAILED and rules.failed_tool_scores_zero:
        names = [RULE] if judge is None else [RULE, JUDGE]
        return Verification(reward=0.0, reward_components=dict.fromkeys(names, 0.0), details=columns)
    scores = {RULE: float(columns["rule_score"])}
    if judge is not None:
        columns |= await _judged(attempt, judge, columns)
        scores[JUDGE] = float(columns["judge_score"])
    total = weights.rule + (weights.judge if judge else 0.0)
    share = {RULE: weights.rule / total, JUDGE: weights.judge / total}
    components = {name: share[name] * score for name, score in scores.items()}
    reward = min(1.0, sum(components.values()))
    less = (rules.no_tool_weight - 1.0) * reward if flag == ToolFlag.NO_TOOL else 0.0
    shaping = {NO_TOOL: less} if less else {}
    return Verification(reward=reward, reward_components=components, shaping=shaping, details=columns)


async def _judged(attempt: Attempt, judge: Judge, columns: JsonObject) -> JsonObject:
    asked = GradingInput(
        question=attempt.task.question,
        gold=attempt.task.expected_answer,
        answer=attempt.answer or "",
        text=attempt.response.final_text,
    )
    try:
        verdict = await judge.grade(asked)
    except JudgeFailed as error:
        error.details = columns | error.details
        raise
    return {"judge_score": float(verdict.label is VerdictLabel.EQUIVALENT), **verdict_columns(verdict)}


def answer_columns(attempt: Attempt, rules: RewardRules) -> JsonObject:
    """Every column of a row, those of the judge empty."""
    task = attempt.task
    answers = listed(attempt.answer or "", ANSWER_SEPARATOR)
    played = read_trajectory(task, attempt.response)
    looks = score_looks(played.focused, task.evidence)
    return {
        "extracted_answer": attempt.answer,
        "rule_score": rule_score(task.golds, answers, count_extra=rules.extra_answers_count),
        "exact_match": float(rule_score(task.golds, answers, count_extra=True) == 1.0),
        "judge_score": None,
        "parse_outcome": played.parse.value,
        "tool_flag": int(played.flag),
        "tool_used": played.flag is ToolFlag.USED,
        "tool_failed": played.flag is ToolFlag.FAILED,
        "actions": played.actions,
        "answered_early": played.answered_early,
        "focus_regions": [[region.x0, region.y0, region.x1, region.y1] for region in played.focused],
        "focus_duplicates": looks.duplicates,
        "roi_recall": looks.recall,
        "roi_precision": looks.precision,
        "roi_iou": looks.best_iou,
        **NOT_JUDGED,
    }
