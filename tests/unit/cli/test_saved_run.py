"""`gym eval rejudge` and `gym eval replay`: what they take, what they call their files, and what they say."""

import asyncio
import json
import os
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

from gym_core.cli.main import main
from gym_core.cli.saved_run import rejudge_lines, replay_lines
from gym_core.rollout.output import OutputFiles
from gym_core.rollout.rejudged import GradeChange, RejudgeReport
from gym_core.rollout.replayed import ReplayedRollout, ReplayOutcome, ReplayReport
from tests.fakes.made_run import MadeRun
from tests.fakes.made_runs import made_rollout, write_small_run
from tests.fakes.model import ScriptedEndpoint

EVIL = "\x1b[2J\u202e\nmasked"


@pytest.fixture
def made(tmp_path: Path) -> OutputFiles:
    write_small_run(tmp_path, n_tasks=2)
    return OutputFiles(tmp_path / "small.jsonl")


@pytest.mark.parametrize("command", ["rejudge", "replay"])
@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        ("missing", "no such file"),
        ("foreign", "the line is no rollout of a run"),
        ("foreign line", "the line is no rollout of a run"),
        ("empty", "no finished rollouts"),
        ("damaged", "the line is damaged"),
        ("torn", "its last line is cut off"),
        ("elsewhere", "is no benchmark here"),
    ],
)
def test_what_is_no_saved_run_is_refused_in_a_line_before_anything_starts(
    command: str, breaks: str, said: str, made: OutputFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = made.rollouts.read_bytes().splitlines(keepends=True)
    contents = {
        "foreign": b'{"a": 1}\n{"b": 2}\n',
        "foreign line": b'{"name": "x"}\n',
        "empty": b"",
        "damaged": lines[0].replace(b"1", b"2", 1) + lines[1],
        "torn": lines[0][:-200],
    }
    if breaks == "missing":
        made.rollouts.unlink()
    elif breaks in contents:
        made.rollouts.write_bytes(contents[breaks])
    assert main(["eval", command, str(made.rollouts)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_without_its_manifest_a_run_is_not_judged_and_without_its_calls_not_replayed(
    made: OutputFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    made.manifest.unlink()
    shutil.rmtree(made.captures)
    assert main(["eval", "rejudge", str(made.rollouts)]) == 2
    assert "copy it along" in capsys.readouterr().err
    assert main(["eval", "replay", str(made.rollouts)]) == 2
    assert "has recorded model calls" in capsys.readouterr().err


def test_a_rejudge_says_that_pictures_are_missing(made: OutputFiles, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "rejudge", str(made.rollouts)]) == 2  # its environment is no benchmark here
    assert "pictures are missing" not in capsys.readouterr().err
    shutil.rmtree(made.assets)
    main(["eval", "rejudge", str(made.rollouts)])
    assert f"its pictures are missing: {made.assets} is not there" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 65, "a b"])
def test_a_name_leads_nowhere_else(name: str, made: OutputFiles, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "rejudge", str(made.rollouts), f"--name={name}"]) == 2
    assert "--name takes" in capsys.readouterr().err


def test_another_policy_has_no_place_here(made: OutputFiles, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "replay", str(made.rollouts), "--model-type", "vllm_model"]) == 2
    assert "the recording is the policy" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["rejudge", "replay"])
