"""What commands print of a run in which everything is an attack on the terminal."""

from pathlib import Path

import pytest

from gym_core.cli.main import main
from gym_core.cli.summary import summary_lines
from gym_core.types.metrics import MetricsReport
from gym_core.types.run import RunProgress, RunResult, RunState
from tests.fakes.hostile_run import ATTACKS, SEEN, HostileRun, hidden_in, write_hostile_run


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> HostileRun:
    return write_hostile_run(tmp_path_factory.mktemp("hostile"), huge_line_bytes=20_000)


def test_the_end_of_a_run_shows_its_attacks_as_text(hostile: HostileRun) -> None:
    files = hostile.run.files
    report = MetricsReport.model_validate_json(files.metrics.read_bytes())
    progress = RunProgress(run_id="r", state=RunState.FAILED, message=" ".join(ATTACKS))
    text = "\n".join(summary_lines(RunResult(progress=progress, metrics=report, files=files.named())))
    assert text.count(SEEN) > 50  # categories, subtypes and tools
    assert "<script>" in text
    assert hidden_in(text) == set()


@pytest.mark.parametrize(
    "words",
    [
        ["export", "--format", "jsonl", "--allow-missing-manifest", "--output", "OUT.jsonl", "RUN"],
        ["view", "RUN/no-such-file"],
    ],
    ids=lambda words: words[0],
)
def test_a_command_shows_its_attacks_as_text(
    words: list[str], hostile: HostileRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([word.replace("RUN", str(hostile.run.path)).replace("OUT", str(tmp_path / "out")) for word in words])
    said = capsys.readouterr()
    assert said.out + said.err != ""
    assert hidden_in(said.out + said.err) == set()
