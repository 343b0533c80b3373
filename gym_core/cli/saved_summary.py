"""`gym eval summary`: saved runs in numbers, as the end of a run prints them, or as a benchmark's own table."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from gym_core.cli.terminal import printable, say, tell
from gym_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gym_core.comparison.scored_run import ScoredRun
    from gym_core.types.score_table import ScoreTable
    from gym_core.types.summary import RunSummary, Summary

TABLES = ("babyvision",)


def add_summary_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN.jsonl", nargs="+", type=Path, help="output file of a run; repeatable")
    add_table_flag(parser)
    parser.add_argument(
        "--baseline",
        metavar="RUN.jsonl",
        type=Path,
        help="print the difference to this run on the same tasks, such as one without tools",
    )
    parser.add_argument("--json", action="store_true", help="for programs")


def add_table_flag(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    parser.add_argument("--table", choices=TABLES, help="print the results as the benchmark's paper lays them out")


def summary_command(args: argparse.Namespace) -> int:
    summary = summarize(args.runs, table=args.table, baseline=args.baseline)
    if args.json:
        say(json.dumps(summary.model_dump(mode="json"), indent=2))
        return 0
    for run in summary.runs:
        if run.torn_bytes:
            tell(printable(f"warning: {run.path}: the last line is cut off: {run.torn_bytes} bytes were not read"))
    for line in summary_lines(summary):
        say(line)
    return 0


def summarize(paths: "Sequence[Path]", *, table: str | None, baseline: Path | None) -> "Summary":
    """Raises ConfigError for a path that is no run, and where runs cannot be shown as was asked for."""
    from gym_core.comparison.compare import compare_runs
    from gym_core.comparison.scored_run import read_scored_run
    from gym_core.types.summary import Summary

    runs = [read_scored_run(path) for path in paths]
    without = read_scored_run(baseline) if baseline is not None else None
    shown = [*([without] if without else []), *runs]
    warn_of_manifests(shown)
    return Summary(
        runs=[_summary_of(run) for run in runs],
        table=_table_of(shown) if table else None,
        against_baseline=[compare_runs(without, run) for run in runs] if without else [],
    )


def warn_of_manifests(runs: "Sequence[ScoredRun]") -> None:
    for run in runs:
        if run.manifest_problem:
            tell(f"warning: {printable(run.manifest_problem, max_characters=1000)}")


def summary_lines(summary: "Summary") -> list[str]:
    """The table in place of the metrics where one was asked for; then the differences to the baseline."""
    from gym_core.cli.comparison import difference_lines
    from gym_core.cli.score_table import score_table_lines
    from gym_core.cli.summary import metrics_lines

    lines: list[str] = []
    if summary.table is not None:
        lines += score_table_lines(summary.table)
    else:
        for run in summary.runs:
            lines += [printable(f"{run.path}  {run.model or 'model not known'}"), *metrics_lines(run.metrics)]
    for comparison in summary.against_baseline:
        a, b = printable(comparison.a.path), printable(comparison.b.path)
        lines += [f"{b} (B) less {a} (A), on the same tasks", *difference_lines(comparison)]
    return lines


def table_lines(path: Path, table: str) -> list[str]:
    """The table of a run that has just ended, or why there is none."""
    try:
        return summary_lines(summarize([path], table=table, baseline=None))
    except ConfigError as error:
        return [printable(f"no table: {problem}") for problem in error.problems]


def _summary_of(run: "ScoredRun") -> "RunSummary":
    from gym_core.types.summary import RunSummary

    run_hash = run.manifest.run_hash if run.manifest else None
    return RunSummary(
        path=str(run.path), model=run.model, run_hash=run_hash, torn_bytes=run.torn_bytes, metrics=run.report()
    )


def _table_of(runs: "Sequence[ScoredRun]") -> "ScoreTable":
    from gym_core.comparison.pairing import shared_names
    from gym_core.statistics.babyvision import TableRun, babyvision_table

    for run in runs:
        if not any(outcome.category for outcome in run.outcomes):
            raise ConfigError(
                f"{run.path}: its tasks have no `category`, which the table is by; leave --table out for other numbers"
            )
    return babyvision_table(
        [
            TableRun(name, run.outcomes, run.planned, task_names)
            for name, run, task_names in zip(_names(runs), runs, shared_names(runs), strict=True)
        ]
    )


def _names(runs: "Sequence[ScoredRun]") -> list[str]:
    """Of the columns: the models where they tell the runs apart, else the files, else the paths."""
    for names in ([run.model or run.path.stem for run in runs], [run.path.stem for run in runs]):
        if len(set(names)) == len(names):
            return names
    return [str(run.path) for run in runs]
