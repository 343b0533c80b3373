"""`gym sandbox build`: what sandboxes carry. The others: `sandbox_check`, `sandbox_listing`.

Also a program of its own (`python -m gym_core.cli.sandbox build`) that needs nothing but Python: the image is built
with it.
"""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from gym_core.errors import ConfigError, SandboxUnavailable
from gym_core.sandbox import toolkit

if TYPE_CHECKING:
    _SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]

_OK, _FAILED, _CONFIG_ERROR, _CANCELLED = 0, 1, 2, 130


def add_sandbox_parser(subparsers: "_SubParsers") -> None:
    """Add `sandbox` with its commands; each sets `run`, which takes the parsed arguments and returns the exit code."""
    # Imported here: the image's build stage, which calls `main`, has this module and not those.
    from gym_core.cli.sandbox_check import add_check_parser
    from gym_core.cli.sandbox_listing import add_listing_parsers

    sandbox = subparsers.add_parser("sandbox", help="build, check, list and sweep sandboxes")
    commands = sandbox.add_subparsers(dest="sandbox_command", metavar="COMMAND", required=True)
    _add_commands(commands)
    add_check_parser(commands)
    add_listing_parsers(commands)


def _add_commands(commands: "_SubParsers") -> None:
    build = commands.add_parser(
        "build",
        help="build the toolkit (OpenCode, ripgrep, Python with image packages), or verify the one that is there",
        epilog="example: GYM_CACHE_DIR=/srv/gym gym sandbox build",
    )
    build.add_argument("--rebuild", action="store_true", help="replace a toolkit that was changed after it was built")
    build.add_argument(
        "--provider", choices=("local", "docker"), default="local", help="docker: build the image of the same content"
    )
    image = build.add_argument_group("with --provider docker")
    image.add_argument("--tag", default="visual-coding-opencode", help="the image's name")
    image.add_argument("--host", help="the engine's socket; else DOCKER_HOST, else unix:///var/run/docker.sock")
    image.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE", help="such as BASE=IMAGE")
    image.add_argument("--network", help="of the build's steps, such as host")
    build.set_defaults(run=run_build)


def run_build(args: argparse.Namespace) -> int:
    if args.provider == "docker":
        # Imported here: the image's build stage has this module and not that one.
        from gym_core.cli.sandbox_image import build_docker_image

        build_docker_image(args)
        return _OK
    start = time.monotonic()
    path = toolkit.build(lambda line: print(line, file=sys.stderr, flush=True), rebuild=bool(args.rebuild))
    print(f"{toolkit.describe(path)} ({time.monotonic() - start:.1f} s)")
    return _OK


def main() -> int:
    parser = argparse.ArgumentParser(prog="gym sandbox", description=__doc__)
    _add_commands(parser.add_subparsers(dest="sandbox_command", metavar="COMMAND", required=True))
    args = parser.parse_args()
    try:
        return int(args.run(args))
    except (ConfigError, SandboxUnavailable) as error:
        print(f"gym sandbox: {error}", file=sys.stderr)
        return _CONFIG_ERROR if isinstance(error, ConfigError) else _FAILED
    except KeyboardInterrupt:
        return _CANCELLED


if __name__ == "__main__":
    sys.exit(main())
