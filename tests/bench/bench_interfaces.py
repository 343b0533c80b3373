"""The same 44 puzzles over four interfaces, by the scripted policy, through real services: one table.

    python -m tests.bench.bench_interfaces [--page docs/interfaces.md]

OpenCode in a sandbox, a living Python process, native image tools, and one call without tools. With `--page` the table
takes the place of the one on that page. Sandboxes are needed; nothing else runs beside it, or its seconds are of both.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gym_core.types.comparison import Comparison
from gym_core.types.metrics import MetricsReport, Spread
from gym_core.types.wire import JsonObject
from tests.bench.measured import load_line, measure

BEGIN, END = "<!-- table: python -m tests.bench interfaces -->", "<!-- end of table -->"
CONCURRENCY = 2
TASKS = 44


@dataclass(frozen=True)
class Interface:
    title: str
    benchmark: str

    def overrides(self, rows: Path) -> list[str]:
        """The same puzzles for all, and rows in a file of this bench's own."""
        dataset = f"++{self.benchmark}.environment_servers.single_agent_turn_legacy.datasets.0"
        return [f"{dataset}.jsonl_fpath={rows}", f"{dataset}.prepare_args.proportions=mini"]


NO_TOOLS = Interface("none: one call", "visual_puzzles_no_tools")
INTERFACES = (
    Interface("OpenCode in a sandbox", "visual_puzzles_opencode"),
    Interface("code in a living Python process", "visual_puzzles_pyvision"),
    Interface("native image tools", "visual_puzzles_tools"),
    NO_TOOLS,
)


@dataclass(frozen=True)
class Played:
    interface: Interface
    path: Path
    report: MetricsReport
    rows: list[JsonObject]

    def cells(self, less: Comparison | None) -> list[str]:
        reward, tools = self.report.reward, self.report.tool_calls
        assert reward.mean is not None
        interval = f"{_percent(reward.ci_low_95)} to {_percent(reward.ci_high_95)}"
        return [
            f"{self.interface.title} (`{self.interface.benchmark}`)",
            f"**{_percent(reward.mean)}** ({interval})",
            _difference(less),
            f"{math.fsum(row['_gym_capture']['calls'] for row in self.rows) / len(self.rows):.1f}",
            f"{math.fsum(spread.mean for spread in tools.values()):.1f}",
            f"{self.report.tokens['images'].mean:.1f}",
            f"{_tokens(self.report):,.0f}",
            f"{self.report.seconds['total'].mean:.1f}",
        ]


def play(interface: Interface, folder: Path) -> Played:
    output = folder / interface.benchmark / "x.jsonl"
    command = [
        sys.executable, "-m", "gym_core.cli.main", "eval", "run", "--benchmark", interface.benchmark,
        "--model-type", "scripted_model", "--output", str(output), "--concurrency", str(CONCURRENCY),
        *interface.overrides(folder / interface.benchmark / "rows.jsonl"),
    ]  # fmt: skip
    found = measure(command, environ={"GYM_STATE_DIR": str(folder / "state")})
    assert found.exit_code == 0, found.output
    report = MetricsReport.model_validate_json(output.with_name("x_aggregate_metrics.json").read_bytes())
    assert (report.coverage.measured, report.coverage.masked) == (TASKS, 0), found.output
    return Played(interface, output, report, [json.loads(line) for line in output.open()])


def compare(without: Played, with_tools: Played) -> Comparison:
    """By the command that people use; all tasks must be paired."""
    command = [
        sys.executable, "-m", "gym_core.cli.main", "eval", "compare", "--json", str(without.path), str(with_tools.path),
    ]  # fmt: skip
    found = Comparison.model_validate_json(subprocess.run(command, check=True, capture_output=True).stdout)
    assert found.pairing.measured == TASKS, found.pairing
    return found


def table(played: Sequence[Played]) -> str:
    """In Markdown."""
    without = next(each for each in played if each.interface is NO_TOOLS)
    head = [
        "interface",
        "score, %",
        "less no tools, points",
        "model calls",
        "tool calls",
        "images",
        "tokens",
        "seconds",
    ]
    rows = [each.cells(None if each is without else compare(without, each)) for each in played]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows])


def write_table(page: Path, text: str) -> None:
    """Between the page's two marks. Raises ValueError where they are not."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no {BEGIN} with {END} after it")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}"


def _difference(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    found = comparison.overall
    assert found.difference is not None
    return f"{100 * found.difference:+.0f} ({_percent(found.ci_low_95)} to {_percent(found.ci_high_95)})"


def _tokens(report: MetricsReport) -> float:
    """In and out; the scripted policy counts words, and nothing for images."""
    spreads: Sequence[Spread] = [report.tokens[name] for name in ("input", "output")]
    return math.fsum(spread.mean for spread in spreads)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="write the table into this page, in the place of the one there")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="gym-bench-") as folder:
        load = load_line()
        text = table([play(interface, Path(folder)) for interface in INTERFACES])
    if args.page:
        write_table(args.page, text)
    sys.stdout.write(f"{load}; {CONCURRENCY} rollouts at a time\n{text}\n")


if __name__ == "__main__":
    main()
