"""A mean over values that come in clusters, one a task, and its interval.

The repeats of a task are not independent, so the task is what is sampled: the variance is that of the tasks' sums of
residuals (the cluster-robust estimator with its T/(T-1) correction), with T - 1 degrees of freedom.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gym_core.statistics.student_t import t_quantile_975
from gym_core.types.metrics import Estimate


@dataclass(frozen=True)
class ClusteredMean:
    mean: float | None
    """None of no values."""
    half_width_95: float | None
    """Of the 95 % t interval; None with fewer than two clusters."""
    clusters: int
    values: int


def clustered_mean(clusters: Iterable[Sequence[float]]) -> ClusteredMean:
    """Each value counts the same, whatever its cluster; empty clusters count for nothing. O(values)."""
    filled = [list(values) for values in clusters if values]
    count, values = len(filled), sum(map(len, filled))
    if not values:
        return ClusteredMean(None, None, 0, 0)
    mean = math.fsum(map(math.fsum, filled)) / values
    if count < 2:
        return ClusteredMean(mean, None, count, values)
    squares = math.fsum(math.fsum(value - mean for value in cluster) ** 2 for cluster in filled)
    half = t_quantile_975(count - 1) * math.sqrt(squares * count / (count - 1)) / values
    return ClusteredMean(mean, half, count, values)


def estimate(rewards_by_task: Iterable[Sequence[float]]) -> Estimate:
    """Mean reward over all rollouts with its interval, clustered by task. Rewards lie in [0, 1]."""
    found = estimate_of_any(rewards_by_task)
    if found.ci_low_95 is None or found.ci_high_95 is None:
        return found
    # Rewards lie in [0, 1], so their mean does: cutting the interval there takes nothing from its coverage.
    return found.model_copy(update={"ci_low_95": max(0.0, found.ci_low_95), "ci_high_95": min(1.0, found.ci_high_95)})


def estimate_of_any(values_by_task: Iterable[Sequence[float]]) -> Estimate:
    """The same of values of any range."""
    found = clustered_mean(values_by_task)
    mean, half = found.mean, found.half_width_95
    if mean is None or half is None:
        return Estimate(mean=mean, tasks=found.clusters, rollouts=found.values)
    return Estimate(
        mean=mean, ci_low_95=mean - half, ci_high_95=mean + half, tasks=found.clusters, rollouts=found.values
    )
