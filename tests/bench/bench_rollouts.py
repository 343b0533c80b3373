"""What the gym itself costs: single-turn rollouts with a 300 KB picture each, against an endpoint that answers at once.

    python -m tests.bench.bench_rollouts [--rounds 3] [--rollouts 500]

No sandbox, exact-match grading, the `single_call` agent. CPU is that of every gym process; the marginal figure leaves
the start out: (CPU at 500 - CPU at 20) / 480. A bare aiohttp client doing the same runs beside it, round by round. How
many calls are in flight at the endpoint is asked of one that takes its time, as one that does not has no queue.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.endpoint import Endpoint, running_endpoint
from tests.bench.measured import Measured, load_line, measure, table
from tests.bench.picture_tasks import PictureTasks, write_picture_tasks

FEW = 20
CONCURRENCY = 64
SLOW_DELAY_S = 2.0
SLOW_ROLLOUTS = 128


@dataclass(frozen=True)
class Bench:
    folder: Path
    tasks: PictureTasks

    def gym(self, endpoint: Endpoint, rollouts: int) -> tuple[Measured, Path]:
        """One `gym eval run`; its output lies alone in a folder."""
        output = self.folder / f"out{len(list(self.folder.glob('out*')))}" / "x.jsonl"
        endpoint.reset()
        command = [
            sys.executable, "-m", "gym_core.cli.main", "eval", "run", "--config", str(self.tasks.config),
            "--model-type", "vllm_model", "--output", str(output), "--limit", str(rollouts),
            "--concurrency", str(CONCURRENCY), *endpoint.overrides,
        ]  # fmt: skip
        found = measure(command, environ={"GYM_STATE_DIR": str(self.folder / "state")})
        _check(found, output, rollouts)
        return found, output.parent

    def raw(self, endpoint: Endpoint, rollouts: int) -> Measured:
        pictures, lines = self.tasks.folder / "pictures_assets", self.folder / "raw.jsonl"
        words = [str(pictures), str(rollouts), str(CONCURRENCY), endpoint.base_url, str(lines)]
        found = measure([sys.executable, "-m", "tests.bench.raw_client", *words])
        assert found.exit_code == 0, found.output
        return found


def _check(found: Measured, output: Path, rollouts: int) -> None:
    """A benchmark of work that was not done measures nothing."""
    assert found.exit_code == 0, found.output
    rewards = [json.loads(line)["reward"] for line in output.open()]
    assert rewards == [1.0] * rollouts, f"{len(rewards)} rows, {rewards.count(1.0)} right\n{found.output}"


def bytes_on_disk(*folders: Path) -> int:
    """Blocks of all files, each inode once: a picture that two folders link to is stored once."""
    inodes: dict[tuple[int, int], int] = {}
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file():
                seen = path.stat()
                inodes[seen.st_dev, seen.st_ino] = seen.st_blocks * 512
    return sum(inodes.values())


@dataclass
class Rounds:
    many: list[Measured] = field(default_factory=list)
    few: list[Measured] = field(default_factory=list)

    def row(self, name: str, rollouts: int, base: "Rounds | None" = None) -> list[object]:
        marginal = self.marginal_ms(rollouts)
        model = statistics.median(m.wall_s for m in self.many)
        return [
            name,
            len(self.many),
            statistics.median(m.cpu_s for m in self.few),
            statistics.median(m.cpu_s for m in self.many) * 1e3 / rollouts,
            marginal,
            f"{min(self.marginals_ms(rollouts)):.1f}-{max(self.marginals_ms(rollouts)):.1f}",
            marginal / base.marginal_ms(rollouts) if base else 1.0,
            max(m.peak_pss_mib for m in self.many),
            model,
            rollouts / model,
        ]

    def marginals_ms(self, rollouts: int) -> list[float]:
        pairs = zip(self.many, self.few, strict=True)
        return [(many.cpu_s - few.cpu_s) * 1e3 / (rollouts - FEW) for many, few in pairs]

    def marginal_ms(self, rollouts: int) -> float:
        return statistics.median(self.marginals_ms(rollouts))

    def by_process(self, rollouts: int) -> dict[str, float]:
        """Marginal CPU, ms a rollout."""
        names = {name for found in self.many for name in found.cpu_by_log}
        return {
            name: statistics.median(
                (many.cpu_by_log.get(name, 0.0) - few.cpu_by_log.get(name, 0.0)) * 1e3 / (rollouts - FEW)
                for many, few in zip(self.many, self.few, strict=True)
            )
            for name in sorted(names)
        }


def run(folder: Path, rounds: int, rollouts: int) -> None:
    bench = Bench(folder, write_picture_tasks(folder / "data", rollouts))
    gym, raw = Rounds(), Rounds()
    flying, disk, phases = [], [], []
    with running_endpoint() as endpoint:
        for _ in range(rounds):
            raw.few.append(bench.raw(endpoint, FEW))
            gym.few.append(bench.gym(endpoint, FEW)[0])
            raw.many.append(bench.raw(endpoint, rollouts))
            found, output = bench.gym(endpoint, rollouts)
            gym.many.append(found)
            stats = endpoint.stats()
            flying.append(stats.peak_in_flight)
            phases.append((stats.last_answer_at or 0.0) - (stats.first_call_at or 0.0))
            disk.append(bytes_on_disk(output, bench.tasks.folder) / bench.tasks.image_bytes)
            shutil.rmtree(output)
    with running_endpoint(delay_s=SLOW_DELAY_S) as endpoint:
        slow = min(SLOW_ROLLOUTS, rollouts)
        bench.gym(endpoint, slow)
        in_flight = endpoint.stats().peak_in_flight
    columns = ["", "rounds", "CPU s at 20", "CPU ms each", "marginal ms", "min-max", "x raw", "MiB", "wall s", "per s"]
    each = gym.by_process(rollouts)
    lines = [
        f"{rollouts} rollouts, pictures of {bench.tasks.image_bytes // rollouts} bytes, {CONCURRENCY} at a time",
        load_line(),
        table(columns, [raw.row("raw aiohttp", rollouts), gym.row("gym", rollouts, raw)]),
        f"marginal CPU by process, ms a rollout: {', '.join(f'{name} {ms:.2f}' for name, ms in each.items())}",
        f"first call to last answer: {statistics.median(phases):.1f} s; most in flight then: {max(flying)}",
        f"in flight at an endpoint that takes {SLOW_DELAY_S:g} s: {in_flight} of {min(CONCURRENCY, slow)}",
        f"bytes on disk a unique picture byte (data set and output): {statistics.median(disk):.3f}",
        "aims: marginal CPU below 8 ms, memory below 500 MiB, 1.1 bytes on disk, as many in flight as asked",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rollouts", type=int, default=500)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="gym-bench-", dir=os.environ.get("TMPDIR")) as folder:
        run(Path(folder), args.rounds, args.rollouts)


if __name__ == "__main__":
    main()
