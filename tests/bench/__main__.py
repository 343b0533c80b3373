"""Run the benchmarks, all of them or those that are named.

python -m tests.bench [NAME ...] [OPTIONS of one named benchmark]
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*NAMES, []], help=", ".join(NAMES))
    given, options = parser.parse_known_args()
    if options and len(given.names) != 1:
        parser.error(f"{' '.join(options)}: options are of one benchmark, and it is named")
    failed = [name for name in given.names or NAMES if not _run(name, options)]
    if failed:
        sys.stdout.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0


def _run(name: str, options: Sequence[str]) -> bool:
    """In a process of its own, so that none finds what another one left in memory."""
    sys.stdout.write(f"== {name}\n")
    sys.stdout.flush()
    command = [sys.executable, "-m", f"tests.bench.bench_{name}", *options]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
