"""The proof of token-exact training data, over as many real OpenCode sessions as asked for.

    python -m tests.bench sessions [--sessions 24] [--engine tiny|vllm] [--concurrency 3] [--keep FOLDER]

On the tiny engine (examples/tiny_vlm) or on the real vLLM that `make vllm` installs. Half of the sessions with
`exact_prefix`; the others with prompts rendered anew: on the tiny engine after answers cut into tokens at random (with
and without reasoning) or in the tokenizer's own tokens (tests/live/token_exact). Every sample is checked against the
engine's own log, and its log-probabilities are recomputed by transformers. Ends with 1 if anything does not hold.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.measured import load_line
from tests.live.token_exact.checks import check_leg
from tests.live.token_exact.evidence import read_leg
from tests.live.token_exact.findings import Findings
from tests.live.token_exact.play import LEGS, VLLM_LEGS, Leg, play
from tests.live.token_exact.recomputed import recompute, swapped_gap
from tests.live.token_exact.teacher import Teacher, build_seeing_model

ENGINES = {"tiny": LEGS, "vllm": VLLM_LEGS}
SHARES = {"exact": 4, "drifting": 1, "retokenized": 1, "canonical": 2, "vllm_exact": 4, "vllm_drifting": 4}
"""Of eight, of one engine's sessions."""


def prove(leg: Leg, numbers: range, *, teacher: Teacher, folder: Path, concurrency: int) -> Findings:
    """Plays the sessions, but for those that were kept."""
    started = time.monotonic()
    if not folder.exists():
        folder.mkdir()
        asyncio.run(play(leg, numbers, model=teacher.folder, folder=folder, concurrency=concurrency))
    ended = time.monotonic()
    read = read_leg(leg.name, folder)
    found = check_leg(read, teacher)
    recompute(read, teacher, found)
    n_swapped, smallest = swapped_gap(read, teacher)
    checked = time.monotonic()
    _say(f"\n-- {leg.name}: {len(numbers)} sessions in {ended - started:.0f} s, checked in {checked - ended:.0f} s")
    _say("\n".join(found.lines()))
    _say(f"control, two pictures of one size changed over: smallest gap of {n_swapped} samples {smallest:.2e} nats")
    return found


def run(folder: Path, legs: Sequence[Leg], sessions: int, concurrency: int) -> bool:
    started = time.monotonic()
    model = folder / "model"
    teacher = Teacher(model if model.exists() else build_seeing_model(model))
    everything, first = Findings(), 0
    for leg in legs:
        numbers = range(first, first + max(1, sessions * SHARES[leg.name] // 8))
        first = numbers.stop
        found = prove(leg, numbers, teacher=teacher, folder=folder / leg.name, concurrency=concurrency)
        everything.add(found)
    _say(f"\n== all, in {time.monotonic() - started:.0f} s; {load_line()}")
    _say("\n".join(everything.lines()))
    return not everything.problems


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _kept(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="gym-bench-") as made:
            yield Path(made)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=24)
    parser.add_argument("--engine", choices=ENGINES, default="tiny")
    parser.add_argument("--concurrency", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="a folder for what is played; what lies in it is only checked")
    args = parser.parse_args()
    with _kept(args.keep) as folder:
        return 0 if run(folder, ENGINES[args.engine], args.sessions, args.concurrency) else 1


if __name__ == "__main__":
    sys.exit(main())
