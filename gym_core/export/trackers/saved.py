"""From a saved run to what a tracker is given."""

import hashlib
from collections.abc import Iterator, Mapping

from gym_core.errors import ConfigError
from gym_core.export.rows import RowTable, as_cell
from gym_core.export.runs import run_report
from gym_core.export.trackers.contract import ConfigValue, TrackedRun
from gym_core.rollout.output import RunManifest
from gym_core.rollout.saved import SavedRun
from gym_core.types.metrics import MetricsReport

_OUR_PATHS = frozenset({"options.output_jsonl_fpath", "options.saved_run.path"})
"""Where a file is on this machine is nobody's business on another."""


def tracked_run(run: SavedRun, *, project: str, name: str | None = None) -> TrackedRun:
    """Raises ConfigError for a run that has not ended, in whatever way: its metrics are not there."""
    manifest, report = run.manifest, run_report(run)
    if manifest is None:
        raise ConfigError(f"export: {run.files.manifest} is not there: it says what ran; copy it along")
    name = name or run.files.rollouts.stem
    identity = hashlib.sha256(f"{manifest.run_hash}\n{name}".encode()).hexdigest()
    return TrackedRun(
        project=project,
        id=identity[:16],
        name=name,
        run_hash=manifest.run_hash,
        config=dict(_config(manifest)),
        metrics=report_numbers(report),
        table=RowTable.of([run]),
    )


def report_numbers(report: MetricsReport) -> dict[str, float]:
    """Every number of a report under a name with slashes; what was not measured is left out, and is no 0."""
    numbers: dict[str, float | None] = {
        **report.key_metrics,
        "mean/reward": report.reward.mean,
        "mean/reward/ci_low_95": report.reward.ci_low_95,
        "mean/reward/ci_high_95": report.reward.ci_high_95,
        **{f"coverage/{name}": value for name, value in report.coverage.model_dump().items()},
        **{f"category/{name}": estimate.mean for name, estimate in report.by_category.items()},
        **{f"subtype/{name}": estimate.mean for name, estimate in report.by_subtype.items()},
        **{f"failures/{kind}": count for kind, count in report.failures.items()},
        **{f"tool_calls/{tool}": spread.mean for tool, spread in report.tool_calls.items()},
        **{f"tokens/{name}": spread.mean for name, spread in report.tokens.items()},
        **{f"seconds/{name}": spread.mean for name, spread in report.seconds.items()},
        **(dict(_spend(report)) if report.spend else {}),
    }
    return {name: float(value) for name, value in numbers.items() if value is not None}


def _spend(report: MetricsReport) -> Iterator[tuple[str, float | None]]:
    spend = report.spend
    assert spend is not None  # the caller looked
    for who, tokens in (("policy", spend.policy), ("judge", spend.judge)):
        yield from ((f"spend/{who}_{name}_tokens", getattr(tokens, name)) for name in ("input", "output"))
    for name in ("cost", "policy_cost", "judge_cost", "wall_s", "sandbox_s", "model_s", "attempts"):
        yield f"spend/{name}", getattr(spend, name)


def _config(manifest: RunManifest) -> Iterator[tuple[str, ConfigValue]]:
    known: Mapping[str, object] = {
        "run_hash": manifest.run_hash,
        **manifest.identity,
        "versions": manifest.versions,
        "datasets": {name: {"sha256": d.get("sha256")} for name, d in manifest.datasets.items() if isinstance(d, dict)},
        "options": manifest.options,
        "policy": manifest.endpoint.model if manifest.endpoint else None,
        "prices": manifest.prices.model_dump(exclude_none=True),
    }
    for name, value in _flat(known, ""):
        if name not in _OUR_PATHS:
            yield name, value


def _flat(values: Mapping[str, object], path: str) -> Iterator[tuple[str, ConfigValue]]:
    """Dotted names; lists are JSON text; what is null or empty is left out."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{name}.")
        elif (cell := as_cell(value)) is not None:
            yield f"{path}{name}", cell
