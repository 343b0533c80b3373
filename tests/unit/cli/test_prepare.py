from pathlib import Path

import pytest

from gym_core.cli.main import main
from gym_core.cli.prepare import ensure_prepared
from gym_core.config.datasets import SelectedDataset
from gym_core.config.schema import DatasetConfig
from gym_core.errors import ConfigError
from tests.unit.config.house import House

PREPARE = ["eval", "prepare", "--benchmark", "puzzles"]
DATASETS = "puzzles.environment_servers.single_agent_turn_legacy.datasets"
SCRIPT = """
def prepare(args, jsonl_fpath):
    with jsonl_fpath.open("a") as file:
        print('{"seed": %d}' % args.get("seed", 0), file=file)
    return jsonl_fpath
"""


def datasets(args: str = "{}") -> str:
    fields = f"prepare_script: benchmarks/puzzles/prepare.py, prepare_args: {args}"
    return f"++{DATASETS}=[{{name: p, type: benchmark, jsonl_fpath: benchmarks/puzzles/data/p.jsonl, {fields}}}]"


@pytest.fixture
def rows(furnished: House) -> Path:
    """The file that the script appends a row to each time it runs."""
    furnished.write("benchmarks/puzzles/prepare.py", SCRIPT)
    return furnished.folder / "benchmarks/puzzles/data/p.jsonl"


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_preparing_needs_no_policy_and_prints_the_file(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PREPARE, datasets()]) == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == str(rows)
    assert "1 task in" in captured.err


def test_what_is_prepared_is_left_until_its_arguments_its_script_or_the_user_say_otherwise(
    rows: Path, furnished: House
) -> None:
    for _ in range(2):
        assert main([*PREPARE, datasets()]) == 0
    assert lines(rows) == ['{"seed": 0}']
    assert main([*PREPARE, datasets("{seed: 7}")]) == 0
    assert lines(rows)[-1] == '{"seed": 7}'
    assert main([*PREPARE, datasets("{seed: 7}"), "--force"]) == 0
    assert len(lines(rows)) == 3
    furnished.write("benchmarks/puzzles/prepare.py", SCRIPT + "# changed\n")
    assert main([*PREPARE, datasets("{seed: 7}")]) == 0
    assert len(lines(rows)) == 4


def test_force_leaves_a_file_that_no_script_makes(furnished: House, capsys: pytest.CaptureFixture[str]) -> None:
    furnished.write("benchmarks/puzzles/data/example.jsonl", "{}\n")
    example = "{name: e, type: example, jsonl_fpath: benchmarks/puzzles/data/example.jsonl}"
    assert main([*PREPARE, f"++{DATASETS}=[{example}]", "--force"]) == 0
    assert "e: up to date; no script makes it" in capsys.readouterr().err


def test_what_lies_beside_the_script_counts_as_part_of_it(rows: Path, furnished: House) -> None:
    for count, (name, text) in enumerate(
        [
            ("prompt.txt", "first"),
            ("prompt.txt", "second"),
            ("shapes/__init__.py", ""),
            ("shapes/circle.py", "r = 1"),
            ("shapes/circle.py", "r = 2"),
        ],
        start=1,
    ):
        furnished.write(f"benchmarks/puzzles/{name}", text)
        for _ in range(2):
            assert main([*PREPARE, datasets()]) == 0
        assert len(lines(rows)) == count
    furnished.write("benchmarks/puzzles/data/notes.txt", "data is no code")
    furnished.write("benchmarks/puzzles/README.md", "nor is this")
    assert main([*PREPARE, datasets()]) == 0
    assert len(lines(rows)) == count


FINGERPRINT = """
import os

def fingerprint(args):
    return os.environ.get("PUZZLES_SOURCE", "")
"""


