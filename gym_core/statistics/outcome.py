"""What the statistics need of one rollout: small, so that a run keeps all of them in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gym_core.types.rollout import RolloutRecord, RunRequest
from gym_core.types.sample import SequenceSummary
from gym_core.types.task import Task

MATCHER = "matcher"
"""What a row gives as its `judge_model` when the rule-based matcher was the judge; null says so too."""


_MAX_ANSWER_CHARACTERS = 2000
"""Of an answer that is kept for statistics; the record has it whole."""


@dataclass(frozen=True)
class PlannedRollout:
    """One that a run set out to do, whatever became of it."""

    task_hash: str
    repeat: int
    category: str
    subtype: str


@dataclass(frozen=True)
class Outcome:
    """A finished rollout."""

    task_hash: str
    repeat: int
    reward: float | None
    """None when masked."""
    category: str
    subtype: str
    failure: str | None
    agrees_with_matcher: bool | None
    """Of a verdict that somebody else gave."""
    tool_calls: Mapping[str, int]
    tokens: Mapping[str, int]
    seconds: Mapping[str, float]
    sequences: SequenceSummary | None = None
    answer: str | None = None
    """As it was extracted; None when there was none, or the environment's rows have no such column."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """The environment's own numbers, by column."""


def planned_of(request: RunRequest) -> PlannedRollout:
    category, subtype = kinds_of(request.task)
    return PlannedRollout(request.key.task_hash, request.key.repeat, category, subtype)


def kinds_of(task: Task) -> tuple[str, str]:
    """Category and subtype, as its dataset has them; "" where it has none."""
    return str(task.task_data.get("category") or ""), str(task.task_data.get("l2_category") or "")


def outcome_of(record: RolloutRecord) -> Outcome:
    evidence, details = record.evidence, record.verification.details
    capture = evidence.capture
    reward = record.verification.reward
    failure = record.verification.failure
    category, subtype = kinds_of(record.task)
    tokens = (
        {"input": evidence.response.usage.input_tokens, "output": evidence.response.usage.output_tokens}
        if (evidence.response)
        else {}
    )
    return Outcome(
        task_hash=record.key.task_hash,
        repeat=record.key.repeat,
        reward=reward,
        category=category,
        subtype=subtype,
        failure=failure.kind.value if failure else None,
        agrees_with_matcher=agreement_with_matcher(reward, details),
        tool_calls=evidence.agent.tool_calls,
        tokens={**tokens, "images": len(capture.images) if capture else 0},
        seconds=evidence.timing.model_dump(),
        sequences=evidence.sequences,
        answer=answer_of(record),
        measures=record.verification.measures,
    )


def answer_of(record: RolloutRecord) -> str | None:
    """The beginning of the extracted answer, where the environment's rows have one."""
    return kept_answer(record.verification.details.get("extracted_answer"))


def kept_answer(answer: object) -> str | None:
    """As above, of the column's value."""
    return answer[:_MAX_ANSWER_CHARACTERS] if isinstance(answer, str) and answer.strip() else None


def agreement_with_matcher(reward: float | None, details: Mapping[str, object]) -> bool | None:
    """None where the two cannot differ: nothing was measured, nobody judged, or the matcher itself was the judge."""
    matched = details.get("matcher_equal")
    if reward is None or not isinstance(matched, bool) or details.get("judge_model") in (None, MATCHER):
        return None
    return matched == (reward == 1.0)
