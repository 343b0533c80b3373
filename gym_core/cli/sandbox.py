"""`gym sandbox build` and `gym sandbox check`: what sandboxes carry, made and looked at. The others: `sandbox_listing`.

Also a program of its own (`python -m gym_core.cli.sandbox build`) that needs nothing but Python: the image is built
with it.
"""

import argparse
import asyncio
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gym_core.errors import ConfigError, SandboxUnavailable
from gym_core.sandbox import toolkit

if TYPE_CHECKING:
    _SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]

_PROGRAMS = "opencode --version && rg --version && python3 -c 'import PIL, cv2, numpy, scipy'"
_OK, _FAILED, _CONFIG_ERROR, _CANCELLED = 0, 1, 2, 130


def add_sandbox_parser(subparsers: "_SubParsers") -> None:
    """Add `sandbox` with its commands; each sets `run`, which takes the parsed arguments and returns the exit code."""
    # Imported here: the image's build stage, which calls `main`, has this module and not that one.
    from gym_core.cli.sandbox_listing import add_listing_parsers

    sandbox = subparsers.add_parser("sandbox", help="build, check, list and sweep sandboxes")
    commands = sandbox.add_subparsers(dest="sandbox_command", metavar="COMMAND", required=True)
    _add_commands(commands)
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
    check = commands.add_parser(
        "check",
        help="verify the toolkit, then make a sandbox with it: try its walls and run each program inside",
        epilog="example: gym sandbox check",
    )
    check.set_defaults(run=run_check)


def run_build(args: argparse.Namespace) -> int:
    if args.provider == "docker":
        # Imported here: the image's build stage has this module and not that one.
        from gym_core.cli.sandbox_image import build_docker_image

        build_docker_image(args)
        return _OK
    start = time.monotonic()
    path = toolkit.build(lambda line: print(line, file=sys.stderr, flush=True), rebuild=bool(args.rebuild))
    print(f"{_describe(path)} ({time.monotonic() - start:.1f} s)")
    return _OK


def run_check(_: argparse.Namespace) -> int:
    path = toolkit.toolkit_dir()
    if not path.exists():
        print(f"no toolkit at {path}: `gym sandbox build` makes it")
        return _FAILED
    problems = toolkit.verify(path)
    if problems:
        print("\n".join(problems))
        return _FAILED
    print(_describe(path))
    print(asyncio.run(_try_sandbox(path)))
    return _OK


async def _try_sandbox(path: Path) -> str:
    """What the embedded provider enforces here, in one line. Raises SandboxUnavailable when it, or a program, fails."""
    # Imported here: the image's build stage has this module and not these.
    from gym_core.sandbox.contract import Launch, SandboxSpec
    from gym_core.sandbox.providers import open_provider

    provider = open_provider({"local": {"toolkit": str(path)}})
    try:
        enforced = await provider.check()
        sandbox = await provider.create(f"check-{secrets.token_hex(4)}", SandboxSpec())
        done = await sandbox.exec(Launch(argv=["/bin/sh", "-c", _PROGRAMS]))
        if not done.ok:
            raise SandboxUnavailable(
                f"a program of the toolkit does not run in a sandbox: {done.stderr.decode()[-500:]}"
            )
    finally:
        await provider.aclose()
    return "local sandboxes: " + ", ".join(f"{name} {value}" for name, value in enforced.model_dump().items())


def _describe(path: Path) -> str:
    manifest = toolkit.read_manifest(path)
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    return f"{path}: {versions}; {manifest.size_bytes / 2**20:.0f} MiB"


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
