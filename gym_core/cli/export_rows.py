"""`gym export` for people: a flat table of rollouts, a log of Inspect, or, with `--to`, saved runs to a tracker."""

import argparse
from typing import TYPE_CHECKING

from gym_core.cli.terminal import counted, printable, say, tell
from gym_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gym_core.rollout.saved import SavedRun

ROW_FORMATS = ("rows_csv", "rows_parquet")
INSPECT = "inspect"
TRACKERS = ("wandb", "mlflow")


def export_rows(args: argparse.Namespace) -> int:
    from gym_core.export.formats.rows import RowFormat, write_rows
    from gym_core.export.rows import RowTable
    from gym_core.export.runs import open_runs, refuse_existing

    refuse_existing(args.output)
    runs = open_runs(args.runs)
    _tell_torn(runs)
    table = RowTable.of(runs)
    try:
        count = write_rows(table, args.output, RowFormat(args.format))
    except OSError as error:
        raise ConfigError(f"export to {args.output}: {error}") from error
    if table.left_out:
        tell(f"warning: {counted(len(table.left_out), 'column')} of tasks or graders had no room and are left out")
    say(f"{args.output}: {counted(count, 'row')} of {counted(len(table.columns), 'column')}, one row a rollout")
    return 0


def export_inspect(args: argparse.Namespace) -> int:
    from gym_core.export.formats.inspect_log import write_inspect_log
    from gym_core.export.runs import open_runs, refuse_existing

    refuse_existing(args.output)
    runs = open_runs(args.runs)
    if len(runs) > 1:
        raise ConfigError("export: a log of Inspect is of one run; export each to a file of its own")
    if args.output.suffix != ".json":
        raise ConfigError(f"export: {args.output}: Inspect takes a log for one by its name; end it in .json")
    _tell_torn(runs)
    try:
        count = write_inspect_log(runs[0], args.output, inline=args.images == "inline")
    except OSError as error:
        raise ConfigError(f"export to {args.output}: {error}") from error
    say(f"{args.output}: {counted(count, 'sample')}; `inspect view --log-dir {args.output.parent}` shows them")
    return 0


def export_to_tracker(args: argparse.Namespace) -> int:
    from gym_core.export.runs import open_runs
    from gym_core.export.trackers.contract import TrackerName, load_tracker, log_run
    from gym_core.export.trackers.saved import tracked_run

    runs = open_runs(args.runs)
    if args.name is not None and len(runs) > 1:
        raise ConfigError("export: --name is for one run; several are named after their files")
    _tell_torn(runs)
    tracked = [tracked_run(run, project=args.project, name=args.name) for run in runs]
    tracker = load_tracker(TrackerName(args.to))
    for run in tracked:
        where = log_run(tracker, run)
        say(f"{printable(run.name)}: {len(run.metrics)} metrics and the rollouts are at {printable(where)}")
    return 0


def _tell_torn(runs: "Sequence[SavedRun]") -> None:
    from gym_core.export.runs import torn_warning

    for run in runs:
        if torn := torn_warning(run):
            tell(f"warning: {printable(torn)}")
