"""What commands print of a run in which everything is an attack on the terminal."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from gym_core.cli.display import panel, progress_line, slow_text
from gym_core.cli.main import main
from gym_core.cli.summary import summary_lines
from gym_core.types.metrics import MetricsReport
from gym_core.types.run import ActiveRollout, RunProgress, RunResult, RunState
from tests.fakes.hostile_run import ATTACKS, SEEN, HostileRun, hidden_in, write_hostile_run


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> HostileRun:
    return write_hostile_run(tmp_path_factory.mktemp("hostile"), huge_line_bytes=20_000)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> HostileRun:
    """The same tasks with the opposite results."""
    return write_hostile_run(tmp_path_factory.mktemp("other"), huge_line_bytes=20_000, right_ones=0)


def test_the_end_of_a_run_shows_its_attacks_as_text(hostile: HostileRun) -> None:
    files = hostile.run.files
    report = MetricsReport.model_validate_json(files.metrics.read_bytes())
    progress = RunProgress(run_id="r", state=RunState.FAILED, message=" ".join(ATTACKS))
    text = "\n".join(summary_lines(RunResult(progress=progress, metrics=report, files=files.named())))
    assert text.count(SEEN) > 50  # categories, subtypes and tools
    assert "<script>" in text
    assert hidden_in(text) == set()


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_run_that_goes_on_shows_an_attack_as_text(attack: str) -> None:
    active = ActiveRollout(
        rollout_id="t1-r0", task_index=1, task_id=attack, repeat=0, attempt=0, stage=attack, stage_s=3.0, total_s=9.0
    )
    progress = RunProgress(
        run_id="r", state=RunState.RUNNING, message=attack, failures={attack: 1}, active=[active], total=9, slots=2
    )
    written = io.StringIO()
    Console(file=written, markup=False, highlight=False, emoji=False, width=400).print(panel(progress))
    text = f"{progress_line(progress)}\n{slow_text(progress)}\n{written.getvalue()}"
    assert text.count(SEEN) > 3
    assert hidden_in(text) == set()


@pytest.mark.parametrize(
    "words",
    [
        ["export", "--format", "rows_csv", "--output", "OUT.csv", "RUN"],
        ["view", "RUN/no-such-file"],
        ["view", "--export", "OUT.html", "RUN"],
        ["eval", "summary", "RUN"],
        ["eval", "summary", "--table", "babyvision", "RUN"],
        ["eval", "compare", "RUN", "RUN"],
        ["eval", "compare", "--flips", "50", "RUN", "OTHER"],
        ["eval", "rejudge", "RUN", "--output", "RUN"],
        ["eval", "replay", "RUN", "--output", "RUN"],
    ],
    ids=lambda words: "-".join(words[:3] if words[1].startswith("-") else words[:2]),
)
def test_a_command_shows_its_attacks_as_text(
    words: list[str], hostile: HostileRun, other: HostileRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"RUN": str(hostile.run.path), "OTHER": str(other.run.path), "OUT": str(tmp_path / "out")}
    main([re.sub("^(RUN|OTHER|OUT)", lambda found: places[found[0]], word) for word in words])
    said = capsys.readouterr()
    assert ("out." if {"OUT.html", "OUT.csv"} & set(words) else SEEN) in said.out + said.err
    assert hidden_in(said.out + said.err) == set()
