"""`gym sandbox check`: what each provider can enforce here, tried with one sandbox, and what to do where it cannot."""

import argparse
import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gym_core.cli.selection import Selection, add_selectors
from gym_core.cli.terminal import about, printable, say, tell, warnings_told

if TYPE_CHECKING:
    from gym_core.sandbox.contract import SandboxSpec
    from gym_core.sandbox.inspection import Inspection
    from gym_core.servers.resources import SandboxSettings
    from gym_core.types.wire import JsonObject

    _SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]

_OK, _FAILED = 0, 1
_LOCAL, _DOCKER, _OPENSANDBOX = "local", "docker", "opensandbox"
_IMAGE_VARIABLE, _IMAGE = "VISUAL_CODING_OPENCODE_SANDBOX_IMAGE", "visual-coding-opencode"
_TIMEOUT_S = 1800.0
"""The first sandbox of an image may wait for its pull."""
_LINE_LENGTH = 2000


@dataclass(frozen=True)
class _Asked:
    """One provider, and the sandbox to be had of it."""

    name: str
    """Of its block."""
    block: "JsonObject"
    spec: "SandboxSpec"
    path: str
    """Where the block stands; "" for one that no file holds."""

    @property
    def provider(self) -> str:
        return next((name for name in (_LOCAL, _DOCKER, _OPENSANDBOX) if name in self.block), self.name)


def add_check_parser(commands: "_SubParsers") -> None:
    check = commands.add_parser(
        "check",
        help="make one sandbox and look at it from inside: the model answers, every other door is shut, programs run",
        epilog="example: gym sandbox check --provider docker",
        allow_abbrev=False,
    )
    check.add_argument(
        "--provider",
        choices=(_LOCAL, _DOCKER, _OPENSANDBOX),
        help="the embedded one by default, or all blocks of a configuration; opensandbox reads OPENSANDBOX_*",
    )
    check.add_argument("--image", help=f"of providers that run images; else ${_IMAGE_VARIABLE}, else {_IMAGE}")
    check.set_defaults(run=run_check, parser=check)
    add_selectors(check)


def run_check(args: argparse.Namespace) -> int:
    """Raises ConfigError before anything is made."""
    from gym_core.errors import SandboxError

    failed = False
    for asked in _asked_for(args):
        try:
            with warnings_told():
                lines = _lines_about(asked)
        except (SandboxError, TimeoutError) as error:
            said = str(error) or f"not done within {_TIMEOUT_S:g} s"
            tell(printable(about(asked.name, said), max_characters=_LINE_LENGTH))
            failed = True
        else:
            for line in lines:
                say(printable(line, max_characters=_LINE_LENGTH))
    return _FAILED if failed else _OK


def _asked_for(args: argparse.Namespace) -> list[_Asked]:
    from gym_core.errors import ConfigError
    from gym_core.launch.identity import with_toolkit
    from gym_core.sandbox.contract import SandboxSpec
    from gym_core.sandbox.providers import SandboxConfig

    selection = Selection.of(args)
    if selection.benchmark or selection.environment or selection.model_type or selection.configs:
        found = _configured(selection)
        if args.provider:
            found = [asked for asked in found if args.provider in asked.block]
        if not found:
            raise ConfigError(f"config: there is no sandbox block of {args.provider!r}")
    else:
        if args.overrides:
            raise ConfigError("config: overrides change a configuration, and none is selected; give --config FILE")
        provider = args.provider or _LOCAL
        found = [_Asked(provider, {provider: {}}, SandboxSpec(), "")]
    asked_for = []
    for asked in found:
        SandboxConfig.parse(asked.block, asked.path)
        asked_for.append(_with_image(asked, args.image))
    return [replace(asked, block=with_toolkit(asked.block)) for asked in asked_for]


