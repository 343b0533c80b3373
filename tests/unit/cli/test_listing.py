import json

import pytest

from gym_core.cli.main import main
from tests.unit.config.house import House


def test_the_list_has_names_and_descriptions(furnished: House, capsys: pytest.CaptureFixture[str]) -> None:
    furnished.write("benchmarks/puzzles/README.md", "# Puzzles\n\nWith exact \x1b[2Janswers.\n")
    assert main(["list", "benchmarks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "benchmarks"
    assert any(line.split() == ["puzzles", "With", "exact", "[2Janswers."] for line in lines)


def test_the_list_as_json(furnished: House, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert {"kind": "models", "name": "vllm_model", "description": ""} in [
        {**entry, "description": ""} for entry in entries
    ]
    assert {entry["kind"] for entry in entries} >= {"benchmarks", "environments"}
