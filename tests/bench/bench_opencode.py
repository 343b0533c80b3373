"""What the gym adds to OpenCode: a rollout of three model calls through the gym, beside a bare `opencode run`.

    python -m tests.bench.bench_opencode [--rounds 3] [--rollouts 4]

The same binary, settings, environment, prompt and picture, and the same endpoint, which asks for two bash commands
before it answers; bare means no sandbox, no proxy and no gym. The gym's figure is marginal, (N + 1 rollouts - 1) / N,
one rollout at a time; rounds are interleaved.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agent_servers.opencode_agent import settings
from agent_servers.opencode_agent.settings import Model
from gym_core.datasets.prepared import assets_of, read_dataset
from gym_core.sandbox.toolkit import toolkit_dir
from gym_core.types.responses import InputImage, InputText
from tests.bench.endpoint import CONTEXT_TOKENS, Endpoint, running_endpoint
from tests.bench.measured import Measured, load_line, measure, table

TOOL_TURNS = 2
MAX_OUTPUT_TOKENS = 16_384
TIMEOUT_S = 1800.0
HOME = "/home/agent"
BENCHMARK = Path("benchmarks/visual_puzzles_opencode/data/visual_puzzles_benchmark.jsonl")


@dataclass(frozen=True)
class BareOpenCode:
    """OpenCode set up as in a sandbox, with the sandbox's paths made paths of this folder."""

    folder: Path
    base_url: str

    def run(self) -> Measured:
        for path, text in self._files().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        workspace = self.folder / "workspace"
        timezone = settings.timezone_away_from_midnight(datetime.now(UTC), TIMEOUT_S)
        environment = settings.make_environment(max_output_tokens=MAX_OUTPUT_TOKENS, timezone=timezone)
        command = [self._outside(word) for word in settings.run_command([str(workspace / "image_1.png")])]
        clean = ["env", "-i", *(f"{name}={self._outside(value)}" for name, value in environment.items())]
        found = measure([*clean, *command], cwd=workspace)
        events = Path(self._outside(settings.EVENTS_FILE)).read_text()
        assert '"42' in events or "{42}" in events, f"{found.output}\n{events[-2000:]}"
        return found

    def _files(self) -> dict[Path, bytes]:
        model = Model(self.base_url, "none", CONTEXT_TOKENS, MAX_OUTPUT_TOKENS)
        task = next(read_dataset(BENCHMARK))
        parts = task.responses_create_params.user_parts()
        image = next(part.image_url for part in parts if isinstance(part, InputImage))
        prompt = "\n".join(part.text for part in parts if isinstance(part, InputText))
        return {
            Path(self._outside(settings.CONFIG_FILE)): settings.make_config(model, timeout_s=TIMEOUT_S).encode(),
            Path(self._outside(settings.PROMPT_FILE)): prompt.encode(),
            self.folder / "workspace" / "image_1.png": assets_of(BENCHMARK).get(image.removeprefix("sha256:")),
        }

    def _outside(self, text: str) -> str:
        return text.replace(settings.TOOLKIT, str(toolkit_dir())).replace(HOME, str(self.folder / "home"))


def run_gym(endpoint: Endpoint, folder: Path, rollouts: int) -> Measured:
    output = folder / f"out{len(list(folder.glob('out*')))}" / "x.jsonl"
    command = [
        sys.executable, "-m", "gym_core.cli.main", "eval", "run", "--benchmark", "visual_puzzles_opencode",
        "--model-type", "vllm_model", "--output", str(output), "--limit", str(rollouts), "--concurrency", "1",
        *endpoint.overrides,
    ]  # fmt: skip
    found = measure(command, environ={"GYM_STATE_DIR": str(folder / "state")})
    rows = [json.loads(line) for line in output.open()] if output.exists() else []
    assert [row["mask_sample"] for row in rows] == [False] * rollouts, found.output
    return found


@dataclass
class Rounds:
    bare: list[list[Measured]] = field(default_factory=list)
    one: list[Measured] = field(default_factory=list)
    many: list[Measured] = field(default_factory=list)

    def add(self, endpoint: Endpoint, folder: Path, rollouts: int) -> None:
        self.one.append(run_gym(endpoint, folder, 1))
        endpoint.reset()
        fresh = [BareOpenCode(Path(tempfile.mkdtemp(dir=folder)), endpoint.base_url) for _ in range(rollouts)]
        self.bare.append([bare.run() for bare in fresh])
        _check_calls(endpoint, rollouts)
        self.many.append(run_gym(endpoint, folder, rollouts + 1))

    def rows(self) -> list[list[object]]:
        rows = []
        for name, figure in (("CPU s", _cpu_s), ("wall s", _wall_s)):
            bare = [statistics.mean(map(figure, runs)) for runs in self.bare]
            gym = [
                (figure(many) - figure(one)) / len(runs)
                for many, one, runs in zip(self.many, self.one, self.bare, strict=True)
            ]
            ratios = [ours / theirs for ours, theirs in zip(gym, bare, strict=True)]
            added = f"{(statistics.median(ratios) - 1) * 100:+.0f} %"
            rows.append([name, len(bare), statistics.median(bare), statistics.median(gym), added, _span(ratios)])
        return rows


def _check_calls(endpoint: Endpoint, rollouts: int) -> None:
    calls = endpoint.stats().calls
    assert calls == rollouts * (TOOL_TURNS + 1), f"{calls} calls by {rollouts} bare runs"


def _cpu_s(found: Measured) -> float:
    return found.cpu_s


def _wall_s(found: Measured) -> float:
    return found.wall_s


def _span(ratios: Sequence[float]) -> str:
    return f"{(min(ratios) - 1) * 100:+.0f} to {(max(ratios) - 1) * 100:+.0f} %"


def run(folder: Path, rounds: int, rollouts: int) -> None:
    found = Rounds()
    with running_endpoint(tool_turns=TOOL_TURNS) as endpoint:
        run_gym(endpoint, folder, 1)  # not counted: it prepares data, and fills caches
        for _ in range(rounds):
            found.add(endpoint, folder, rollouts)
    columns = ["a rollout of three calls", "rounds", "bare", "gym", "added", "min-max"]
    lines = [
        f"{rollouts} rollouts a round, one at a time; {load_line()}",
        table(columns, found.rows()),
        f"a gym's start and end with one rollout: {statistics.median(map(_wall_s, found.one)):.1f} s, "
        f"{statistics.median(map(_cpu_s, found.one)):.1f} CPU s",
        "aim: at most 10 % added",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rollouts", type=int, default=4)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="gym-bench-") as folder:
        run(Path(folder), args.rounds, args.rollouts)


if __name__ == "__main__":
    main()
