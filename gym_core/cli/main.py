"""The entry point of `gym`. It imports next to nothing, so that Ctrl-C in the first moment ends like one later on."""

import sys
from collections.abc import Sequence

CANCELLED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: see `command_line`."""
    try:
        from gym_core.cli.command_line import run_command_line

        return run_command_line(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        sys.stderr.write("gym: cancelled\n")
        return CANCELLED


if __name__ == "__main__":
    sys.exit(main())
