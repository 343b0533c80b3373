"""`gym sandbox` on a machine without a toolkit, and the folder that keeps OpenCode offline."""

import argparse
import json
from pathlib import Path

import pytest

from gym_core.cli.sandbox import add_sandbox_parser
from gym_core.sandbox.toolkit.opencode_home import write_opencode_home


def _parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_sandbox_parser(parser.add_subparsers())
    return parser.parse_args(["sandbox", *words])


def test_build_takes_rebuild_and_neither_takes_more() -> None:
    assert _parse("build", "--rebuild").rebuild is True
    assert _parse("build").rebuild is False
    with pytest.raises(SystemExit):
        _parse("check", "--rebuild")


def test_opencodes_folder_counts_as_installed(tmp_path: Path) -> None:
    write_opencode_home(tmp_path / "opencode", "1.17.11")
    lock = json.loads((tmp_path / "opencode" / "package-lock.json").read_text())
    assert lock["packages"][""]["dependencies"] == {"@opencode-ai/plugin": "1.17.11"}
    assert json.loads((tmp_path / "opencode" / "models.json").read_text()) == {}
    assert sorted(path.name for path in (tmp_path / "opencode").iterdir()) == [
        *(".gitignore", "models.json", "node_modules", "package-lock.json", "package.json")
    ]
