"""Who holds his file lives; who ended, however he ended, does not hold it."""

import subprocess
import sys
from pathlib import Path

import pytest

from gym_core.sandbox.lifeline import Lifeline, clear, is_held

HOLD = """
import sys
from pathlib import Path
from gym_core.sandbox.lifeline import Lifeline
print(Lifeline.take(Path(sys.argv[1])).name, flush=True)
sys.stdin.read()
"""


def test_it_is_held_until_it_is_let_go_and_the_file_stays_only_where_something_does(tmp_path: Path) -> None:
    for leaves in (True, False):
        lifeline = Lifeline.take(tmp_path)
        assert is_held(tmp_path, lifeline.name) is True
        lifeline.let_go(leaves_something=leaves)
        lifeline.let_go(leaves_something=leaves)
        assert is_held(tmp_path, lifeline.name) is (False if leaves else None)


def test_one_who_is_killed_has_let_go(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        name = owner.stdout.readline().strip()
        assert is_held(tmp_path, name) is True
        owner.kill()
        owner.wait()
    assert is_held(tmp_path, name) is False


def test_a_program_that_he_runs_does_not_hold_it_for_him(tmp_path: Path) -> None:
    lifeline = Lifeline.take(tmp_path)
    with subprocess.Popen(["sleep", "600"], close_fds=False) as child:
        lifeline.let_go(leaves_something=True)
        assert is_held(tmp_path, lifeline.name) is False
        child.kill()


def test_only_what_nobody_holds_or_needs_is_cleared(tmp_path: Path) -> None:
    held, needed, left = (Lifeline.take(tmp_path) for _ in range(3))
    for lifeline in (needed, left):
        lifeline.let_go(leaves_something=True)
    (tmp_path / "note").touch()
    clear(tmp_path, needed={needed.name})
    assert {path.name for path in tmp_path.iterdir()} == {held.name, needed.name, "note"}
    held.let_go(leaves_something=False)


@pytest.mark.parametrize("name", ["", "..", "/etc/passwd", "1-0123456789abcdef\n", "1-0123456789abcdef"])
def test_of_a_name_that_is_none_of_ours_here_nothing_is_said(name: str, tmp_path: Path) -> None:
    assert is_held(tmp_path, name) is None


def test_a_link_in_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    (tmp_path / "1-0123456789abcdef").symlink_to(tmp_path / "target")
    assert is_held(tmp_path, "1-0123456789abcdef") is None
    clear(tmp_path, needed=set())
    assert (tmp_path / "1-0123456789abcdef").is_symlink()
