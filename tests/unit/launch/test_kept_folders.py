"""What trainers leave behind on the head server's disk is bounded, and what is in use is never taken away."""

import os
import time
from pathlib import Path

import pytest

from gym_core.capture.images import AssetStore
from gym_core.launch.kept_folders import KeptFolders


def used(folders: KeptFolders, root: Path, name: str, *, ago_s: float) -> None:
    with folders.using(name):
        pass
    then = time.time() - ago_s
    os.utime(root / name, (then, then))


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    folders = KeptFolders(tmp_path, most=2)
    for position, name in enumerate("abcd"):
        used(folders, tmp_path, name, ago_s=100 - position)
    folders.prune()
    assert names(tmp_path) == ["c", "d"]


def test_old_ones_are_removed_and_one_in_use_is_not(tmp_path: Path) -> None:
    folders = KeptFolders(tmp_path, most=9, max_age_s=50)
    used(folders, tmp_path, "old", ago_s=60)
    used(folders, tmp_path, "young", ago_s=40)
    with folders.using("held") as held:
        os.utime(held, (0, 0))
        folders.prune()
        assert names(tmp_path) == ["held", "young"]
    os.utime(held, (0, 0))
    folders.prune()
    assert names(tmp_path) == ["young"]


def test_a_picture_is_found_wherever_it_is_and_nothing_but_a_hash_names_one(tmp_path: Path) -> None:
    folders = KeptFolders(tmp_path, most=9)
    with folders.using("a"), folders.using("b") as b:
        sha256 = AssetStore(b / "assets").put(b"picture")
    assert folders.image(sha256) == b"picture"
    assert folders.image("0" * 64) is None
    with pytest.raises(ValueError, match="not a SHA-256"):
        folders.image("../a")
