"""`gym export`: saved runs as training samples in a trainer's own format, as flat rows, or to a tracker."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gym_core.cli.export_rows import INSPECT, ROW_FORMATS, TRACKERS, export_inspect, export_rows, export_to_tracker
from gym_core.cli.terminal import counted, printable, say, table, tell
from gym_core.errors import ConfigError

if TYPE_CHECKING:
    from gym_core.export.report import ExportReport

_Word = TypeVar("_Word", bound=str)

FORMATS = ("nemo_rl", "verl", "prime_rl", "verifiers", "trl", "jsonl", "parquet")
IMAGES = ("reference", "inline", "files")


def add_export_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN.jsonl", nargs="+", type=Path, help="output file of a run; repeatable")
    parser.add_argument(
        "--format", choices=(*FORMATS, *ROW_FORMATS, INSPECT), help="docs/export.md says what each holds"
    )
    parser.add_argument("--to", choices=TRACKERS, help="instead of --format: log the runs there, each as one run")
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help="file to write; of training data, PATH.json says what it is"
    )
    parser.add_argument("--project", metavar="NAME", help="with --to: project or experiment (default: gym)")
    parser.add_argument("--name", metavar="NAME", help="with --to: name of the run (default: its file's)")
    parser.add_argument(
        "--branches",
        choices=("main", "all"),
        default="main",
        help="main (default): what led to the answer; all: sub-agents, titles and retries too",
    )
    parser.add_argument(
        "--images",
        choices=IMAGES,
        default="reference",
        help="reference (default): by hash, in the run's assets folder; inline: data URLs; files: copied beside PATH",
    )
    parser.add_argument("--include-masked", action="store_true", help="write samples that are not for training as well")
    parser.add_argument(
        "--allow-missing-manifest",
        action="store_true",
        help="export a run whose X_run.json, or what it saw of its endpoint, is not there: its samples go unchecked",
    )


_OF_TRAINING = {"branches": "main", "images": "reference", "include_masked": False, "allow_missing_manifest": False}
"""Flags of training formats alone, with their defaults."""


def export_command(args: argparse.Namespace) -> int:
    _check(args)
    if args.to is not None:
        return export_to_tracker(args)
    if args.format == INSPECT:
        return export_inspect(args)
    return export_rows(args) if args.format in ROW_FORMATS else export_samples(args)


def _check(args: argparse.Namespace) -> None:
    """Which flags go together. Raises ConfigError with every one that does not."""
    problems = []
    if (args.format is None) == (args.to is None):
        problems.append("export: give --format and --output for a file, or --to for a tracker")
    if args.to is not None and args.output is not None:
        problems.append("export: --output goes with --format")
    if args.format is not None and args.output is None:
        problems.append("export: --format needs --output PATH")
    if args.to is None and (args.project or args.name):
        problems.append("export: --project and --name go with --to")
    if args.to is not None or args.format in (*ROW_FORMATS, INSPECT):
        given = [name for name, default in _OF_TRAINING.items() if getattr(args, name) != default]
        if args.format == INSPECT and args.images == "inline":
            given.remove("images")
        problems += [
            f"export: --{name.replace('_', '-')} is for training formats: {', '.join(FORMATS)}" for name in given
        ]
    if problems:
        raise ConfigError(problems)
    args.project = args.project or "gym"


def export_samples(args: argparse.Namespace) -> int:
    from gym_core.export.images import ImageMode
    from gym_core.export.job import ExportOptions, export_runs
    from gym_core.export.writers import ExportFormat

    options = ExportOptions(
        runs=args.runs,
        output=args.output,
        format=ExportFormat(args.format),
        branches=args.branches,
        images=ImageMode(args.images),
        includes_masked=args.include_masked,
        allows_missing_manifest=args.allow_missing_manifest,
    )
    report = export_runs(options)
    for warning in report.warnings:
        tell(f"warning: {printable(warning)}")
    for line in report_lines(report, options.output):
        say(line)
    return 0


def report_lines(report: "ExportReport", output: Path) -> list[str]:
    """A line that says it all, then what a reader should know of it, then where more is."""
    rows = [
        (
            "samples",
            f"{report.samples:,} with {report.tokens:,} tokens, of which {report.trained_tokens:,} are trained",
        ),
        ("masked", _counts(report.masked, "kept, with their mask" if report.includes_masked else "not written")),
        ("without samples", _counts(report.without_samples, "rollouts")),
        ("left out", _counts(report.left_out, f"rollouts that {report.format} cannot take")),
        ("drift", _counts(report.drifts, f"{report.drifted_tokens:,} tokens not gone on with")),
        *(("warning", printable(warning)) for warning in report.warnings),
        ("about it", f"{output}.json"),
    ]
    head = f"{output}: {counted(report.rollouts, 'rollout')}, {counted(report.rows, 'row')} of {report.format}"
    return [head, *table([row for row in rows if row[1]])]


def _counts(counts: Mapping[_Word, int], note: str) -> str:
    if not counts:
        return ""
    by_word = ", ".join(f"{word} {count}" for word, count in sorted(counts.items(), key=lambda item: -item[1]))
    return f"{sum(counts.values())} ({note}): {by_word}"
