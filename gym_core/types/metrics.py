"""The metrics report of a run: `X_aggregate_metrics.json`."""

from gym_core.types.cost import Spend
from gym_core.types.sample import DriftReason
from gym_core.types.wire import Wire


class Estimate(Wire):
    """A mean over tasks with its 95 % interval, clustered by task."""

    mean: float | None
    """None when nothing was measured."""
    ci_low_95: float | None = None
    ci_high_95: float | None = None
    """None with fewer than two measured tasks."""
    tasks: int
    """With at least one measured rollout."""
    rollouts: int
    """Measured."""
    masked: int = 0
    """Rollouts that were finished and left out of the mean."""
    missing: int | None = 0
    """Rollouts that were planned and are not finished; None where nobody knows what was planned."""
    unmeasured_tasks: int = 0
    """Tasks without any measured rollout, all masked or missing: in no mean, never a 0."""


class PassScore(Wire):
    """One repeat of a run as a pass over its tasks."""

    repeat: int
    mean: float | None
    """Over the measured rollouts; None when there is none."""
    measured: int
    masked: int
    missing: int
    """Tasks without a row of this repeat; a pass with none missing is finished."""


class Coverage(Wire):
    expected: int | None
    """Rollouts that the run set out to do; None, as `missing`, of a saved run whose inputs are not there."""
    finished: int
    measured: int
    """Finished and not masked."""
    masked: int
    missing: int | None
    fully_masked_tasks: int


class Spread(Wire):
    mean: float
    median: float
    p95: float
    max: float


class SequenceReport(Wire):
    """The token sequences of many rollouts, and how often a conversation went on while its tokens did not."""

    rollouts: int
    """With at least one call that was captured whole."""
    drifted_rollouts: int
    """Those of them with a drift."""
    drifts: dict[DriftReason, int] = {}
    drifted_tokens: int = 0
    """Tokens, over all drifts, that the next prompt does not go on with."""
    calls: int = 0
    """Captured whole."""
    incomplete_calls: int = 0
    """Answered, but some token of them is not known."""
    sampled_tokens: int = 0

    @property
    def drifted_share(self) -> float:
        return self.drifted_rollouts / self.rollouts if self.rollouts else 0.0


class Measure(Wire):
    """The mean of a column that the environment measures, in that column's own unit."""

    overall: Estimate
    """Over the measured rollouts that have the column."""
    by_subtype: dict[str, Estimate] = {}
    """Keyed "category/subtype"; of subtypes in which some rollout has it."""


class MetricsReport(Wire):
    environment: str
    reward: Estimate
    coverage: Coverage
    key_metrics: dict[str, float]
    """`mean/reward` and every other `mean/*`, pass@k, avg@k, majority@k, by name; fractions in [0, 1] unless named."""
    measures: dict[str, Measure] = {}
    """By column; their overall means are among the key metrics too."""
    by_category: dict[str, Estimate]
    by_subtype: dict[str, Estimate]
    """Keyed "category/subtype"."""
    pass_at: dict[int, Estimate] = {}
    """k to pass@k, of the tasks with at least k measured rollouts; empty without repeats."""
    passes: list[PassScore] = []
    """In order of the repeat."""
    failures: dict[str, int]
    """Failure kind to rollouts, scored and masked alike."""
    masked_failures: dict[str, int]
    tool_calls: dict[str, Spread]
    """Tool name to calls per rollout."""
    tokens: dict[str, Spread]
    """"input", "output" and "images", per rollout."""
    seconds: dict[str, Spread]
    """"total", "model", ... per rollout."""
    matcher_agreement: float | None = None
    """Share of measured rollouts on which the deterministic matcher and the verdict agree; None without both."""
    sequences: SequenceReport | None = None
    """None when the endpoint gave no token ids."""
    spend: Spend | None = None
    """Tokens, cost and time of every attempt; None in reports of before 0.2."""
