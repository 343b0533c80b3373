"""What `gym view` says before a page is looked at."""

from pathlib import Path

import pytest

from gym_core.cli.main import main
from tests.fakes.made_runs import write_small_run


@pytest.fixture(autouse=True)
def ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym_core.viewer.serving.serve", lambda _app, _listener: None)


def test_a_folder_of_runs_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_small_run(tmp_path, n_tasks=1)
    assert main(["view", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "runs  1"


def test_a_folder_without_runs_is_served_with_a_word_on_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"runs  0: no run's output file lies in {tmp_path}")
    assert "give another PATH" in said[0]
    assert said[1].startswith("open  http://127.0.0.1:")


@pytest.mark.parametrize("flag", [("--rollout", "t1-r0-172a79b1"), ("--max-mb", "0")], ids=lambda flag: flag[0])
def test_what_an_export_takes_is_refused_without_one(
    flag: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", str(tmp_path), *flag]) == 2
    said = capsys.readouterr()
    assert (said.out, f"{flag[0]} goes with --export" in said.err) == ("", True)
