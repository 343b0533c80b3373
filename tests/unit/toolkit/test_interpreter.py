"""Which Python a sandbox gets."""

import sys
from pathlib import Path

import pytest

from gym_core.errors import ConfigError
from gym_core.sandbox.toolkit.interpreter import choose_interpreter

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


def _install(folder: Path, version: str) -> Path:
    """A `python3` as distributions lay it out: a link to the versioned program."""
    folder.mkdir()
    program = folder / f"python{version}"
    program.touch(mode=0o755)
    link = folder / "python3"
    link.symlink_to(program.name)
    return link


def test_the_first_system_python_of_a_locked_version_is_linked(tmp_path: Path) -> None:
    places = [
        _install(tmp_path / "old", "3.9"),
        _install(tmp_path / "good", "3.12"),
        _install(tmp_path / "next", "3.11"),
    ]
    chosen = choose_interpreter(["3.11", "3.12"], places)
    assert (chosen.executable, chosen.version, chosen.copied_from) == (tmp_path / "good" / "python3.12", "3.12", None)


def test_without_one_our_own_is_copied(tmp_path: Path) -> None:
    chosen = choose_interpreter([OWN], [_install(tmp_path / "old", "3.9"), tmp_path / "absent" / "python3"])
    assert chosen.version == OWN
    assert chosen.copied_from == Path(sys.base_prefix).resolve()
    assert chosen.executable.is_relative_to(chosen.copied_from)


def test_a_linked_and_a_copied_one_make_different_toolkits(tmp_path: Path) -> None:
    copied = choose_interpreter([OWN], [])
    linked = choose_interpreter([OWN], [copied.executable])
    assert copied.identity != linked.identity


def test_with_neither_the_versions_that_would_do_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is one of 3\.98, 3\.99"):
        choose_interpreter(["3.98", "3.99"], [_install(tmp_path / "old", "3.9")])
