"""Where toolkits lie, and that sandboxes could enter it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_core.errors import ConfigError
from gym_core.sandbox import toolkit
from gym_core.sandbox.toolkit.cache import cache_folder, make_cache_folder


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """pytest's own temporary folders are closed to other users, which is what is tested here."""
    folder = Path(tempfile.mkdtemp(prefix="gym-cache-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_the_environment_names_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GYM_CACHE_DIR", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    assert toolkit.toolkit_dir().parent == tmp_path / "here"
    assert not toolkit.is_built()


def test_without_it_root_gets_a_folder_that_others_can_enter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GYM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    expected = Path("/var/cache/gym") if os.geteuid() == 0 else tmp_path / "gym"
    assert cache_folder() == expected


def test_the_folder_is_open_whatever_the_umask_says(monkeypatch: pytest.MonkeyPatch, open_folder: Path) -> None:
    monkeypatch.setenv("GYM_CACHE_DIR", str(open_folder / "a" / "b"))
    before = os.umask(0o077)
    try:
        folder = make_cache_folder()
    finally:
        os.umask(before)
    assert [place.stat().st_mode & 0o777 for place in (folder, folder.parent)] == [0o755, 0o755]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's sandboxes run as other users")
def test_a_cache_below_a_closed_folder_is_refused_and_the_closed_one_named(
    monkeypatch: pytest.MonkeyPatch, open_folder: Path
) -> None:
    closed = open_folder / "home"
    closed.mkdir(mode=0o700)
    monkeypatch.setenv("GYM_CACHE_DIR", str(closed / "cache"))
    with pytest.raises(ConfigError, match=rf"cannot enter '{closed}' \(mode 0700\).*GYM_CACHE_DIR"):
        make_cache_folder()
    assert list(closed.iterdir()) == []


def test_a_cache_that_cannot_be_made_says_why(monkeypatch: pytest.MonkeyPatch, open_folder: Path) -> None:
    (open_folder / "file").touch()
    monkeypatch.setenv("GYM_CACHE_DIR", str(open_folder / "file" / "cache"))
    with pytest.raises(ConfigError, match=r"Not a directory.*GYM_CACHE_DIR"):
        make_cache_folder()
