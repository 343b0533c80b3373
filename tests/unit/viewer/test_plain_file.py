"""Pipes in a run's folder, which would keep their reader for ever."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gym_core.rollout.output import OutputFiles
from gym_core.viewer.app import run_list
from gym_core.viewer.plain_file import open_plain
from gym_core.viewer.rollout import read_rollout
from gym_core.viewer.run import ViewedRun
from tests.fakes.made_runs import write_small_run


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def test_only_plain_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    os.mkfifo(tmp_path / "pipe")
    with open_plain(tmp_path / "file") as file:
        assert file.read() == b"content"
    for name in ("pipe", "."):
        with pytest.raises(OSError, match="no plain file"):
            open_plain(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        open_plain(tmp_path / "none")


@pytest.mark.parametrize(
    "sibling", [lambda f: f.rollouts, lambda f: f.failures, lambda f: f.inputs, lambda f: f.manifest]
)
def test_a_run_with_a_pipe_for_a_file_is_shown_and_says_so(
    sibling: Callable[[OutputFiles], Path], tmp_path: Path
) -> None:
    files = write_small_run(tmp_path, n_tasks=2).files
    make_pipe(sibling(files))
    run = ViewedRun(files.rollouts)
    run.refresh()
    (card,) = run_list([run]).runs
    assert any(sibling(files).name in problem and "read" in problem for problem in card.problems)


def test_a_run_that_cannot_be_read_for_a_while_keeps_what_was_read(tmp_path: Path) -> None:
    files = write_small_run(tmp_path, n_tasks=2).files
    run = ViewedRun(files.rollouts)
    before = run.refresh()
    aside = files.rollouts.rename(tmp_path / "aside")
    os.mkfifo(files.rollouts)
    assert run.refresh() != before
    assert len(run.rollout_ids()) == 2
    files.rollouts.unlink()
    aside.rename(files.rollouts)
    assert run.refresh() == before


def test_a_rollout_with_pipes_for_its_calls_and_pictures_is_shown(tmp_path: Path) -> None:
    files = write_small_run(tmp_path, n_tasks=1).files
    for path in (*files.captures.iterdir(), *files.assets.iterdir()):
        make_pipe(path)
    run = ViewedRun(files.rollouts)
    run.refresh()
    (rollout,) = run.rollout_ids()
    view = read_rollout(run, rollout, lambda sha256: f"/{sha256}").view(None, None)
    assert "no plain file" in view.health.problem
    assert {picture.url for picture in view.pictures} == {""}
