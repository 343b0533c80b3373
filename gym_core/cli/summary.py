"""What a finished run prints: the number with its interval, coverage, failures, costs, and where everything is."""

from collections.abc import Mapping
from pathlib import Path

from gym_core.cli.terminal import counted, duration, money, printable, table
from gym_core.types.cost import Spend, TokenCount
from gym_core.types.metrics import Coverage, Estimate, MetricsReport, SequenceReport, Spread
from gym_core.types.run import RunResult, RunState

_ORDER_OF_FILES = ("rollouts", "failures", "metrics", "manifest", "assets", "captures")
_SHOWN_CATEGORIES = 40
MISSING_NOT_KNOWN = "missing not known: no X_materialized_inputs.jsonl beside it"


def summary_lines(result: RunResult) -> list[str]:
    progress = result.progress
    lines = [f"{progress.state} after {duration(progress.elapsed_s)}"]
    if progress.message:
        lines[0] += f": {printable(progress.message)}"
    if result.metrics is not None:
        lines += metrics_lines(result.metrics)
    written = {name: path for name, path in result.files.items() if Path(path).exists()}
    lines += _section("files", [(name, written[name]) for name in _files_in_order(written)])
    if progress.done < progress.total and progress.state is not RunState.DONE:
        left = progress.total - progress.done
        are = "is" if left == 1 else "are"
        lines.append(f"{counted(left, 'rollout')} {are} still to do: the same command goes on from here")
    return lines


def estimate_text(estimate: Estimate) -> str:
    if estimate.mean is None:
        return "not measured"
    mean = f"{estimate.mean:.4f}"
    if estimate.ci_low_95 is None or estimate.ci_high_95 is None:
        return mean
    return f"{mean}  [{estimate.ci_low_95:.4f}, {estimate.ci_high_95:.4f}]"


def metrics_lines(report: MetricsReport) -> list[str]:
    coverage = report.coverage
    throughout = f"{counted(coverage.fully_masked_tasks, 'task')} masked throughout"
    missing = MISSING_NOT_KNOWN if coverage.missing is None else f"{coverage.missing} missing"
    lines = [
        f"{printable(report.environment)}",
        f"  mean/reward  {estimate_text(report.reward)}  (95 % interval, clustered by task; "
        f"{counted(report.reward.tasks, 'task')}, {counted(report.reward.rollouts, 'rollout')})",
        f"  coverage     {_finished_text(coverage)} finished: {coverage.measured} measured, "
        f"{coverage.masked} masked; {missing}, {throughout}",
    ]
    if report.matcher_agreement is not None:
        lines.append(
            f"  matcher      agrees with the judge on {report.matcher_agreement:.1%} of the rollouts that it graded"
        )
    if report.sequences is not None:
        lines.append(_sequences_line(report.sequences))
    shown_below = {"mean/reward", *(f"pass@{k}" for k in report.pass_at)}
    others = {name: value for name, value in report.key_metrics.items() if name not in shown_below}
    lines += _section("metrics", [(name, f"{value:.4f}") for name, value in sorted(others.items())])
    lines += _section("pass@k", [(f"pass@{k}", *_estimate_cells(item)) for k, item in sorted(report.pass_at.items())])
    lines += _section("passes", _passes(report))
    lines += _section("by category", _estimates(report.by_category))
    lines += _section("by subtype", _estimates(report.by_subtype))
    lines += _section("measured by the environment, by subtype", _measures(report))
    lines += _section("failures", _failures(report))
    for title, spreads in (
        ("tool calls a rollout", report.tool_calls),
        ("tokens a rollout", report.tokens),
        ("seconds a rollout", report.seconds),
    ):
        lines += _section(title, _spreads(spreads))
    if report.spend is not None:
        lines += _section("spent", _spent(report.spend))
    return lines


def _finished_text(coverage: Coverage) -> str:
    return f"{coverage.finished}" if coverage.expected is None else f"{coverage.finished} of {coverage.expected}"


def _spent(spend: Spend) -> list[tuple[str, ...]]:
    """Of every attempt, those that broke included."""
    rows = [
        (who, _tokens_text(tokens), _cost_text(cost, spend.currency))
        for who, tokens, cost in (
            ("policy", spend.policy, spend.policy_cost),
            ("judge", spend.judge, spend.judge_cost),
        )
        if tokens.calls
    ]
    sandboxes = f", {duration(spend.sandbox_s)} of sandboxes" if spend.sandbox_s else ""
    attempts = counted(spend.attempts, "attempt")
    return [
        *rows,
        ("all", f"{duration(spend.wall_s)} of playing{sandboxes}, {attempts}", _cost_text(spend.cost, spend.currency)),
    ]


