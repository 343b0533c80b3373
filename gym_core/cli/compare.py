"""`gym eval compare A B`: what B does better or worse than A on the tasks that both have."""

import argparse
import json
from pathlib import Path

from gym_core.cli.terminal import say

_NOTHING_MEASURED = 1


def add_compare_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A.jsonl", type=Path, help="output file of a run: what is compared with")
    parser.add_argument("b", metavar="B.jsonl", type=Path, help="output file of the other run; differences are B - A")
    parser.add_argument(
        "--flips", type=int, default=20, metavar="N", help="show so many of the tasks that flipped (default 20)"
    )
    parser.add_argument("--json", action="store_true", help="for programs; with all that flipped")


def compare_command(args: argparse.Namespace) -> int:
    from gym_core.cli.comparison import comparison_lines
    from gym_core.cli.saved_summary import warn_of_manifests
    from gym_core.comparison.compare import compare_runs
    from gym_core.comparison.scored_run import read_scored_run

    a, b = read_scored_run(args.a), read_scored_run(args.b)
    warn_of_manifests([a, b])
    comparison = compare_runs(a, b)
    if args.json:
        say(json.dumps(comparison.model_dump(mode="json"), indent=2))
    else:
        for line in comparison_lines(comparison, max_flips=max(0, args.flips)):
            say(line)
    return 0 if comparison.overall.tasks else _NOTHING_MEASURED
