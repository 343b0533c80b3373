"""State folders of ended gyms do not pile up; those of living ones and of strangers stay."""

import os
from pathlib import Path

import pytest

from gym_core.launch.state import KEPT_STATE_DIRS, default_state_dir, prune_state_dirs


def test_old_state_folders_of_ended_gyms_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_STATE_DIR", str(tmp_path))
    ended = 2**22 + 1  # past the kernel's largest pid
    for number in range(KEPT_STATE_DIRS + 5):
        (tmp_path / f"20260101-0000{number:02d}-{ended}-abcdef").mkdir()
    living = tmp_path / f"20250101-000000-{os.getpid()}-abcdef"
    stranger = tmp_path / "notes"
    for folder in (living, stranger):
        folder.mkdir()
    prune_state_dirs()
    left = {path.name for path in tmp_path.iterdir()}
    assert {living.name, stranger.name} <= left
    assert len(left) == KEPT_STATE_DIRS + 2
    assert f"20260101-000000-{ended}-abcdef" not in left


def test_a_fresh_state_folder_has_a_name_that_pruning_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_STATE_DIR", str(tmp_path))
    for _ in range(KEPT_STATE_DIRS + 1):
        default_state_dir().mkdir()
    prune_state_dirs()
    assert len(list(tmp_path.iterdir())) == KEPT_STATE_DIRS + 1, "this process lives: its folders stay"
