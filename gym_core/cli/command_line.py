"""`gym`: reads the command line and hands over. Nothing heavy is imported before a command is known.

Exit codes: 0 done; 1 finished with more masked rollouts than allowed, or failed; 2 a mistake in usage or configuration;
130 cancelled.
"""

import argparse
import importlib
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from gym_core.cli.saved_summary import add_summary_flags, add_table_flag
from gym_core.cli.selection import add_run_flags, add_selectors
from gym_core.cli.terminal import printable, say, tell
from gym_core.errors import ConfigError, EpisodeError

FAILED, USAGE = 1, 2

_SubParsers = argparse._SubParsersAction  # the only name argparse has for what add_subparsers returns


def run_command_line(words: list[str]) -> int:
    """The exit code. Raises KeyboardInterrupt alone."""
    try:
        args = _parse(build_parser(words), words)
        return int(_handler(args)(args))
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else USAGE
    except ConfigError as error:
        _tell_lines(error.problems)
        return USAGE
    except EpisodeError as error:
        _tell_lines([f"gym: {error}"])
        return FAILED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; Python would complain about it at exit
        return FAILED


def _tell_lines(messages: Sequence[str]) -> None:
    """Messages may end in lines of a server's log, or quote a file."""
    for message in messages:
        for line in message.splitlines():
            tell(printable(line, max_characters=2000))


