"""What a saved run was started with, as far as it says where its environment is configured."""

from collections.abc import Sequence
from dataclasses import replace

from gym_core.cli.selection import Selection
from gym_core.config.roots import Roots, list_benchmarks, list_environments


def with_recorded(given: Selection, argv: Sequence[str], *, environment: str, roots: Roots) -> Selection | None:
    """With the benchmark or the environment that the run's command named, else with the benchmark of the environment's
    own name; None where nothing of that is here. Of the command no more is taken: overrides are the user's to give."""
    benchmark, configured = _named(argv, "--benchmark"), _named(argv, "--environment")
    benchmarks = list_benchmarks(roots)
    if benchmark in benchmarks:
        return replace(given, benchmark=benchmark)
    if configured in list_environments(roots):
        return replace(given, environment=configured)
    return replace(given, benchmark=environment) if environment in benchmarks else None


def _named(argv: Sequence[str], flag: str) -> str | None:
    """The value that counts: the last one, written `--flag VALUE` or `--flag=VALUE`."""
    named = None
    for word, after in zip(argv, [*argv[1:], ""], strict=True):
        if word == flag:
            named = after
        elif word.startswith(f"{flag}="):
            named = word.removeprefix(f"{flag}=")
    return named
