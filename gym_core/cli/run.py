"""`gym eval run`: check, prepare, start the gym, start the run over REST, follow it, print what came out.

Servers begin to import before anything else does; hence the imports inside.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gym_core.cli.selection import Selection
from gym_core.cli.terminal import counted, say, tell

if TYPE_CHECKING:
    from gym_core.cli.evaluate import Evaluation
    from gym_core.launch.warmup import Warmup


def run_command(args: argparse.Namespace) -> int:
    from gym_core.launch.warmup import cool_down, warming_up

    with warming_up() as warmup:
        from gym_core.cli.evaluate import dry_run_lines, make_ready, plan_evaluation, plan_lines
        from gym_core.cli.readiness import warn_of_literal_secrets

        evaluation = plan_evaluation(Selection.of(args))
        warn_of_literal_secrets(evaluation.checked)
        is_pilot = evaluation.options.pilot is not None
        if evaluation.checked.run.launch.dry_run and not is_pilot:
            cool_down(warmup)
            for line in dry_run_lines(evaluation):
                say(line)
            return 0
        make_ready(evaluation)
        if is_pilot:
            for line in plan_lines(evaluation):
                say(line)
    return run_evaluation(evaluation, warmup, table=args.table)


def run_evaluation(evaluation: "Evaluation", warmup: "Warmup", *, table: str | None = None) -> int:
    """The exit code. What came out is printed, in a table of that kind too."""
    from gym_core.cli.display import make_display
    from gym_core.cli.evaluate import evaluate, exit_code
    from gym_core.cli.launcher import open_gym
    from gym_core.cli.saved_summary import table_lines
    from gym_core.cli.summary import summary_lines
    from gym_core.types.run import RunState

    display = make_display(sys.stderr)
    try:
        result = asyncio.run(evaluate(evaluation, display, opener=lambda checked: open_gym(checked, warmup=warmup)))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None  # Ctrl-C, before the run began
    for line in summary_lines(result):
        say(line)
    if result.estimate is not None:
        from gym_core.cli.preview import estimate_lines

        for line in estimate_lines(result.estimate, parallel=result.progress.slots):
            say(line)
        say("the same command without its pilot goes on from here")
    if table is not None and result.metrics is not None and result.metrics.coverage.finished:
        for line in table_lines(Path(evaluation.options.output_jsonl_fpath).expanduser(), table):
            say(line)
    code = exit_code(result, evaluation.options)
    if code == 1 and result.progress.state is RunState.DONE:
        limit = f"more than max_masked_fraction={evaluation.options.max_masked_fraction:g} of them"
        masked, total = result.progress.masked, counted(result.progress.total, "rollout")
        tell(f"gym: {masked} of {total} {'is' if masked == 1 else 'are'} masked, {limit}")
    return code