def build_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """`words` is what will be parsed: only its command's own code is loaded."""
    parser = argparse.ArgumentParser(
        prog="gym",
        description="Run a vision-language model as an agent on visual tasks, grade it, and keep what it saw.",
        epilog=_example(
            "gym eval prepare --benchmark visual_puzzles_opencode",
            "gym eval run --benchmark visual_puzzles_opencode --model-type scripted_model --output results/demo.jsonl",
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_eval(commands)
    _add_env(commands)
    _add_export(commands)
    _add_view(commands)
    _add_serve(commands)
    _add_config(commands)
    _add_list(commands)
    _add_doctor(commands)
    _add_sandbox(commands, is_wanted=list(words[:1]) == ["sandbox"])
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        say(f"gym {version('visual-agent-gym')}")
        parser.exit()


def _add_eval(commands: "_SubParsers[argparse.ArgumentParser]") -> None:
    group = _group(commands, "eval", "prepare data and run evaluations", "gym eval run --help")
    prepare = _command(
        group,
        "prepare",
        "make the data files of a benchmark",
        "gym eval prepare --benchmark babyvision_opencode",
        handler="gym_core.cli.prepare:prepare_command",
    )
    add_selectors(prepare)
    prepare.add_argument("--force", action="store_true", help="prepare again what is prepared already")
    run = _command(
        group,
        "run",
        "run a benchmark: start the servers, play and grade every rollout, print the metrics",
        "gym eval run --model-type vllm_model --benchmark babyvision_opencode \\",
        "  --output results/babyvision.jsonl ++policy_base_url=http://127.0.0.1:8000/v1 \\",
        "  '++policy_api_key=${oc.env:POLICY_API_KEY}' ++policy_model_name=Qwen/Qwen3-VL-8B-Instruct",
        handler="gym_core.cli.run:run_command",
    )
    add_selectors(run)
    add_run_flags(run)
    add_table_flag(run)
    _add_numbers(group)
    _add_saved_run_commands(group)


def _add_numbers(group: "_SubParsers[argparse.ArgumentParser]") -> None:
    """The commands of `eval` that read what was run."""
    from gym_core.cli.compare import add_compare_flags

    summary = _command(
        group,
        "summary",
        "print the numbers of saved runs: means with intervals, pass@k, by category, what is masked or missing",
        "gym eval summary results/babyvision.jsonl",
        "gym eval summary --table babyvision results/one.jsonl results/two.jsonl",
        "gym eval summary results/with_tools.jsonl --baseline results/without_tools.jsonl",
        handler="gym_core.cli.saved_summary:summary_command",
    )
    add_summary_flags(summary)
    compare = _command(
        group,
        "compare",
        "compare two saved runs task by task: the difference with its interval, and the tasks that flipped",
        "gym eval compare results/before.jsonl results/after.jsonl",
        handler="gym_core.cli.compare:compare_command",
    )
    add_compare_flags(compare)


def _add_saved_run_commands(group: "_SubParsers[argparse.ArgumentParser]") -> None:
    from gym_core.cli.saved_run import add_saved_run_flags

    rejudge = _command(
        group,
        "rejudge",
        "grade a saved run's answers again, with another judge or for rows that lack their grade",
        "gym eval rejudge results/x.jsonl --only-masked",
        "gym eval rejudge results/x.jsonl --name strict ++visual_coding_opencode_judge_model_name=gpt-4o",
        handler="gym_core.cli.saved_run:rejudge_command",
    )
    add_saved_run_flags(rejudge, "rejudge")
    replay = _command(
        group,
        "replay",
        "play a saved run's tasks again, the policy answering from its recorded calls: no model is needed",
        "gym eval replay results/x.jsonl",
        handler="gym_core.cli.saved_run:replay_command",
    )
    add_saved_run_flags(replay, "replay")


def _add_env(commands: "_SubParsers[argparse.ArgumentParser]") -> None:
    group = _group(commands, "env", "keep the servers of a configuration running", "gym env start --help")
    start = _command(
        group,
        "start",
        "start all servers of a configuration and keep them up until Ctrl-C",
        "gym env start --benchmark visual_puzzles_opencode --model-type scripted_model ++head_server.port=11000",
        handler="gym_core.cli.environment:start_command",
    )
    add_selectors(start)
    status = _command(
        group,
        "status",
        "show the servers of a running gym",
        "gym env status --head http://127.0.0.1:11000",
        handler="gym_core.cli.environment:status_command",
    )
    status.add_argument("--head", metavar="URL", help="of the head server; default: the gym that was started last here")
    status.add_argument("--json", action="store_true", help="print what the head server answers")


def _add_export(commands: "_SubParsers[argparse.ArgumentParser]") -> None:
    from gym_core.cli.export import add_export_flags

    export = _command(
        commands,
        "export",
        "write saved runs as training samples, as flat rows or for Inspect, or log them to a tracker",
        "gym export --format parquet --output train.parquet results/babyvision.jsonl",
        "gym export --format rows_csv --output rows.csv results/babyvision.jsonl",
        "gym export --to wandb --project babyvision results/babyvision.jsonl",
        "gym export --format nemo_rl --images inline --output rows.jsonl results/one.jsonl results/two.jsonl",
        handler="gym_core.cli.export:export_command",
    )
    add_export_flags(export)


def _add_view(commands: "_SubParsers[argparse.ArgumentParser]") -> None:
    from gym_core.cli.view import add_view_flags

    view = _command(
        commands,
        "view",
        "look at finished and running runs in a browser, every picture the model saw included",
        "gym view results",
        "gym view --export look.html --rollout t1-r0-172a79b1 results/demo/puzzles.jsonl",
        handler="gym_core.cli.view:view_command",
    )
    add_view_flags(view)


def _add_serve(commands: "_SubParsers[argparse.ArgumentParser]") -> None:
    serve = _command(
        commands,
        "serve",
        "run one server of a configuration in this process",
        'export GYM_RUN_TOKEN="$(openssl rand -hex 32)"   # the same for all servers of one gym',
        "gym serve policy_model --model-type vllm_model --host 0.0.0.0 --port 8100 \\",
        "  ++policy_base_url=http://127.0.0.1:8000/v1 '++policy_api_key=${oc.env:POLICY_API_KEY}' \\",
        "  ++policy_model_name=Qwen/Qwen3-VL-8B-Instruct",
        handler="gym_core.cli.serve:serve_command",
    )
    serve.add_argument("name", metavar="NAME", help="instance name of the server in the configuration, or head")
    serve.add_argument("--host", metavar="ADDRESS", help="where to listen; default: its block's host")
    serve.add_argument(
        "--port", type=int, metavar="PORT", help="default: its block's; a server whose block has no url needs both"
    )
    add_selectors(serve)


def _add_config(commands: "_SubParsers[argparse.ArgumentParser]") -> None:
    group = _group(commands, "config", "look at configurations", "gym config show --help")
    show = _command(
        group,
        "show",
        "print the merged configuration, secrets masked, with where each value came from",
        "gym config show --benchmark babyvision_opencode --model-type vllm_model ++policy_base_url=http://host/v1",
        handler="gym_core.cli.config:show_command",
    )
    add_selectors(show)
    show.add_argument("--json", action="store_true", help="for programs: {values, origin}")


def _add_list(commands: "_SubParsers[argparse.ArgumentParser]") -> None:
    from gym_core.cli.listing import KINDS

    listing = _command(
        commands,
        "list",
        "list what --benchmark, --environment and --model-type can name",
        "gym list benchmarks --json",
        handler="gym_core.cli.listing:list_command",
    )
    listing.add_argument("kind", nargs="?", choices=KINDS, help="default: all of them")
    listing.add_argument("--json", action="store_true", help="for programs")
    listing.add_argument("--search-dir", metavar="DIR", action="append", default=[], help="look here too; repeatable")


def _add_doctor(commands: "_SubParsers[argparse.ArgumentParser]") -> None:
    doctor = _command(
        commands,
        "doctor",
        "try what a run needs (endpoint, judge, sandbox, data, disk) and say what to do about what is missing",
        "gym doctor",
        "gym doctor --benchmark babyvision_opencode --model-type vllm_model \\",
        "  ++policy_base_url=http://127.0.0.1:8000/v1 ++policy_api_key=EMPTY ++policy_model_name=my-model",
        handler="gym_core.cli.doctor:doctor_command",
    )
    doctor.add_argument("--json", action="store_true", help="for programs: {ok, findings}")
    add_selectors(doctor)
    add_run_flags(doctor)
    add_table_flag(doctor)  # a doctor prints no table; the command of a run is taken as it stands


def _add_sandbox(commands: "_SubParsers[argparse.ArgumentParser]", *, is_wanted: bool) -> None:
    if is_wanted:
        from gym_core.cli.sandbox import add_sandbox_parser

        add_sandbox_parser(commands)
    else:
        commands.add_parser("sandbox", help="build, check, list and sweep sandboxes")


def _group(
    commands: "_SubParsers[argparse.ArgumentParser]", name: str, summary: str, *examples: str
) -> "_SubParsers[argparse.ArgumentParser]":
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=_example(*examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)


def _command(
    commands: "_SubParsers[argparse.ArgumentParser]", name: str, summary: str, *examples: str, handler: str
) -> argparse.ArgumentParser:
    """A parser whose `handler` ("module:function") is imported when the command is run."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=_example(*examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(handler=handler, parser=parser, takes_overrides=False)
    return parser


def _example(*lines: str) -> str:
    return "example:\n  " + "\n  ".join(lines)


def _parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Flags by argparse; the words that are left are overrides where the command takes them, and mistakes elsewhere."""
    args, rest = parser.parse_known_args(words)
    own: argparse.ArgumentParser = getattr(args, "parser", parser)
    for word in rest:
        if word.startswith("-"):
            flag = word.partition("=")[0]
            near = get_close_matches(flag, re.findall(r"--[a-z-]+", own.format_usage()), n=1)
            own.error(f"unknown flag {flag!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    if rest and not getattr(args, "takes_overrides", False):
        own.error(f"unexpected {rest[0].partition('=')[0]!r}")
    args.overrides = rest
    return args


def _handler(args: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    if hasattr(args, "run"):
        handler: Callable[[argparse.Namespace], int] = args.run
        return handler
    module, _, function = args.handler.partition(":")
    loaded: Callable[[argparse.Namespace], int] = getattr(importlib.import_module(module), function)
    return loaded
