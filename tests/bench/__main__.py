"""Run the benchmarks, all of them or those that are named.

python -m tests.bench [NAME ...]
"""

import argparse
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*NAMES, []], help=", ".join(NAMES))
    failed = [name for name in parser.parse_args().names or NAMES if not _run(name)]
    if failed:
        sys.stdout.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0


def _run(name: str) -> bool:
    """In a process of its own, so that none finds what another one left in memory."""
    sys.stdout.write(f"== {name}\n")
    sys.stdout.flush()
    return subprocess.run([sys.executable, "-m", f"tests.bench.bench_{name}"], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
