"""What a saved run was started with, as far as it says where its environment is configured."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from gym_core.cli.selection import Selection
from gym_core.config.roots import Roots, list_benchmarks, list_environments
from gym_core.errors import ConfigError

_NAMES = ("--benchmark", "--environment")
_PLACES = ("--config", "--search-dir")


def with_recorded(given: Selection, argv: Sequence[str], *, environment: str, roots: Roots) -> Selection | None:
    """With the benchmark or the environment that the run's command named, else with the benchmark of the environment's
    own name; None where nothing of that is here. Of the command no more is taken: overrides are the user's to give.

    Raises ConfigError where it had files or folders that are not given: without them a name may mean something else,
    and a recording, which anyone may have written, is not to say what is read or which code is loaded.
    """
    wanted = [flag for flag in _PLACES if _values(argv, flag) and not _given(given, flag)]
    if wanted:
        raise ConfigError(
            f"saved run: it was started with {' and '.join(wanted)}, and a recording does not decide what is read: "
            f"give `{_words(given, argv)}`, or what of it matters here"
        )
    benchmark, configured = (next(reversed(_values(argv, flag)), None) for flag in _NAMES)
    benchmarks = list_benchmarks(roots)
    if benchmark in benchmarks:
        return replace(given, benchmark=benchmark)
    if configured in list_environments(roots):
        return replace(given, environment=configured)
    return replace(given, benchmark=environment) if environment in benchmarks else None


def _words(given: Selection, argv: Sequence[str]) -> str:
    """What selects the same as the recorded command; what the user gave stands in its place."""
    recorded = {flag: _values(argv, flag)[-1:] for flag in _NAMES}
    recorded |= {flag: _given(given, flag) or _values(argv, flag) for flag in _PLACES}
    return " ".join(f"{flag} {shlex.quote(value)}" for flag, values in recorded.items() for value in values)


def _given(given: Selection, flag: str) -> list[str]:
    return list(given.configs if flag == "--config" else given.search_dirs)


def _values(argv: Sequence[str], flag: str) -> list[str]:
    """All of them, written `--flag VALUE` or `--flag=VALUE`; where one counts, it is the last."""
    found = []
    for word, after in zip(argv, [*argv[1:], ""], strict=True):
        if word == flag:
            found.append(after)
        elif word.startswith(f"{flag}="):
            found.append(word.removeprefix(f"{flag}="))
    return found