def test_a_refused_run_reports_nothing_of_what_lies_at_its_output(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = MadeRun(tmp_path, "echoed", environment="echo_environment")
    run.plan([made_rollout(0)])
    run.write([made_rollout(0)])
    refuse = Mock(return_value=2)
    monkeypatch.setattr("gym_core.cli.run.run_evaluation", refuse)
    monkeypatch.setattr("gym_core.cli.evaluate.make_ready", lambda _: None)
    monkeypatch.setattr("gym_core.launch.warmup.warming_up", nullcontext)
    before = sorted(tmp_path.iterdir())
    assert main(["eval", command, str(run.path), "--environment", "echo", "--output", str(run.path)]) == 2
    said = capsys.readouterr()
    assert (refuse.call_count, said.out) == (1, ""), said.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", ["rejudge", "replay"])
@pytest.mark.parametrize(
    ("environment", "argv"),
    [
        ("echo_environment", "--environment echo"),
        ("echo_environment", "--benchmark=not_here --environment=echo ++x=1"),
        ("chart_focus_benchmark", "--benchmark chart_focus --limit 3"),
        ("babyvision_opencode", "--limit 3"),
    ],
)
def test_an_environment_is_found_by_what_the_run_was_started_with(
    command: str,
    environment: str,
    argv: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = MadeRun(tmp_path, "x", environment=environment, argv=["gym", "eval", "run", *argv.split()])
    run.plan([made_rollout(0)])
    run.write([made_rollout(0)])
    monkeypatch.setattr("gym_core.launch.warmup.warming_up", nullcontext)
    monkeypatch.setattr("gym_core.launch.warmup.cool_down", lambda _: None)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert main(["eval", command, str(run.path), "--name", "a", "++dry_run=true"]) == 0, capsys.readouterr().err
    assert f"{command} of {run.path}" in capsys.readouterr().out


JUDGED = "resources_servers/pyvision_image/configs/pyvision_image_judged.yaml"


@pytest.mark.parametrize("command", ["rejudge", "replay"])
@pytest.mark.parametrize(
    ("argv", "words", "said"),
    [
        (f"--benchmark pyvision_image --config {JUDGED} --limit 3", "",
         f"`--benchmark pyvision_image --config {JUDGED}`"),
        ("--benchmark=a --benchmark=echo --config=x.yaml --config=$(y)", "",
         "`--benchmark echo --config x.yaml --config '$(y)'`"),
        ("--benchmark chart_focus --search-dir mine", "", "`--benchmark chart_focus --search-dir mine`"),
        ("--environment echo --config x.yaml --search-dir mine", "--search-dir .",
         "started with --config, and a recording does not decide what is read: give "
         "`--environment echo --config x.yaml --search-dir .`"),
    ],
)  # fmt: skip
def test_a_run_with_files_or_folders_of_its_own_is_refused_with_the_words_to_give(
    command: str,
    argv: str,
    words: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GYM_EXTRA_ROOTS", "")  # what a search folder adds is taken back
    run = MadeRun(tmp_path, "x", environment="babyvision_opencode", argv=["gym", "eval", "run", *argv.split()])
    run.plan([made_rollout(0)])
    run.write([made_rollout(0)])
    assert main(["eval", command, str(run.path), *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_a_selection_of_the_users_own_stands_for_the_recorded_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["gym", "eval", "run", "--environment", "echo", "--config", "gone.yaml"]
    run = MadeRun(tmp_path, "x", environment="echo_environment", argv=argv)
    run.plan([made_rollout(0)])
    run.write([made_rollout(0)])
    monkeypatch.setattr("gym_core.launch.warmup.warming_up", nullcontext)
    monkeypatch.setattr("gym_core.launch.warmup.cool_down", lambda _: None)
    words = ["--environment", "echo", "--name", "a", "++dry_run=true"]
    assert main(["eval", "rejudge", str(run.path), *words]) == 0, capsys.readouterr().err


def test_a_report_of_grades_says_how_many_changed_and_which_way() -> None:
    change = GradeChange(
        task_id=EVIL, repeat=0, before="0 (different)", after="1 (equivalent)", reward_before=0, reward_after=1
    )
    report = RejudgeReport(run="x", rejudged="y", rows=9, raised=1, missing=2, changes=[change])
    lines = rejudge_lines(report)
    assert lines[0] == "1 of 9 grades changed"
    assert any("raised" in line and line.endswith("1") for line in lines)
    assert any("0 (different) -> 1 (equivalent)" in line for line in lines)
    assert all(line.isprintable() for line in lines)


def test_a_report_of_a_replay_says_where_it_diverged() -> None:
    odd = ReplayedRollout(task_id="7", repeat=1, outcome=ReplayOutcome.DIVERGED, detail=f"call 3 {EVIL}")
    same = ReplayedRollout(task_id="8", repeat=0, outcome=ReplayOutcome.SAME)
    counts = {ReplayOutcome.SAME: 1, ReplayOutcome.DIVERGED: 1}
    report = ReplayReport(run="x", replayed="y", counts=counts, rollouts=[odd, same])
    lines = replay_lines(report)
    assert any("task 7, repeat 1" in line and "call 3" in line for line in lines)
    assert not any("task 8" in line for line in lines)
    assert all(line.isprintable() for line in lines)
    assert not report.is_same


@pytest.mark.parametrize(
    ("counts", "is_same"),
    [({"same": 2}, True), ({"same": 2, "not_recorded": 1}, True), ({"not_recorded": 1}, False), ({}, False),
     ({"same": 1, "to_do": 1}, False), ({"same": 1, "reward_changed": 1}, False)],
)  # fmt: skip
def test_a_replay_is_the_same_only_when_something_was_replayed_and_all_of_it_came_out_so(
    counts: dict[ReplayOutcome, int], is_same: bool
) -> None:
    report = ReplayReport.model_validate({"run": "x", "replayed": "y", "counts": counts, "rollouts": []})
    assert report.is_same is is_same


@pytest.mark.slow
async def test_a_played_run_is_judged_again_and_played_again_by_the_commands(tmp_path: Path) -> None:
    rows = tmp_path / "out.jsonl"

    async def gym(*words: str) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gym_core.cli.main", "eval", *words),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=tmp_path,
            env=os.environ | {"GYM_STATE_DIR": str(tmp_path / "state")},
        )  # fmt: skip
        async with asyncio.timeout(90):
            out, _ = await process.communicate()
        return process.returncode, out.decode()

    async with ScriptedEndpoint(lambda _: "teapot") as endpoint:
        policy = (f"++policy_base_url={endpoint.url}", "++policy_api_key=EMPTY", "++policy_model_name=m")
        played = await gym("run", "--environment", "echo", "--model-type", "vllm_model", "--output", str(rows),
                           "++split=example", *policy)  # fmt: skip
    assert played[0] == 0, played[1]
    before = rows.read_bytes()
    judged = await gym("rejudge", str(rows), "--environment", "echo", "--name", "a")
    again = await gym("rejudge", str(rows), "--environment", "echo", "--name", "a")
    replayed = await gym("replay", str(rows), "--environment", "echo", "--name", "b")
    assert (judged[0], "0 of 2 grades changed" in judged[1]) == (0, True), judged[1]
    assert (again[0], "2/2 done (2 before)" in again[1]) == (0, True), again[1]
    assert (replayed[0], "same  2" in replayed[1]) == (0, True), replayed[1]
    assert rows.read_bytes() == before
    for name in ("out_rejudged-a", "out_replayed-b"):
        manifest = json.loads((tmp_path / f"{name}_run.json").read_text())
        assert manifest["derived_from"]["path"] == str(rows)
