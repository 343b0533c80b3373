"""What the command line selects: files, roots and overrides, on the way to a composed and a checked configuration."""

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gym_core.config.blocks import CheckedConfig
    from gym_core.config.compose import Composed
    from gym_core.config.roots import Roots

_OPTION_OF_FLAG = {
    "limit": "limit",
    "num_repeats": "num_repeats",
    "concurrency": "num_samples_in_parallel",
    "resume": "resume",
    "pilot": "pilot",
    "dry_run": "dry_run",
    "output": "output_jsonl_fpath",
}
"""Flags that are another way to write an override."""


def add_selectors(parser: argparse.ArgumentParser) -> None:
    """The flags that every command with a configuration has; `key=value` words may stand anywhere among them."""
    group = parser.add_argument_group(
        "configuration",
        "Later wins: benchmark, environment, model type, files, env.yaml of this folder, and then any number of\n"
        "++key.path=value (add or replace), +key.path=value (add) and key.path=value (replace).",
    )
    group.add_argument("--benchmark", metavar="NAME", help="benchmarks/NAME/config.yaml")
    group.add_argument("--environment", metavar="NAME", help="resources_servers/NAME/configs/NAME.yaml")
    group.add_argument("--model-type", metavar="NAME", help="the policy: model_servers/NAME/configs/NAME.yaml")
    group.add_argument("--config", metavar="FILE", action="append", default=[], help="another file; repeatable")
    group.add_argument(
        "--search-dir", metavar="DIR", action="append", default=[], help="look here first for names; repeatable"
    )
    parser.set_defaults(takes_overrides=True)


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the run (each is short for an override)")
    group.add_argument("--output", metavar="PATH", help="++output_jsonl_fpath: where the rollouts go")
    group.add_argument("--limit", type=int, metavar="N", help="++limit: only the first N tasks")
    group.add_argument("--num-repeats", type=int, metavar="N", help="++num_repeats: rollouts of each task")
    group.add_argument("--concurrency", type=int, metavar="N", help="++num_samples_in_parallel: rollouts in flight")
    group.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="++resume: go on where an earlier run into the same file stopped (the default), or refuse to",
    )
    group.add_argument(
        "--dry-run",
        action="store_true",
        default=None,
        help="++dry_run: say what would run and what is left, and start nothing; with --pilot, before the pilot",
    )
    group.add_argument(
        "--pilot",
        type=int,
        metavar="N",
        help="++pilot: play N rollouts of those that are left, keep them, and estimate what the rest takes",
    )


@dataclass(frozen=True)
class Selection:
    benchmark: str | None
    environment: str | None
    model_type: str | None
    configs: tuple[str, ...]
    search_dirs: tuple[str, ...]
    overrides: tuple[str, ...]

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Selection":
        """From parsed arguments; flags of the run become overrides that an override after them can still change."""
        given = {option: getattr(args, flag, None) for flag, option in _OPTION_OF_FLAG.items()}
        flags = [f"++{option}={json.dumps(value)}" for option, value in given.items() if value is not None]
        return cls(
            benchmark=args.benchmark,
            environment=args.environment,
            model_type=args.model_type,
            configs=tuple(args.config),
            search_dirs=tuple(args.search_dir),
            overrides=(*flags, *args.overrides),
        )

    def roots(self) -> "Roots":
        """Where names are looked up, in this process and, by GYM_EXTRA_ROOTS, in those it starts."""
        from gym_core.config.roots import EXTRA_ROOTS_VARIABLE, lookup_roots

        roots = lookup_roots(self.search_dirs)
        asked = [str(Path(item).resolve()) for item in self.search_dirs]
        before = [item for item in os.environ.get(EXTRA_ROOTS_VARIABLE, "").split(os.pathsep) if item]
        if asked:
            os.environ[EXTRA_ROOTS_VARIABLE] = os.pathsep.join(dict.fromkeys([*asked, *before]))
        return roots

    def compose(self) -> "Composed":
        """Raises ConfigError, also when nothing is selected."""
        from gym_core.config.compose import compose_config
        from gym_core.config.roots import benchmark_config, environment_config, model_type_config
        from gym_core.errors import ConfigError

        roots = self.roots()
        files: list[str] = []
        problems: list[str] = []
        for name, find in (
            (self.benchmark, benchmark_config),
            (self.environment, environment_config),
            (self.model_type, model_type_config),
        ):
            try:
                files += [str(find(name, roots))] if name is not None else []
            except ConfigError as error:
                problems += error.problems
        has_files = bool(files or self.configs or any("config_paths=" in word for word in self.overrides))
        if not problems and not has_files:
            problems.append("config: nothing is selected; give --benchmark NAME, --environment NAME or --config FILE")
        if problems:
            raise ConfigError(problems)
        return compose_config([*files, *self.configs], self.overrides, roots=roots)

    def check(self) -> "CheckedConfig":
        """Raises ConfigError with every mistake."""
        return check_composed(self.compose())


def check_composed(composed: "Composed") -> "CheckedConfig":
    """Raises ConfigError with every mistake."""
    from gym_core.config.blocks import check_config
    from gym_core.launch.consistency import contradictions
    from gym_core.sandbox.providers import provider_class
    from gym_core.servers.plugins import block_class

    return check_config(
        composed,
        block_class=lambda server: block_class(server, composed.roots),
        provider_class=provider_class,
        contradictions=contradictions,
    )
