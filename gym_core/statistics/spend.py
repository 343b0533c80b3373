"""What attempts took, added up: each attempt once, however many files tell of it. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gym_core.statistics.student_t import t_quantile_975
from gym_core.types.cost import Forecast, RestEstimate, RunPrices, Spend, TokenCount
from gym_core.types.rollout import EpisodeEvidence, RolloutKey, RolloutRecord
from gym_core.types.wire import JsonObject

JUDGE_USAGE = "judge_usage"
"""The grader's column with the tokens of its judge: a `TokenCount`, or null where no model was asked."""


@dataclass(frozen=True)
class AttemptSpend:
    """Of one episode, or of all those of a rollout."""

    policy: TokenCount
    judge: TokenCount
    total_s: float
    sandbox_s: float
    """0 without a sandbox."""
    model_s: float

    def __add__(self, other: "AttemptSpend") -> "AttemptSpend":
        return AttemptSpend(
            policy=self.policy + other.policy,
            judge=self.judge + other.judge,
            total_s=self.total_s + other.total_s,
            sandbox_s=self.sandbox_s + other.sandbox_s,
            model_s=self.model_s + other.model_s,
        )


def attempt_spend(evidence: EpisodeEvidence, details: Mapping[str, object]) -> AttemptSpend:
    """`details` are the grader's columns; {} for an attempt that was not graded."""
    timing = evidence.timing
    return AttemptSpend(
        policy=_policy_tokens(evidence),
        judge=_judge_tokens(details.get(JUDGE_USAGE)),
        total_s=timing.total,
        sandbox_s=timing.total if evidence.sandbox else 0.0,
        model_s=timing.model,
    )


def _policy_tokens(evidence: EpisodeEvidence) -> TokenCount:
    capture = evidence.capture
    if capture is None:
        return TokenCount()
    answered = max(capture.calls - capture.failed_calls, 0)
    # Rows of before calls were counted so: an answer without a single token of prompt was not counted.
    is_uncounted = answered > 0 and not capture.input_tokens
    return TokenCount(
        input=capture.input_tokens,
        cached_input=capture.cached_input_tokens,
        output=capture.output_tokens,
        calls=answered,
        uncounted_calls=answered if is_uncounted else min(capture.uncounted_calls, answered),
    )


def _judge_tokens(usage: object) -> TokenCount:
    try:
        return TokenCount.model_validate(usage) if usage is not None else TokenCount()
    except ValueError:  # some other grader's column of that name
        return TokenCount()


@dataclass
class SpendTally:
    """The attempts of one run, each once."""

    prices: RunPrices = field(default_factory=RunPrices)

    def __post_init__(self) -> None:
        self._seen: set[tuple[str, int, int]] = set()
        self._policy = TokenCount()
        self._judge = TokenCount()
        self._sandbox_s = self._model_s = 0.0
        self._rollouts: dict[tuple[str, int], AttemptSpend] = {}
        self._busy: list[tuple[float, float]] = []
        """Spans of Unix time in which something was played: apart from each other, in order."""

    def note_record(self, record: RolloutRecord) -> None:
        self.note(record.key, record.evidence, record.verification.details, ended_at=record.finished_at)

    def note(
        self, key: RolloutKey, evidence: EpisodeEvidence, details: Mapping[str, object], *, ended_at: float
    ) -> None:
        """An attempt that ended then (Unix time); one that was noted before is left out."""
        attempt = (key.task_hash, key.repeat, evidence.episode_id.attempt)
        if attempt in self._seen:
            return
        self._seen.add(attempt)
        spent = attempt_spend(evidence, details)
        rollout = attempt[:2]
        self._rollouts[rollout] = self._rollouts[rollout] + spent if rollout in self._rollouts else spent
        self._policy += spent.policy
        self._judge += spent.judge
        self._sandbox_s += spent.sandbox_s
        self._model_s += spent.model_s
        self._note_span(ended_at - spent.total_s, ended_at)

    def _note_span(self, start: float, end: float) -> None:
        """Attempts come about in the order in which they end, so that only the last spans are touched."""
        later: list[tuple[float, float]] = []
        while self._busy and self._busy[-1][1] >= start:
            before = self._busy.pop()
            if before[0] > end:
                later.append(before)
            else:
                start, end = min(start, before[0]), max(end, before[1])
        self._busy += [(start, end), *reversed(later)]

    def rollouts(self) -> list[AttemptSpend]:
        """A rollout each, all of its attempts together."""
        return list(self._rollouts.values())

    def total(self) -> Spend:
        policy, judge, prices = self._policy, self._judge, self.prices
        return Spend(
            attempts=len(self._seen),
            policy=policy,
            judge=judge,
            policy_cost=prices.policy.cost_of(policy) if prices.policy else None,
            judge_cost=prices.judge.cost_of(judge) if prices.judge else None,
            cost=prices.cost_of(policy, judge),
            currency=prices.currency,
            wall_s=math.fsum(end - start for start, end in self._busy),
            sandbox_s=self._sandbox_s,
            model_s=self._model_s,
        )


def estimate_rest(
    seen: Sequence[AttemptSpend], *, rollouts: int, parallel: int, prices: RunPrices
) -> RestEstimate | None:
    """What so many further rollouts take, `parallel` of them in flight. None when nothing was seen.

    `seen` is a rollout each, the attempts that it needed together: so retries are in the estimate.
    """
    if not seen:
        return None
    slots = max(1, min(parallel, rollouts))
    costs = [prices.cost_of(spent.policy, spent.judge) for spent in seen]
    known = [cost for cost in costs if cost is not None]
    return RestEstimate(
        rollouts=rollouts,
        seen=len(seen),
        wall_s=_forecast([spent.total_s / slots for spent in seen], rollouts),
        sandbox_s=_forecast([spent.sandbox_s for spent in seen], rollouts),
        input_tokens=_forecast([spent.policy.input + spent.judge.input for spent in seen], rollouts),
        output_tokens=_forecast([spent.policy.output + spent.judge.output for spent in seen], rollouts),
        cost=_forecast(known, rollouts) if len(known) == len(costs) else None,
        currency=prices.currency,
    )


def _forecast(values: Sequence[float], draws: int) -> Forecast:
    """The sum of `draws` further values like these, with the interval that holds it 95 times of 100.

    Two things are uncertain: the mean, known from n values, and the draws themselves. The variance of the sum is
    s^2 (draws^2 / n + draws); t quantile with n - 1 degrees, cut at 0.
    """
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return Forecast(mean=draws * mean)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = t_quantile_975(n - 1) * math.sqrt(variance * (draws * draws / n + draws))
    return Forecast(mean=draws * mean, low_95=max(0.0, draws * mean - half), high_95=draws * mean + half)


def failure_spend(row: JsonObject) -> tuple[RolloutKey, EpisodeEvidence, float]:
    """A line of the failures file as what `SpendTally.note` takes: key, evidence, when it ended. Raises ValueError."""
    try:
        key = RolloutKey(task_hash=row["task_hash"], repeat=row["repeat"])
        return key, EpisodeEvidence.model_validate(row["evidence"]), float(row["failed_at"])
    except KeyError as error:
        raise ValueError(f"a failed attempt's line lacks {error}") from error
