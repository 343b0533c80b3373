"""From records to numbers: means with intervals clustered by task, pass@k, coverage, failures. Pure."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gym_core.types.metrics import Coverage, Estimate, MetricsReport, SequenceReport, Spread
from gym_core.types.rollout import RolloutRecord
from gym_core.types.sample import DriftReason, SequenceSummary

MATCHER = "matcher"
"""What a row gives as its `judge_model` when the rule-based matcher was the judge; null says so too."""


@dataclass(frozen=True)
class Outcome:
    """What the metrics need of one record; small, so that a run keeps all of them in memory."""

    task_hash: str
    repeat: int
    reward: float | None
    category: str
    subtype: str
    failure: str | None
    agrees_with_matcher: bool | None
    """Of a verdict that somebody else gave."""
    tool_calls: Mapping[str, int]
    tokens: Mapping[str, int]
    seconds: Mapping[str, float]
    sequences: SequenceSummary | None = None


def outcome_of(record: RolloutRecord) -> Outcome:
    data, evidence, details = record.task.task_data, record.evidence, record.verification.details
    capture = evidence.capture
    reward = record.verification.reward
    failure = record.verification.failure
    tokens = (
        {"input": evidence.response.usage.input_tokens, "output": evidence.response.usage.output_tokens}
        if (evidence.response)
        else {}
    )
    return Outcome(
        task_hash=record.key.task_hash,
        repeat=record.key.repeat,
        reward=reward,
        category=str(data.get("category") or ""),
        subtype=str(data.get("l2_category") or ""),
        failure=failure.kind.value if failure else None,
        agrees_with_matcher=_agrees_with_matcher(reward, details),
        tool_calls=evidence.agent.tool_calls,
        tokens={**tokens, "images": len(capture.images) if capture else 0},
        seconds=evidence.timing.model_dump(),
        sequences=evidence.sequences,
    )


def _agrees_with_matcher(reward: float | None, details: Mapping[str, object]) -> bool | None:
    """None where the two cannot differ: nothing was measured, nobody judged, or the matcher itself was the judge."""
    matched = details.get("matcher_equal")
    if reward is None or not isinstance(matched, bool) or details.get("judge_model") in (None, MATCHER):
        return None
    return matched == (reward == 1.0)


def aggregate(outcomes: Sequence[Outcome], *, environment: str, expected: int) -> MetricsReport:
    """The report of a run of `expected` rollouts. O(outcomes)."""
    by_task = _rewards_by_task(outcomes)
    reward = estimate(by_task.values())
    masked = [o for o in outcomes if o.reward is None]
    measured = [o for o in outcomes if o.reward is not None]
    measured_tasks = by_task.keys()
    fully_masked = {o.task_hash for o in masked} - measured_tasks
    agreements = [o.agrees_with_matcher for o in outcomes if o.agrees_with_matcher is not None]
    return MetricsReport(
        environment=environment,
        reward=reward,
        coverage=Coverage(
            expected=expected,
            finished=len(outcomes),
            measured=reward.rollouts,
            masked=len(masked),
            missing=expected - len(outcomes),
            fully_masked_tasks=len(fully_masked),
        ),
        key_metrics=_key_metrics(measured, by_task),
        by_category=_split(outcomes, lambda o: o.category),
        by_subtype=_split(outcomes, lambda o: f"{o.category}/{o.subtype}" if o.subtype else ""),
        failures=dict(Counter(o.failure for o in outcomes if o.failure)),
        masked_failures=dict(Counter(o.failure for o in masked if o.failure)),
        tool_calls=_spreads([o.tool_calls for o in measured]),
        tokens=_spreads([o.tokens for o in measured]),
        seconds=_spreads([o.seconds for o in outcomes]),
        matcher_agreement=sum(agreements) / len(agreements) if agreements else None,
        sequences=sequence_report(o.sequences for o in outcomes),
    )


def sequence_report(summaries: Iterable[SequenceSummary | None]) -> SequenceReport | None:
    """Sums over rollouts; None when none of them has an answered call."""
    known = [summary for summary in summaries if summary is not None]
    if not known:
        return None
    drifts: Counter[DriftReason] = Counter()
    for summary in known:
        drifts.update(summary.drifts)
    return SequenceReport(
        rollouts=sum(summary.calls > 0 for summary in known),
        drifted_rollouts=sum(any(summary.drifts.values()) for summary in known),
        drifts=dict(drifts),
        drifted_tokens=sum(summary.drifted_tokens for summary in known),
        calls=sum(summary.calls for summary in known),
        incomplete_calls=sum(summary.incomplete_calls for summary in known),
        sampled_tokens=sum(summary.sampled_tokens for summary in known),
    )


def estimate(rewards_by_task: Iterable[Sequence[float]]) -> Estimate:
    """Mean over all rollouts, with the 95 % t interval of a mean whose rollouts come in clusters, one a task.

    The repeats of a task are not independent, so the task is what is sampled: the variance is that of the tasks' sums
    of residuals (the cluster-robust estimator with its T/(T-1) correction), T - 1 degrees of freedom.
    """
    clusters = [list(rewards) for rewards in rewards_by_task if rewards]
    tasks, rollouts = len(clusters), sum(map(len, clusters))
    if not rollouts:
        return Estimate(mean=None, tasks=0, rollouts=0)
    mean = math.fsum(map(math.fsum, clusters)) / rollouts
    if tasks < 2:
        return Estimate(mean=mean, tasks=tasks, rollouts=rollouts)
    squares = math.fsum(math.fsum(r - mean for r in rewards) ** 2 for rewards in clusters)
    half = t_quantile_975(tasks - 1) * math.sqrt(squares * tasks / (tasks - 1)) / rollouts
    # Rewards lie in [0, 1], so their mean does: cutting the interval there takes nothing from its coverage.
    low, high = max(0.0, mean - half), min(1.0, mean + half)
    return Estimate(mean=mean, ci_low_95=low, ci_high_95=high, tasks=tasks, rollouts=rollouts)


def t_quantile_975(degrees: int) -> float:
    """97.5 % point of Student's t. Exact for 1 and 2 degrees; else Hill's expansion around the normal, within 0.3 %."""
    if degrees == 1:
        return 12.706205
    if degrees == 2:
        return 4.302653
    z, n = 1.959964, float(degrees)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )


def pass_at_k(rewards: Sequence[float], k: int) -> float:
    """Unbiased chance that k of a task's n >= k rollouts hold a right one (reward 1)."""
    n, right = len(rewards), sum(reward >= 1.0 for reward in rewards)
    return 1.0 - math.comb(n - right, k) / math.comb(n, k)


