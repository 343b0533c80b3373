"""`gym sandbox build --provider docker`: the sandbox image, on an engine of this machine."""

import argparse
import asyncio
import sys
import time

from gym_core.errors import ConfigError
from gym_core.sandbox.providers.docker.build import build_image, build_options
from gym_core.sandbox.providers.docker.engine import BuildOptions, Engine
from gym_core.sandbox.providers.docker.settings import DockerSandboxConfig

_LINE_LENGTH = 200


def build_docker_image(args: argparse.Namespace) -> None:
    """Prints the id, and how to use it. Raises ConfigError, SandboxUnavailable."""
    start = time.monotonic()
    tag: str = args.tag
    options = build_options(tag=tag, arguments=_pairs(args.build_arg), network=args.network)
    image_id = asyncio.run(_build(args.host, options))
    print(f"{tag}: {image_id} ({time.monotonic() - start:.1f} s)")
    print(f"to use it: export VISUAL_CODING_OPENCODE_SANDBOX_IMAGE={tag}")


async def _build(host: str | None, options: BuildOptions) -> str:
    engine = Engine(DockerSandboxConfig(host=host).url)
    try:
        return await build_image(engine, options, lambda line: print(line[:_LINE_LENGTH], file=sys.stderr, flush=True))
    finally:
        await engine.aclose()


def _pairs(words: list[str]) -> dict[str, str]:
    bad = [word for word in words if "=" not in word]
    if bad:
        raise ConfigError([f"--build-arg: {word!r} is not NAME=VALUE" for word in bad])
    return dict(word.split("=", 1) for word in words)
