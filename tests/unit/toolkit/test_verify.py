"""A change to a finished toolkit is found and named."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gym_core.sandbox import toolkit
from gym_core.sandbox.toolkit.manifest import Manifest, read_manifest, scan, write_manifest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small folder of a toolkit's shape, whose programs are not the pinned ones."""
    root = tmp_path / "toolkit"
    (root / "bin").mkdir(parents=True)
    (root / "empty").mkdir()
    for name in ("opencode", "rg"):
        (root / "bin" / name).write_text(f"I am {name}\n")
        (root / "bin" / name).chmod(0o755)
    (root / "bin" / "python").symlink_to("python3")
    write_manifest(root, Manifest("1" * 64, {"opencode": "1.17.11"}, scan(root)))
    return root


def test_an_untouched_tree_has_only_the_foreign_programs_against_it(root: Path) -> None:
    assert [problem.split(": is not")[0] for problem in toolkit.verify(root)] == [
        *(str(root / "bin" / "opencode"), str(root / "bin" / "rg"))
    ]


def _flip(root: Path) -> None:
    path = root / "bin" / "rg"
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)


def _relink(root: Path) -> None:
    (root / "bin" / "python").unlink()
    (root / "bin" / "python").symlink_to("/tmp/other")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_flip, "bin/rg: sha256 was"),
        (_relink, "bin/python: target was python3, is /tmp/other"),
        (lambda root: (root / "empty").rmdir(), "empty: missing"),
        (lambda root: (root / "bin" / "sitecustomize.py").touch(), "bin/sitecustomize.py: was added"),
        (lambda root: (root / "bin" / "rg").chmod(0o700), "bin/rg: mode was 0755, is 0700"),
        (lambda root: (root / "manifest.json").write_text("[]"), "no usable manifest"),
        (lambda root: (root / "manifest.json").unlink(), "no usable manifest"),
    ],
)
def test_each_kind_of_change_is_named(root: Path, change: Callable[[Path], object], said: str) -> None:
    before = toolkit.verify(root)
    change(root)
    new = [problem for problem in toolkit.verify(root) if problem not in before]
    assert len(new) == 1
    assert said in new[0]


def test_a_manifest_comes_back_as_it_was_written(root: Path) -> None:
    manifest = read_manifest(root)
    assert (manifest.identity, manifest.versions) == ("1" * 64, {"opencode": "1.17.11"})
    assert manifest.entries == scan(root)
    assert manifest.size_bytes == len("I am opencode\n") + len("I am rg\n")


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"identity": "1"}', '{"identity": "1", "versions": {}, "entries": {"a": {"b": 1}}}']
)
def test_a_manifest_that_makes_no_sense_is_a_value_error(root: Path, text: str) -> None:
    (root / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match=r"manifest|delimiter|property"):
        read_manifest(root)