def _tokens_text(tokens: TokenCount) -> str:
    cached = f", {tokens.cached_input:,} of them cached" if tokens.cached_input else ""
    uncounted = f", {counted(tokens.uncounted_calls, 'call')} not counted" if tokens.uncounted_calls else ""
    return f"{tokens.input:,} tokens in{cached}, {tokens.output:,} out, {counted(tokens.calls, 'call')}{uncounted}"


def _cost_text(cost: float | None, currency: str | None) -> str:
    return "cost not known" if cost is None or currency is None else money(cost, currency)


def _sequences_line(report: SequenceReport) -> str:
    """How much of what was sampled can be trained as it was."""
    if not report.calls:
        return f"  tokens       none captured: {counted(report.incomplete_calls, 'call')} without all token ids"
    line = (
        f"  tokens       {counted(report.sampled_tokens, 'sampled token')} captured in {counted(report.calls, 'call')}"
    )
    if report.incomplete_calls:
        line += f", {counted(report.incomplete_calls, 'call')} not whole"
    if not report.drifted_rollouts:
        return f"{line}; no drift"
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(report.drifts.items(), key=lambda d: -d[1]))
    return (
        f"{line}; drift in {report.drifted_share:.1%} of the rollouts ({reasons}; "
        f"{counted(report.drifted_tokens, 'token')})"
    )


def _section(title: str, rows: list[tuple[str, ...]]) -> list[str]:
    shown = [tuple(printable(cell) for cell in row) for row in rows[:_SHOWN_CATEGORIES]]
    more = [f"  and {len(rows) - len(shown)} more in the metrics file"] if len(rows) > len(shown) else []
    return [title, *table(shown), *more] if rows else []


def _estimates(estimates: Mapping[str, Estimate]) -> list[tuple[str, ...]]:
    return [(name, *_estimate_cells(item)) for name, item in sorted(estimates.items())]


def _estimate_cells(item: Estimate) -> tuple[str, str, str]:
    left_out = left_out_text(item.masked, item.missing, item.unmeasured_tasks)
    return estimate_text(item), counted(item.tasks, "task"), left_out


def left_out_text(masked: int, missing: int | None, unmeasured_tasks: int) -> str:
    """What is in no mean, to stand beside it: "2 masked, 1 missing, 1 task not measured"; "" when nothing is."""
    parts = [f"{count} {word}" for count, word in ((masked, "masked"), (missing, "missing")) if count]
    if unmeasured_tasks:
        parts.append(f"{counted(unmeasured_tasks, 'task')} not measured")
    return ", ".join(parts)


def _passes(report: MetricsReport) -> list[tuple[str, ...]]:
    if len(report.passes) < 2:
        return []
    return [
        (
            f"pass {score.repeat + 1}",
            "not measured" if score.mean is None else f"{score.mean:.4f}",
            f"{score.measured} measured",
            left_out_text(score.masked, score.missing, 0),
        )
        for score in report.passes
    ]


def _measures(report: MetricsReport) -> list[tuple[str, ...]]:
    """A row a subtype, a column a measure; the means over all are among the metrics."""
    subtypes = sorted({name for measure in report.measures.values() for name in measure.by_subtype})
    if not subtypes:
        return []
    rows = [
        (subtype, *(_mean_text(measure.by_subtype.get(subtype)) for measure in report.measures.values()))
        for subtype in subtypes
    ]
    return [("", *report.measures), *rows]


def _mean_text(estimate: Estimate | None) -> str:
    return "-" if estimate is None or estimate.mean is None else f"{estimate.mean:.2f}"


def _failures(report: MetricsReport) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for kind, count in sorted(report.failures.items(), key=lambda item: -item[1]):
        masked = report.masked_failures.get(kind, 0)
        rows.append((kind, str(count), "masked" if masked == count else f"{count - masked} scored 0, {masked} masked"))
    return rows


def _spreads(spreads: Mapping[str, Spread]) -> list[tuple[str, ...]]:
    rows = [(name, *(f"{value:,.1f}" for value in (s.mean, s.median, s.p95, s.max))) for name, s in spreads.items()]
    return [("", "mean", "median", "p95", "max"), *rows] if rows else []


def _files_in_order(files: Mapping[str, str]) -> list[str]:
    known = [name for name in _ORDER_OF_FILES if name in files]
    return [*known, *sorted(set(files) - set(known))]