def test_a_source_that_changed_is_read_again_and_none_is_whatever_was_there(
    rows: Path, furnished: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnished.write("benchmarks/puzzles/prepare.py", SCRIPT + FINGERPRINT)
    counted = []
    for source in ("a", "a", "b", "", "b", "c"):
        monkeypatch.setenv("PUZZLES_SOURCE", source)
        assert main([*PREPARE, datasets()]) == 0
        counted.append(len(lines(rows)))
    assert counted == [1, 1, 2, 2, 2, 3]


def test_a_run_that_reuses_says_that_the_source_differs(
    rows: Path, furnished: House, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    furnished.write("benchmarks/puzzles/prepare.py", SCRIPT + FINGERPRINT)
    dataset = selected(furnished.folder, furnished.folder / "benchmarks/puzzles/prepare.py")
    ensure_prepared(dataset, reuse=True)
    monkeypatch.setenv("PUZZLES_SOURCE", "other")
    ensure_prepared(dataset, reuse=True)
    assert "as asked, but since it was made its source has changed" in capsys.readouterr().err
    assert len(lines(dataset.path)) == 1


def test_a_stamp_of_another_kind_is_no_proof(rows: Path) -> None:
    assert main([*PREPARE, datasets()]) == 0
    rows.with_name("p.jsonl.prepared").write_text('{"script_sha256": "of an older gym"}')
    assert main([*PREPARE, datasets()]) == 0
    assert len(lines(rows)) == 2


@pytest.mark.parametrize("reuse", [True, False])
def test_a_run_repeats_what_the_manifest_warns_of(
    rows: Path, furnished: House, reuse: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = selected(furnished.folder, furnished.folder / "benchmarks/puzzles/prepare.py")
    furnished.write("p_manifest.json", '{"rows": 1, "warnings": ["1 row, not 388\\u001b[2J"]}')
    ensure_prepared(dataset, reuse=reuse)
    assert "prepare: p: 1 row, not 388[2J" in capsys.readouterr().err
    furnished.write("p_manifest.json", "not JSON")
    ensure_prepared(dataset, reuse=reuse)
    assert "388" not in capsys.readouterr().err


def test_a_split_selects(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PREPARE, datasets(), "++split=benchmrk"]) == 2
    assert "no dataset of type 'benchmrk'; did you mean 'benchmark'?" in capsys.readouterr().err
    assert main([*PREPARE, datasets(), "++split=benchmark"]) == 0


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        (
            "def prepare(args, jsonl_fpath):\n    raise ValueError('set PUZZLES')\n",
            1,
            "prepare: p: ValueError: set PUZZLES",
        ),
        ("def prepare(args, jsonl_fpath):\n    return 'elsewhere'\n", 2, "its script wrote elsewhere, not"),
        ("def prepare(args, jsonl_fpath):\n    return jsonl_fpath\n", 2, "its script wrote"),
        ("import nothing_like_it\n", 2, "cannot be loaded: ModuleNotFoundError"),
        (SCRIPT + "def fingerprint(args):\n    return 7\n", 2, "is no text"),
        ("x = 1\n", 2, "defines no prepare(args, jsonl_fpath)"),
    ],
)
def test_a_broken_script_is_named(
    rows: Path, furnished: House, script: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    furnished.write("benchmarks/puzzles/prepare.py", script)
    assert main([*PREPARE, datasets()]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_a_missing_script_is_a_mistake_in_the_configuration(
    rows: Path, furnished: House, capsys: pytest.CaptureFixture[str]
) -> None:
    (furnished.folder / "benchmarks/puzzles/prepare.py").unlink()
    assert main([*PREPARE, datasets()]) == 2
    assert f"config: {DATASETS}: prepare_script: no file" in capsys.readouterr().err


def selected(folder: Path, script: Path | None) -> SelectedDataset:
    dataset = DatasetConfig(name="p", type="benchmark", jsonl_fpath="p.jsonl")
    return SelectedDataset("puzzles", dataset, folder / "p.jsonl", script)


def test_a_run_reuses_what_is_there_and_makes_what_is_not(
    rows: Path, furnished: House, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = selected(furnished.folder, furnished.folder / "benchmarks/puzzles/prepare.py")
    ensure_prepared(dataset, reuse=True)
    assert "does not exist yet" in capsys.readouterr().err
    ensure_prepared(dataset, reuse=True)
    ensure_prepared(dataset, reuse=False)
    assert len(lines(dataset.path)) == 1
    furnished.write("benchmarks/puzzles/prepare.py", SCRIPT + "# changed\n")
    ensure_prepared(dataset, reuse=True)
    assert "since it was made its script has changed" in capsys.readouterr().err
    assert len(lines(dataset.path)) == 1
    ensure_prepared(dataset, reuse=False)
    assert len(lines(dataset.path)) == 2


def test_a_run_over_a_file_that_is_missing_and_that_nothing_makes_is_refused(furnished: House) -> None:
    with pytest.raises(ConfigError, match="does not exist and no prepare_script makes it"):
        ensure_prepared(selected(furnished.folder, None), reuse=True)
