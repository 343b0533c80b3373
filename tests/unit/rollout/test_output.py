"""Where a run may write, asked before anything is started."""

import os
from pathlib import Path

import pytest

from gym_core.errors import ConfigError
from gym_core.rollout.output import check_output_path


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "mine.jsonl").write_text("")
    (tmp_path / "odd_assets").write_text("")
    (tmp_path / "odder_run.json").mkdir()
    (tmp_path / "names.jsonl").write_text('{"name": "x"}\n')
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "pipe_behind_a_link.jsonl").symlink_to("pipe.jsonl")
    return tmp_path


@pytest.mark.parametrize("name", ["new.jsonl", "mine.jsonl", "a/b/c.jsonl", "with.dots.jsonl", "with blank.jsonl"])
def test_a_path_that_can_be_written_is_left_as_it_was(name: str, folder: Path) -> None:
    before = contents(folder)
    check_output_path(folder / name)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("folder.jsonl", "is a folder"),
        ("pipe.jsonl", "is no regular file"),
        ("pipe_behind_a_link.jsonl", "is no regular file"),
        ("file", "does not end in NAME.jsonl"),
        ("out.json", "does not end in NAME.jsonl"),
        (".jsonl", "does not end in NAME.jsonl"),
        ("..jsonl", "does not end in NAME.jsonl"),
        ("a\0b.jsonl", "does not end in NAME.jsonl"),
        ("file/x.jsonl", "cannot be written: Not a directory"),
        ("file/x/y.jsonl", "cannot be written: Not a directory"),
        ("odd.jsonl", "odd_assets' is no folder"),
        ("odder.jsonl", "odder_run.json' is a folder"),
        ("names.jsonl", "the line is no rollout of a run"),
        ("x" * 250 + ".jsonl", "cannot be written: File name too long"),
        ("x" * 225 + ".jsonl", "cannot be written: File name too long"),
        ("new/" + "x" * 300 + "/y.jsonl", "cannot be written: File name too long"),
        ("/proc/x/y.jsonl", "cannot be written: "),
        ("/dev/null", "does not end in NAME.jsonl"),
    ],
)
def test_a_path_that_cannot_be_written_is_a_mistake_of_the_configuration(
    name: str, complaint: str, folder: Path
) -> None:
    before = contents(folder)
    with pytest.raises(ConfigError) as error:
        check_output_path(folder / name)
    (problem,) = error.value.problems
    assert problem.startswith("config: output_jsonl_fpath: ")
    assert complaint in problem
    assert contents(folder) == before
