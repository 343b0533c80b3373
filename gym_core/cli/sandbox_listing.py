"""`gym sandbox list` and `gym sandbox sweep`: which sandboxes there are, and the end of those that nobody owns."""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from gym_core.cli.selection import Selection, add_selectors
from gym_core.cli.terminal import about, duration, printable, say, table, tell, warnings_told

if TYPE_CHECKING:
    from gym_core.sandbox.contract import SandboxInfo, SandboxProvider, SweepReport
    from gym_core.types.wire import JsonObject

    _SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]

T = TypeVar("T")

_OK, _FAILED = 0, 1
_EMBEDDED: "dict[str, JsonObject]" = {"sandbox": {"local": {}}}
_PROVIDER_TIMEOUT_S = 120.0
"""A service that does not answer must not hold the terminal for ever."""


def add_listing_parsers(commands: "_SubParsers") -> None:
    listing = commands.add_parser(
        "list",
        help="list the sandboxes of a configuration's providers, whoever made them; the embedded provider's by default",
        epilog="example: gym sandbox list --benchmark babyvision_opencode",
        allow_abbrev=False,
    )
    listing.add_argument("--json", action="store_true", help="for programs")
    listing.set_defaults(run=run_list, parser=listing)
    sweep = commands.add_parser(
        "sweep",
        help="remove the sandboxes that nobody owns any more, and what dead owners left; living ones stay",
        epilog="example: gym sandbox sweep --dry-run",
        allow_abbrev=False,
    )
    sweep.add_argument("--dry-run", action="store_true", help="say what would be removed, remove nothing")
    sweep.set_defaults(run=run_sweep, parser=sweep)
    for parser in (listing, sweep):
        add_selectors(parser)


def run_list(args: argparse.Namespace) -> int:
    infos, failed = _listed(_blocks_of(args))
    if args.json:
        say(json.dumps([info.model_dump() for info in infos], indent=2))
    else:
        _say_table(infos, nothing=None if failed else "no sandboxes")
    return _FAILED if failed else _OK


def run_sweep(args: argparse.Namespace) -> int:
    """What a dry run names is what a sweep at the same moment removes."""
    blocks = _blocks_of(args)
    if args.dry_run:
        infos, failed = _listed(blocks)
        _say_table([info for info in infos if info.is_orphan], nothing=None if failed else "nothing to remove")
        return _FAILED if failed else _OK
    reports, failed = _asked(blocks, _sweep)
    removed = [name for report in reports for name in report.removed]
    for name in removed:
        say(f"removed {printable(name)}")
    kept = sum(report.kept for report in reports)
    say(f"{len(removed)} removed, {kept} kept")
    return _FAILED if failed else _OK


def _blocks_of(args: argparse.Namespace) -> "dict[str, JsonObject]":
    """The sandbox blocks that the command line selects. Mistakes elsewhere in a configuration do not matter here."""
    from gym_core.config.reading import ConfigReading
    from gym_core.errors import ConfigError

    selection = Selection.of(args)
    if not (selection.benchmark or selection.environment or selection.model_type or selection.configs):
        if args.overrides:
            raise ConfigError("config: overrides change a configuration, and none is selected; give --config FILE")
        return dict(_EMBEDDED)
    return ConfigReading(selection.compose()).config_with_sandboxes().sandboxes


async def _list(provider: "SandboxProvider") -> "list[SandboxInfo]":
    return await provider.list()


async def _sweep(provider: "SandboxProvider") -> "list[SweepReport]":
    return [await provider.sweep()]


def _listed(blocks: "dict[str, JsonObject]") -> "tuple[list[SandboxInfo], bool]":
    return _asked(blocks, _list)


def _asked(
    blocks: "dict[str, JsonObject]", ask: "Callable[[SandboxProvider], Awaitable[list[T]]]"
) -> tuple[list[T], bool]:
    """What the providers answer, and whether one did not. Raises ConfigError before any is asked."""
    from gym_core.sandbox.providers import open_provider

    providers = {name: open_provider(block, name) for name, block in blocks.items()}
    with warnings_told():
        return asyncio.run(_asked_each(providers, ask))


async def _asked_each(
    providers: "dict[str, SandboxProvider]", ask: "Callable[[SandboxProvider], Awaitable[list[T]]]"
) -> tuple[list[T], bool]:
    from gym_core.errors import SandboxError

    answers: list[T] = []
    failed = False
    for name, provider in providers.items():
        try:
            async with asyncio.timeout(_PROVIDER_TIMEOUT_S):
                answers += await ask(provider)
        except (SandboxError, TimeoutError) as error:
            said = str(error) or f"no answer within {_PROVIDER_TIMEOUT_S:g} s"
            tell(printable(about(name, said), max_characters=2000))
            failed = True
        finally:
            await provider.aclose()
    return answers, failed


def _say_table(infos: "list[SandboxInfo]", *, nothing: str | None) -> None:
    """`nothing` is said of an empty list; None says nothing, where a provider did not answer."""
    now = time.time()
    rows: list[tuple[str, ...]] = [("SANDBOX", "PROVIDER", "STATE", "AGE", "ENDS IN", "OWNER", "METADATA")]
    for info in sorted(infos, key=lambda info: (info.provider, info.created_at or 0.0, info.sandbox_id)):
        metadata = " ".join(f"{key}={value}" for key, value in sorted(info.metadata.items()))
        rows.append(
            (
                printable(info.sandbox_id),
                printable(info.provider),
                "orphan" if info.is_orphan else "alive",
                "-" if info.created_at is None else duration(max(0.0, now - info.created_at)),
                "-" if info.expires_at is None else duration(max(0.0, info.expires_at - now)),
                printable(info.owner) or "-",
                printable(metadata) or "-",
            )
        )
    if infos:
        for line in table(rows, indent=""):
            say(line)
    elif nothing:
        say(nothing)
