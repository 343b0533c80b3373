"""`gym view`: look at runs in a browser, or write them into one file."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from gym_core.cli.terminal import counted, printable, say, tell
from gym_core.errors import ConfigError


def add_view_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        type=Path,
        help="output file of a run, or a folder that holds some; repeatable",
    )
    parser.add_argument("--port", type=int, default=0, metavar="PORT", help="of 127.0.0.1; default: a free one")
    parser.add_argument(
        "--export", type=Path, metavar="OUT.html", help="write one self-contained file, over nothing, and end"
    )
    parser.add_argument(
        "--rollout", action="append", default=[], metavar="ID", help="with --export: only these rollouts; repeatable"
    )
    parser.add_argument(
        "--max-mb",
        type=int,
        metavar="N",
        help="with --export: of all pictures together (default 64); what does not fit is named and left out",
    )


def view_command(args: argparse.Namespace) -> int:
    if args.export is not None:
        return _export(args)
    of_export = {"--rollout": args.rollout or None, "--max-mb": args.max_mb}
    if given := [flag for flag, value in of_export.items() if value is not None]:
        raise ConfigError([f"view: {flag} goes with --export OUT.html; the page itself shows all" for flag in given])
    return _serve(args)


def _export(args: argparse.Namespace) -> int:
    from gym_core.viewer.export import ExportLimits, check_page_path, export_page
    from gym_core.viewer.shelf import Shelf

    check_page_path(args.export)  # before anything is read: it may be a run's own file
    limits = ExportLimits() if args.max_mb is None else ExportLimits(image_bytes=args.max_mb << 20)
    report = export_page(Shelf(args.paths), args.export, args.rollout, limits)
    for warning in report.warnings:
        tell(f"warning: {printable(warning)}")
    what = (
        f"{counted(report.rollouts, 'rollout')} of {counted(report.runs, 'run')}, {counted(report.images, 'picture')}"
    )
    say(f"{args.export}: {what}, {report.bytes / 1e6:.1f} MB")
    return 0


def _serve(args: argparse.Namespace) -> int:
    from gym_core.http.auth import new_token
    from gym_core.viewer.app import Viewer
    from gym_core.viewer.serving import LOOPBACK, listen, serve
    from gym_core.viewer.shelf import Shelf

    shelf = Shelf(args.paths)
    viewer = Viewer(shelf, new_token())
    with listen(args.port) as listener:
        found = len(shelf.runs())
        say(f"runs  {found}" if found else f"runs  0: {_no_runs(args.paths)}")
        say(f"open  http://{LOOPBACK}:{listener.getsockname()[1]}/#token={viewer.token}")
        say("stop  Ctrl-C")
        serve(viewer.make_app(), listener)
    return 0


def _no_runs(paths: Sequence[Path]) -> str:
    """A path that is a file is a run's, or was refused: these are folders."""
    from gym_core.viewer.shelf import MAX_DEPTH

    folders = printable(", ".join(map(str, paths)))
    return (
        f"no run's output file lies in {folders}, nor {MAX_DEPTH} folders deep below; give another PATH "
        "(what `gym eval run --output` named), or leave this open: a run that begins there is shown"
    )
