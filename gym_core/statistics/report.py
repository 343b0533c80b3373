"""From the outcomes of a run to its report: means with intervals, pass@k, coverage, failures, costs. Pure."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from gym_core.statistics.clustered_mean import estimate, estimate_of_any
from gym_core.statistics.majority import Vote, majority_at_k
from gym_core.statistics.outcome import Outcome, PlannedRollout
from gym_core.statistics.pass_at_k import pass_at_k
from gym_core.statistics.passes import average_passes, score_passes
from gym_core.types.metrics import Coverage, Estimate, Measure, MetricsReport, PassScore, SequenceReport, Spread
from gym_core.types.sample import DriftReason, SequenceSummary

Kinded = Outcome | PlannedRollout


def aggregate(
    outcomes: Sequence[Outcome], *, environment: str, expected: int, planned: Iterable[PlannedRollout] = ()
) -> MetricsReport:
    """The report of a run of `expected` rollouts. O(outcomes).

    `planned` says which they are, as far as that is known: those of them without an outcome are missing in their
    category, subtype and pass.
    """
    finished = {(o.task_hash, o.repeat) for o in outcomes}
    absent = [p for p in planned if (p.task_hash, p.repeat) not in finished]
    by_task = rewards_by_task(outcomes)
    masked = [o for o in outcomes if o.reward is None]
    measured = [o for o in outcomes if o.reward is not None]
    fully_masked = {o.task_hash for o in masked} - by_task.keys()
    agreements = [o.agrees_with_matcher for o in outcomes if o.agrees_with_matcher is not None]
    measures = _measures(measured)
    missing = expected - len(outcomes)
    reward = _estimate_of(outcomes, absent).model_copy(update={"missing": missing})
    passes = score_passes(
        {(o.task_hash, o.repeat): o.reward for o in outcomes}, [(p.task_hash, p.repeat) for p in absent]
    )
    return MetricsReport(
        environment=environment,
        reward=reward,
        coverage=Coverage(
            expected=expected,
            finished=len(outcomes),
            measured=reward.rollouts,
            masked=len(masked),
            missing=missing,
            fully_masked_tasks=len(fully_masked),
        ),
        key_metrics={f"mean/{name}": measure.overall.mean or 0.0 for name, measure in measures.items()}
        | _key_metrics(measured, by_task, passes),
        measures=measures,
        by_category=_split(outcomes, absent, lambda o: o.category),
        by_subtype=_split(outcomes, absent, _subtype_key),
        pass_at=_pass_at(by_task),
        passes=passes,
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


def rewards_by_task(outcomes: Iterable[Outcome]) -> dict[str, list[float]]:
    """Of the measured rollouts, in order of the repeat."""
    by_task: dict[str, list[float]] = defaultdict(list)
    for outcome in sorted(outcomes, key=lambda o: o.repeat):
        if outcome.reward is not None:
            by_task[outcome.task_hash].append(outcome.reward)
    return dict(by_task)


def _estimate_of(outcomes: Sequence[Outcome], absent: Sequence[PlannedRollout]) -> Estimate:
    by_task = rewards_by_task(outcomes)
    tasks = {o.task_hash for o in outcomes} | {p.task_hash for p in absent}
    counts = {
        "masked": sum(o.reward is None for o in outcomes),
        "missing": len(absent),
        "unmeasured_tasks": len(tasks) - len(by_task),
    }
    return estimate(by_task.values()).model_copy(update=counts)


def _key_metrics(
    measured: Sequence[Outcome], by_task: Mapping[str, list[float]], passes: Sequence[PassScore]
) -> dict[str, float]:
    metrics: dict[str, float] = {}
    rewards = [reward for rewards in by_task.values() for reward in rewards]
    if rewards:
        metrics["mean/reward"] = math.fsum(rewards) / len(rewards)
    for name in ("input", "output", "images"):
        values = [o.tokens[name] for o in measured if name in o.tokens]
        if values:
            metrics[f"mean/{name}{'' if name == 'images' else '_tokens'}"] = sum(values) / len(values)
    repeats = min(map(len, by_task.values()), default=0)
    if repeats > 1:
        for k in range(1, repeats + 1):
            metrics[f"pass@{k}"] = math.fsum(pass_at_k(r, k) for r in by_task.values()) / len(by_task)
        if votes := _votes_by_task(measured):
            share = math.fsum(majority_at_k(each, repeats) for each in votes) / len(votes)
            metrics[f"majority@{repeats}"] = share
    average = average_passes(passes)
    if average is not None and average.passes > 1:
        metrics[f"avg@{average.passes}"] = average.mean
        metrics[f"avg@{average.passes}/std"] = average.std
    return metrics


def _measures(measured: Sequence[Outcome]) -> dict[str, Measure]:
    """Of the columns that the environment measures, in the order in which rows have them."""
    names = dict.fromkeys(name for outcome in measured for name in outcome.measures)
    return {name: _measure(name, [o for o in measured if name in o.measures]) for name in names}


def _measure(name: str, having: Sequence[Outcome]) -> Measure:
    by_subtype: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in having:
        if key := _subtype_key(outcome):
            by_subtype[key].append(outcome)
    return Measure(
        overall=_mean_of_column(name, having),
        by_subtype={key: _mean_of_column(name, each) for key, each in sorted(by_subtype.items())},
    )


def _mean_of_column(name: str, having: Sequence[Outcome]) -> Estimate:
    by_task: dict[str, list[float]] = defaultdict(list)
    for outcome in having:
        by_task[outcome.task_hash].append(outcome.measures[name])
    return estimate_of_any(by_task.values())


def _subtype_key(of: Kinded) -> str:
    return f"{of.category}/{of.subtype}" if of.subtype else ""


def _pass_at(by_task: Mapping[str, list[float]]) -> dict[int, Estimate]:
    most = max(map(len, by_task.values()), default=0)
    if most < 2:
        return {}
    return {
        k: estimate([pass_at_k(rewards, k)] for rewards in by_task.values() if len(rewards) >= k)
        for k in range(1, most + 1)
    }


def _votes_by_task(measured: Sequence[Outcome]) -> list[list[Vote]]:
    """Nothing where the rows do not say what was answered: a right rollout has an answer, wherever it is kept."""
    if any(o.answer is None and o.reward == 1.0 for o in measured) or all(o.answer is None for o in measured):
        return []
    by_task: dict[str, list[Vote]] = defaultdict(list)
    for outcome in measured:
        is_right = outcome.reward is not None and outcome.reward >= 1.0
        by_task[outcome.task_hash].append(Vote(is_right, outcome.answer))
    return list(by_task.values())


def _split(
    outcomes: Sequence[Outcome], absent: Sequence[PlannedRollout], key: Callable[[Kinded], str]
) -> dict[str, Estimate]:
    finished: dict[str, list[Outcome]] = defaultdict(list)
    missing: dict[str, list[PlannedRollout]] = defaultdict(list)
    for outcome in outcomes:
        finished[key(outcome)].append(outcome)
    for rollout in absent:
        missing[key(rollout)].append(rollout)
    names = sorted(name for name in finished.keys() | missing.keys() if name)
    return {name: _estimate_of(finished[name], missing[name]) for name in names}


def _spreads(rows: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    names = sorted({name for row in rows for name in row})
    return {name: _spread(sorted(row.get(name, 0) for row in rows)) for name in names}


def _spread(ordered: list[float]) -> Spread:
    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]

    return Spread(mean=math.fsum(ordered) / len(ordered), median=at(0.5), p95=at(0.95), max=ordered[-1])
