"""Time from the command to the first model call, with everything installed.

    python -m tests.bench.bench_start [--runs 5] [--timeline]

Two starts, in turn: the puzzles through OpenCode in a sandbox, and single calls without either. OpenCode's own start,
before it asks anything, is part of the first; a bare one beside them says how much. `--timeline` adds what the servers'
logs say of the last runs.
"""

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tests.bench.bench_opencode import BareOpenCode
from tests.bench.endpoint import Endpoint, running_endpoint
from tests.bench.measured import Measured, load_line, measure, table
from tests.bench.picture_tasks import write_picture_tasks

AIM_S = 3.0


@dataclass
class Start:
    name: str
    selection: list[str]
    first_call_s: list[float] = field(default_factory=list)
    runs: list[Measured] = field(default_factory=list)
    timeline: list[tuple[float, str]] = field(default_factory=list)
    tries: int = 0

    def run(self, endpoint: Endpoint, folder: Path) -> None:
        self.tries += 1
        state = folder / f"{self.name}-state{self.tries}"
        output = folder / f"{self.name}{self.tries}" / "x.jsonl"
        endpoint.reset()
        command = [
            sys.executable, "-m", "gym_core.cli.main", "eval", "run", *self.selection, "--model-type", "vllm_model",
            "--output", str(output), "--limit", "1", *endpoint.overrides,
        ]  # fmt: skip
        found = measure(command, environ={"GYM_STATE_DIR": str(state)})
        called_at = endpoint.stats().first_call_at
        assert called_at is not None, found.output
        self._keep(found, called_at)
        self.timeline = sorted([*_logged(state, found.started_at), (self.first_call_s[-1], "first model call")])

    def run_bare(self, endpoint: Endpoint, folder: Path) -> None:
        """OpenCode alone."""
        endpoint.reset()
        found = BareOpenCode(Path(tempfile.mkdtemp(dir=folder)), endpoint.base_url).run()
        called_at = endpoint.stats().first_call_at
        assert called_at is not None, found.output
        self._keep(found, called_at)

    def _keep(self, found: Measured, called_at: float) -> None:
        self.runs.append(found)
        self.first_call_s.append(called_at - found.started_at)

    def row(self) -> list[object]:
        seconds = self.first_call_s
        cpu = statistics.median(run.cpu_s for run in self.runs)
        whole = statistics.median(run.wall_s for run in self.runs)
        return [self.name, len(seconds), min(seconds), statistics.median(seconds), max(seconds), AIM_S, whole, cpu]


def _logged(state_dir: Path, started_at: float) -> list[tuple[float, str]]:
    """(seconds since the command, server and event) of each log line."""
    found = []
    for log in state_dir.rglob("*.log"):
        for line in log.read_text().splitlines():
            if line.startswith("{"):
                entry = json.loads(line)
                at = datetime.fromisoformat(entry["time"]).timestamp() - started_at
                found.append((at, f"{entry['server']}: {entry['event']}"))
    return found


def run(folder: Path, runs: int, *, with_timeline: bool) -> None:
    tasks = write_picture_tasks(folder / "data", 1)
    starts = [
        Start("opencode", ["--benchmark", "visual_puzzles_opencode"]),
        Start("single_call", ["--config", str(tasks.config)]),
    ]
    bare = Start("bare opencode", [])
    with running_endpoint() as endpoint:
        for start in starts:
            start.run(endpoint, folder)  # not counted: it prepares data, and fills caches
            start.first_call_s.clear()
            start.runs.clear()
        for _ in range(runs):
            for start in starts:
                start.run(endpoint, folder)
            bare.run_bare(endpoint, folder)
    columns = ["start to first call", "runs", "min s", "median s", "max s", "aim s", "whole command s", "CPU s"]
    lines = [load_line(), table(columns, [start.row() for start in (*starts, bare)])]
    if with_timeline:
        for start in starts:
            lines += [f"{start.name}, last run:", *(f"  {at:6.2f} s  {what}" for at, what in start.timeline)]
    sys.stdout.write("\n".join(lines) + "\n")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--timeline", action="store_true")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="gym-bench-") as folder:
        run(Path(folder), args.runs, with_timeline=args.timeline)


if __name__ == "__main__":
    main()
