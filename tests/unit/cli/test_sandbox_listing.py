"""`gym sandbox list` and `gym sandbox sweep` over records of living and dead owners."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_core.cli.main import main
from gym_core.sandbox.providers.local.state import BoxRecords

WRITE = """
import sys
from pathlib import Path
from gym_core.sandbox.providers.local.state import BoxRecords
records = BoxRecords(Path(sys.argv[1]))
records.write("dead", "box-dead", claim=records.claim(longest_s=60), cgroups=[], metadata={"episode": "e-a0\\x1b[2J"})
"""


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    """Of an embedded provider with one sandbox of a dead owner and one of ours."""
    state = tmp_path / "boxes-state"
    subprocess.run([sys.executable, "-c", WRITE, str(state)], check=True)
    records = BoxRecords(state)
    claim = records.claim(longest_s=60)
    records.write("mine", "box-mine", claim=claim, cgroups=[], metadata={"episode": "e-a1", "server": "grader"})
    path = tmp_path / "sandbox.yaml"
    path.write_text(f"boxes:\n  local:\n    state_dir: {state}\n")
    yield path
    records.close()


def test_the_list_tells_the_living_from_orphans(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "list", "--config", str(config)]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["SANDBOX", "PROVIDER", "STATE", "AGE", "ENDS", "IN", "OWNER", "METADATA"]
    found = {row.split()[0]: row.split()[1:] for row in rows}
    assert found["box-dead"][:2] == ["local", "orphan"]
    assert found["box-mine"][:2] == ["local", "alive"]
    assert found["box-mine"][-2:] == ["episode=e-a1", "server=grader"]
    assert "\x1b" not in "".join(rows)


def test_the_list_as_json_has_every_field(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "list", "--json", "--config", str(config)]) == 0
    infos = {info["sandbox_id"]: info for info in json.loads(capsys.readouterr().out)}
    assert infos["box-dead"]["is_orphan"] is True
    assert infos["box-mine"]["metadata"] == {"episode": "e-a1", "server": "grader"}
    assert infos["box-mine"]["owner"]
    assert infos["box-mine"]["created_at"] > 0


def test_a_dry_run_removes_nothing_and_a_sweep_what_it_named(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "sweep", "--dry-run", "--config", str(config)]) == 0
    named = capsys.readouterr().out
    assert "box-dead" in named
    assert "box-mine" not in named
    assert main(["sandbox", "sweep", "--config", str(config)]) == 0
    assert capsys.readouterr().out.splitlines() == ["removed box-dead", "1 removed, 1 kept"]
    assert main(["sandbox", "sweep", "--dry-run", "--config", str(config)]) == 0
    assert capsys.readouterr().out == "nothing to remove\n"
    assert main(["sandbox", "sweep", "--config", str(config)]) == 0
    assert capsys.readouterr().out == "0 removed, 1 kept\n"


def test_a_mistake_in_a_sandbox_block_is_named_before_anything_is_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("boxes:\n  local:\n    state_dri: here\n")
    assert main(["sandbox", "sweep", "--config", str(path)]) == 2
    assert "boxes.local.state_dri: unknown field; did you mean 'state_dir'?" in capsys.readouterr().err


def test_what_is_no_provider_s_business_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.yaml"
    path.write_text("limit: 3\n")
    assert main(["sandbox", "list", "--config", str(path)]) == 2
    assert "no sandbox block" in capsys.readouterr().err
    assert main(["sandbox", "list", "++sandbox.local.state_dir=/x"]) == 2
    assert "none is selected" in capsys.readouterr().err
    assert main(["sandbox", "sweep", "--dry-rnu"]) == 2


@pytest.mark.parametrize("command", ["list", "sweep", "check"])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("boxes: {local: {}, docker: {}}", "boxes: one provider a sandbox block, but there are 'local', 'docker'"),
        ("server: {dokcer: {}}", "config: server: is neither a server nor a sandbox"),
    ],
)
def test_a_block_that_names_no_one_provider_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, wrong: str, said: str
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(wrong + "\n")
    assert main(["sandbox", command, "--config", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_a_wrong_block_beside_a_right_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("both: {local: {}, docker: {}}\n")
    for command in ("list", "check"):
        assert main(["sandbox", command, "--config", str(config), "--config", str(other)]) == 2
        assert "both: one provider" in capsys.readouterr().err


def test_the_sandboxes_of_several_blocks_are_one_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: Path
) -> None:
    records = BoxRecords(tmp_path / "more")
    records.write("more", "box-more", claim=records.claim(longest_s=60), cgroups=[], metadata={})
    records.close()
    other = tmp_path / "other.yaml"
    other.write_text(f"more_boxes:\n  local:\n    state_dir: {tmp_path / 'more'}\n")
    assert main(["sandbox", "list", "--config", str(config), "--config", str(other)]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert sorted(row.split()[0] for row in rows) == ["box-dead", "box-mine", "box-more"]


def test_a_provider_that_does_not_answer_is_told_and_the_others_are_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: Path
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(
        f"away:\n  docker:\n    host: unix://{tmp_path / 'no.sock'}\n    state_dir: {tmp_path / 'docker'}\n"
    )
    for command, expected in (("list", "box-mine"), ("sweep", "1 removed, 1 kept")):
        assert main(["sandbox", command, "--config", str(other), "--config", str(config)]) == 1
        said = capsys.readouterr()
        assert expected in said.out
        assert said.err.startswith("away: docker: no engine at ")


@pytest.mark.parametrize("command", [("list",), ("sweep", "--dry-run"), ("sweep",)])
def test_of_a_provider_that_does_not_answer_it_is_not_said_that_it_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    path = tmp_path / "away.yaml"
    path.write_text("away:\n  opensandbox: {domain: '127.0.0.1:9'}\n")
    assert main(["sandbox", *command, "--config", str(path)]) == 1
    said = capsys.readouterr()
    assert "no sandboxes" not in said.out
    assert "nothing to remove" not in said.out
    (line,) = said.err.splitlines()
    assert line.startswith("away: opensandbox: the server at http://127.0.0.1:9 cannot be reached: ")


@pytest.mark.parametrize("indirect", [False, True])
def test_a_variable_that_a_block_reads_and_is_not_set_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, indirect: bool
) -> None:
    monkeypatch.delenv("GYM_TEST_NO_SUCH_KEY", raising=False)
    key = "${cluster_key}" if indirect else "${oc.env:GYM_TEST_NO_SUCH_KEY}"
    text = f"away:\n  opensandbox: {{domain: '127.0.0.1:9', api_key: \"{key}\"}}\n"
    path = tmp_path / "away.yaml"
    path.write_text(text + ("cluster_key: ${oc.env:GYM_TEST_NO_SUCH_KEY}\n" if indirect else ""))
    for command in (["list"], ["sweep"]):
        assert main(["sandbox", *command, "--config", str(path)]) == 2
        assert "the environment variable GYM_TEST_NO_SUCH_KEY is not set" in capsys.readouterr().err


def test_a_variable_that_is_not_set_elsewhere_does_not_matter(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("judge_model:\n  model_servers:\n    openai_model: {model: '${oc.env:GYM_TEST_NO_SUCH_KEY}'}\n")
    assert main(["sandbox", "list", "--config", str(config), "--config", str(other)]) == 0
    assert "box-mine" in capsys.readouterr().out
