"""`/aggregate_metrics`: NeMo's flat verify rows in, NeMo's groups of numbers out."""

from collections import Counter, defaultdict

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from gym_core.statistics.clustered_mean import estimate
from gym_core.statistics.outcome import Outcome
from gym_core.statistics.report import aggregate
from gym_core.types.wire import JsonObject, Wire


class AggregateRequest(Wire):
    verify_responses: list[JsonObject]


class AggregateReply(Wire):
    key_metrics: dict[str, float]
    agent_metrics: dict[str, float]
    """The key metrics, and how many rollouts and tasks they rest on."""
    group_level_metrics: list[JsonObject]
    """One a task."""
    repeat_level_metrics: list[JsonObject]
    """One a repeat, over its tasks."""


class _Row(BaseModel):
    """What a mean needs of a verify row, whoever wrote it."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    reward: float | None
    mask_sample: bool = False
    failure_kind: str | None = None
    category: str = ""
    l2_category: str = ""
    task_index: int = Field(default=0, alias="_ng_task_index")
    rollout_index: int | None = Field(default=None, alias="_ng_rollout_index")
    """None: the next one of its task."""
    measures: dict[str, FiniteFloat] = Field(default={}, alias="_gym_measures")

    def outcome(self, repeat: int) -> Outcome:
        return Outcome(
            task_hash=str(self.task_index),
            repeat=repeat,
            reward=None if self.mask_sample else self.reward,
            category=self.category,
            subtype=self.l2_category,
            failure=self.failure_kind,
            agrees_with_matcher=None,
            tool_calls={},
            tokens={},
            seconds={},
            measures=self.measures,
        )


async def aggregate_rows(request: AggregateRequest) -> AggregateReply:
    """Masked rows are counted and left out of every mean. Raises ValueError for a row without a reward."""
    outcomes = _outcomes([_Row.model_validate(row) for row in request.verify_responses])
    report = aggregate(outcomes, environment="", expected=len(outcomes))
    counts = {f"coverage/{name}": float(value) for name, value in report.coverage.model_dump().items()}
    return AggregateReply(
        key_metrics=report.key_metrics,
        agent_metrics=report.key_metrics | counts,
        group_level_metrics=_by(outcomes, "task_hash", "_ng_task_index"),
        repeat_level_metrics=_by(outcomes, "repeat", "_ng_rollout_index"),
    )


def _outcomes(rows: list[_Row]) -> list[Outcome]:
    outcomes, of_task = [], Counter[int]()
    for row in rows:
        outcomes.append(row.outcome(of_task[row.task_index] if row.rollout_index is None else row.rollout_index))
        of_task[row.task_index] += 1
    return outcomes


def _by(outcomes: list[Outcome], attribute: str, column: str) -> list[JsonObject]:
    groups: dict[int, list[list[float]]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.reward is not None:
            groups[int(getattr(outcome, attribute))].append([outcome.reward])
    rows: list[JsonObject] = []
    for key, rewards in sorted(groups.items()):
        found = estimate(rewards)
        interval = {"ci_low_95": found.ci_low_95, "ci_high_95": found.ci_high_95}
        rows.append({column: key, "num_rollouts": found.rollouts, "mean/reward": found.mean, **interval})
    return rows