def _key_metrics(outcomes: Sequence[Outcome], by_task: Mapping[str, list[float]]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    rewards = [reward for rewards in by_task.values() for reward in rewards]
    if rewards:
        metrics["mean/reward"] = math.fsum(rewards) / len(rewards)
    for name in ("input", "output", "images"):
        values = [o.tokens[name] for o in outcomes if name in o.tokens]
        if values:
            metrics[f"mean/{name}{'' if name == 'images' else '_tokens'}"] = sum(values) / len(values)
    repeats = min(map(len, by_task.values()), default=0)
    if repeats > 1:
        for k in range(1, repeats + 1):
            metrics[f"pass@{k}"] = math.fsum(pass_at_k(r, k) for r in by_task.values()) / len(by_task)
        metrics |= _avg_at(repeats, list(by_task.values()))
    return metrics


def _avg_at(repeats: int, rewards_by_task: list[list[float]]) -> dict[str, float]:
    """avg@k as BabyVision reports it: the mean over k passes, and the population standard deviation of the passes."""
    passes = [math.fsum(rewards[i] for rewards in rewards_by_task) / len(rewards_by_task) for i in range(repeats)]
    mean = math.fsum(passes) / repeats
    std = math.sqrt(math.fsum((p - mean) ** 2 for p in passes) / repeats)
    return {f"avg@{repeats}": mean, f"avg@{repeats}/std": std}


def _rewards_by_task(outcomes: Iterable[Outcome]) -> dict[str, list[float]]:
    by_task: dict[str, list[float]] = defaultdict(list)
    for outcome in sorted(outcomes, key=lambda o: o.repeat):
        if outcome.reward is not None:
            by_task[outcome.task_hash].append(outcome.reward)
    return dict(by_task)


def _split(outcomes: Sequence[Outcome], key: Callable[[Outcome], str]) -> dict[str, Estimate]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if name := key(outcome):
            groups[name].append(outcome)
    return {name: estimate(_rewards_by_task(group).values()) for name, group in sorted(groups.items())}


def _spreads(rows: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    names = sorted({name for row in rows for name in row})
    return {name: _spread(sorted(row.get(name, 0) for row in rows)) for name in names}


def _spread(ordered: list[float]) -> Spread:
    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]

    return Spread(mean=math.fsum(ordered) / len(ordered), median=at(0.5), p95=at(0.95), max=ordered[-1])