def _with_image(asked: _Asked, image: str | None) -> _Asked:
    """What it runs, said to provider and sandbox alike. An image for the embedded provider is left for it to refuse."""
    settings = asked.block[asked.provider] or {}
    image = image or asked.spec.image
    if asked.provider != _LOCAL:
        image = image or settings.get("image") or os.environ.get(_IMAGE_VARIABLE) or _IMAGE
        settings = {**settings, "image": image}
    block = {**asked.block, asked.provider: settings}
    return replace(asked, block=block, spec=asked.spec.model_copy(update={"image": image}))


def _configured(selection: Selection) -> list[_Asked]:
    """The sandbox blocks, each with what the first server that lends of it asks for. Mistakes elsewhere in the
    configuration do not matter here."""
    from gym_core.config.blocks import Contradiction
    from gym_core.config.reading import ConfigReading
    from gym_core.errors import ConfigError
    from gym_core.launch.mounts import mounts_that_cannot_be
    from gym_core.sandbox.contract import SandboxSpec

    config = ConfigReading(selection.compose()).config_with_sandboxes()
    specs: dict[str, SandboxSpec] = {}
    wrong: list[Contradiction] = []
    for server in config.servers.values():
        if name := server.block.get("sandbox_provider"):
            path = f"{server.path}.sandbox_config"
            settings = _settings(server.block.get("sandbox_config") or {}, path)
            wrong += mounts_that_cannot_be(settings.mounts, config.sandboxes.get(str(name), {}), path)
            spec = SandboxSpec(image=settings.image, resources=settings.resources, mounts=list(settings.mounts))
            specs.setdefault(str(name), spec)
    if wrong:
        raise ConfigError([f"{found.path}: {found.sentence}" for found in wrong])
    return [_Asked(name, block, specs.get(name, SandboxSpec()), name) for name, block in config.sandboxes.items()]


def _settings(block: object, path: str) -> "SandboxSettings":
    """Raises ConfigError."""
    from pydantic import ValidationError

    from gym_core.config.violations import violations
    from gym_core.errors import ConfigError
    from gym_core.servers.resources import SandboxSettings

    try:
        return SandboxSettings.model_validate(block)
    except ValidationError as error:
        raise ConfigError([f"{p}: {said}" for p, said in violations(error, SandboxSettings, path)]) from error


def _lines_about(asked: _Asked) -> list[str]:
    """Raises SandboxError, TimeoutError."""
    lines = [_toolkit_line(asked.block)] if asked.provider == _LOCAL else []
    found = asyncio.run(_inspect(asked))
    enforced = ", ".join(f"{name} {value}" for name, value in found.enforced.model_dump().items())
    return [
        *lines,
        f"programs: {', '.join(found.programs)}",
        f"from inside, the model server answers at {found.model_url}, and these are shut: {', '.join(found.shut)}",
        f"{asked.name} sandboxes: {enforced}",
    ]


def _toolkit_line(block: "JsonObject") -> str:
    """What the embedded provider's sandboxes carry, every file compared. Raises SandboxUnavailable."""
    from gym_core.errors import SandboxUnavailable
    from gym_core.sandbox import toolkit

    path = Path(block[_LOCAL]["toolkit"])
    if not path.exists():
        raise SandboxUnavailable(f"no toolkit at {path}: `gym sandbox build` makes it")
    if problems := toolkit.verify(path):
        raise SandboxUnavailable("; ".join(problems))
    return toolkit.describe(path)


async def _inspect(asked: _Asked) -> "Inspection":
    from gym_core.sandbox.addresses import own_addresses
    from gym_core.sandbox.inspection import inspect
    from gym_core.sandbox.providers import open_provider

    here = "127.0.0.1"  # of a sandbox on another machine, or in a network of its own, it would be itself
    model_host = next(iter(own_addresses()), here) if asked.provider == _OPENSANDBOX else here
    provider = open_provider(asked.block, asked.path)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await inspect(provider, asked.spec, model_host=model_host)
    finally:
        await provider.aclose()
