"""What a session costs on disk: CPU per call written and per session read, bytes per distinct token.

    python -m tests.bench.bench_capture [--rounds 3]

Token ids and log-probabilities of the shapes that sessions take, with the facts of each call and its intent; without
the messages, whose bytes are the harness's. A token is distinct where no earlier call began with it at its place.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from gym_core.capture.recorder import CallRecord, CallRecorder, read_captured
from tests.fakes.token_sessions import SHAPES, TokenSource, distinct_tokens, records


def write(path: Path, calls: list[CallRecord]) -> float:
    """CPU seconds."""
    recorder = CallRecorder(path)
    started = time.process_time()
    for call in calls:
        recorder.intend({name: call.facts[name] for name in ("call_id", "session_id", "index", "sent_at")})
        recorder.keep(call)
    seconds = time.process_time() - started
    recorder.close()
    return seconds


def read(path: Path) -> float:
    """CPU seconds."""
    started = time.process_time()
    for call in read_captured(path):
        assert call.tokens is not None
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print(f"{'session':26}{'calls':>6}{'M seen':>8}{'k new':>7}{'ms/call':>9}{'read ms':>9}{'KB':>7}{'B/token':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in SHAPES.items():
            tokens = shape(TokenSource())
            calls, n_new = list(records(tokens)), distinct_tokens(tokens)
            paths = [Path(folder) / f"{name}-{round_}.calls" for round_ in range(rounds)]
            write_ms = statistics.median(write(path, calls) for path in paths) * 1e3 / len(calls)
            read_ms = statistics.median(read(path) for path in paths) * 1e3
            n_bytes = paths[0].stat().st_size
            n_seen = sum(len(call.prompt_ids) for call in tokens)
            print(
                f"{name:26}{len(calls):6}{n_seen / 1e6:8.1f}{n_new / 1e3:7.0f}{write_ms:9.3f}{read_ms:9.1f}"
                f"{n_bytes / 1e3:7.0f}{n_bytes / n_new:9.2f}"
            )


if __name__ == "__main__":
    main()
