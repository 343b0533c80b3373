"""`gym doctor`: what it finds on disk, in a configuration and at an endpoint, and how it says so."""

import asyncio
import json
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from gym_core.cli import checkup_places
from gym_core.cli.checkup_places import data_finding, disk_finding, output_finding, resume_finding
from gym_core.cli.command_line import build_parser
from gym_core.cli.doctor import Doctor, finding_lines
from gym_core.cli.main import main
from gym_core.cli.selection import Selection
from gym_core.config.datasets import SelectedDataset
from gym_core.config.schema import DatasetConfig
from gym_core.datasets.prepared import assets_of, read_dataset
from gym_core.errors import ConfigError
from gym_core.launch.checkup import ability_findings, within
from gym_core.types.checkup import AbilityReport, CheckState, ColourAnswer, Finding
from tests.fakes.made_runs import write_small_run
from tests.fakes.model import ScriptedEndpoint
from tests.fakes.proxy import PIXEL

OK, WARN, FAIL = CheckState.OK, CheckState.WARN, CheckState.FAIL
_Usage = namedtuple("_Usage", "total used free")


def selection(*overrides: str, **given: str) -> Selection:
    names: dict[str, str | None] = {"benchmark": None, "environment": None, "model_type": None} | dict(given)
    return Selection(names["benchmark"], names["environment"], names["model_type"], (), (), overrides)


async def found(doctor: Doctor) -> dict[str, Finding]:
    return {finding.check: finding async for finding in doctor.findings()}


# -- servers ------------------------------------------------------------------


def echo(url: str) -> Selection:
    policy = (f"++policy_base_url={url}", "++policy_api_key=EMPTY", "++policy_model_name=tiny", "++split=example")
    return selection(*policy, environment="echo", model_type="vllm_model")


async def test_a_good_endpoint_is_told_line_by_line_from_its_own_server() -> None:
    async with ScriptedEndpoint(lambda _: "blue") as endpoint:
        states = {check: finding.state for check, finding in (await found(Doctor(echo(endpoint.url)))).items()}
    assert states == {
        "disk": OK, "data": OK, "endpoint": OK, "images": OK, "template": OK, "tokens": OK, "sight": WARN,
        "tools": WARN, "judge": OK,
    }  # fmt: skip


async def test_an_endpoint_that_is_not_there_fails_with_its_address_and_nothing_more_is_asked_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gym_core.launch.policy_check.CHECK_PAUSES_S", ())
    findings = await found(Doctor(echo("http://127.0.0.1:9/v1")))
    assert (findings["endpoint"].state, findings["endpoint"].on) == (FAIL, "http://127.0.0.1:9/v1")
    assert "nothing answers there" in findings["endpoint"].advice
    assert "sight" not in findings
    assert findings["judge"].state is OK


async def test_without_a_policy_the_rest_is_looked_at() -> None:
    findings = await found(Doctor(selection("++split=example", environment="echo")))
    assert (findings["endpoint"].state, "--model-type" in findings["endpoint"].advice) == (WARN, True)
    assert findings["judge"].found == "no judge"


async def test_every_mistake_of_a_configuration_is_a_line_and_the_disk_is_looked_at_all_the_same() -> None:
    mistakes = ("++single_call_agent.agent_servers.single_call.timout_s=1", "++nobody_reads=1")
    doctor = Doctor(selection(*mistakes, environment="echo", model_type="scripted_model"))
    findings = [finding async for finding in doctor.findings()]
    assert sum(finding.check == "config" and finding.state is FAIL for finding in findings) == 2
    assert "disk" in {finding.check for finding in findings}


def test_overrides_of_nothing_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="none is selected"):
        Doctor(selection("++policy_base_url=http://x/v1"))


def test_for_programs_it_is_one_json_object_and_the_exit_code_says_whether_something_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym_core.launch.policy_check.CHECK_PAUSES_S", ())
    words = ["doctor", "--environment", "echo", "--model-type", "vllm_model", "++policy_api_key=EMPTY",
             "++policy_model_name=m", "++split=example", "--output", str(tmp_path / "x.jsonl")]  # fmt: skip
    assert main([*words, "--json", "++policy_base_url=http://127.0.0.1:9/v1"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], {f["check"] for f in report["findings"] if f["state"] == "fail"}) == (False, {"endpoint"})
    assert not (tmp_path / "x.jsonl").exists()


def test_it_takes_every_flag_of_a_run() -> None:
    def flags(*command: str) -> set[str]:
        words = [*command, "--environment", "echo"]
        return {
            flag for action in build_parser(words).parse_args(words).parser._actions for flag in action.option_strings
        }

    assert flags("eval", "run") - flags("doctor") == set()


def test_the_flags_of_a_run_are_checked_as_a_run_checks_them(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["doctor", "--environment", "echo", "--model-type", "scripted_model", "++split=example", "--json"]
    assert main([*words, "--limit", "0", "--num-repeats", "0", "--concurrency", "0"]) == 1
    told = [f["found"] for f in json.loads(capsys.readouterr().out)["findings"] if f["check"] == "config"]
    assert {said.split(":")[0] for said in told} == {"limit", "num_repeats", "num_samples_in_parallel"}


async def test_a_check_that_hangs_or_breaks_is_one_failure() -> None:
    async def hangs() -> list[Finding]:
        await asyncio.Event().wait()
        return []

    async def breaks() -> list[Finding]:
        raise ConfigError("no such thing")

    (late,) = await within(0.01, "x", "tried", "on", hangs)
    (broken,) = await within(1, "x", "tried", "on", breaks)
    assert (late.state, late.found) == (FAIL, "not done within 0.01 s")
    assert (broken.state, broken.found) == (FAIL, "no such thing")


@pytest.mark.parametrize(
    ("report", "states"),
    [
        (AbilityReport(tells_colours=True, called_tool=True), (OK, OK)),
        (AbilityReport(colours=[ColourAnswer(shown="red", said="blue")]), (WARN, WARN)),
        (AbilityReport(message="HTTP 500", refusal="HTTP 400: needs --enable-auto-tool-choice"), (WARN, FAIL)),
    ],
)
def test_what_a_model_can_do_has_a_line_each(report: AbilityReport, states: tuple[CheckState, ...]) -> None:
    assert tuple(finding.state for finding in ability_findings(report, on="x")) == states


# -- disk ---------------------------------------------------------------------


@pytest.mark.parametrize(("free", "state"), [(1 << 20, FAIL), (1 << 30, WARN), (1 << 40, OK)])
def test_room_is_told_for_a_folder_that_is_not_there_yet(
    free: int, state: CheckState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: _Usage(0, 0, free) if place == tmp_path else None)
    assert disk_finding(tmp_path / "a" / "b", what="results").state is state


def test_an_output_path_is_tried_and_leaves_nothing(tmp_path: Path) -> None:
    assert output_finding(tmp_path / "new" / "x.jsonl").state is OK
    assert list(tmp_path.iterdir()) == []
    assert output_finding(tmp_path / "x.txt").state is FAIL


@pytest.mark.parametrize(
    ("breaks", "state", "said"),
    [
        ("nothing", OK, "2 rollouts: a run goes on from there"),
        ("torn", WARN, "its last line is cut off"),
        ("no captures", WARN, "small_captures is not there"),
        ("no manifest", FAIL, "copy it along"),
        ("foreign", FAIL, "the line is no rollout of a run"),
        ("foreign line", FAIL, "the line is no rollout of a run"),
        ("damaged", FAIL, "the line is damaged"),
    ],
)
def test_rollouts_that_are_there_are_told_with_what_a_run_would_make_of_them(
    breaks: str, state: CheckState, said: str, tmp_path: Path
) -> None:
    files = write_small_run(tmp_path, n_tasks=2).files
    lines = files.rollouts.read_bytes().splitlines(keepends=True)
    match breaks:
        case "torn":
            files.rollouts.write_bytes(lines[0] + lines[1][:-9])
        case "foreign":
            files.rollouts.write_bytes(b'{"a": 1}\n{"b": 2}\n')
        case "foreign line":
            files.rollouts.write_bytes(b'{"name": "x"}\n')
        case "damaged":
            files.rollouts.write_bytes(lines[0].replace(b"1", b"2", 1) + lines[1])
        case "no captures":
            shutil.rmtree(files.captures)
        case "no manifest":
            files.manifest.unlink()
    finding = resume_finding(files.rollouts, None)
    assert finding is not None
    assert (finding.state, said in finding.found) == (state, True), finding


def test_a_path_without_rollouts_has_nothing_to_resume(tmp_path: Path) -> None:
    assert resume_finding(tmp_path / "x.jsonl", None) is None


async def test_an_output_of_another_configuration_is_told_as_a_run_would_refuse_it(tmp_path: Path) -> None:
    output = f"++output_jsonl_fpath={write_small_run(tmp_path, n_tasks=2).path}"
    doctor = Doctor(selection(output, "++split=example", environment="echo", model_type="scripted_model"))
    resume = (await found(doctor))["resume"]
    assert (resume.state, "was written by run" in resume.found) == (FAIL, True)


# -- data ---------------------------------------------------------------------


@pytest.fixture
def dataset(tmp_path: Path) -> SelectedDataset:
    path = tmp_path / "d.jsonl"
    parts = [{"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
             {"type": "input_text", "text": "?"}]  # fmt: skip
    body = {"input": [{"type": "message", "role": "user", "content": parts}]}
    path.write_text(json.dumps({"responses_create_params": body}) + "\n")
    assert len(list(read_dataset(path))) == 1  # which puts the row's picture into the assets folder
    config = DatasetConfig(name="d", type="benchmark", jsonl_fpath="d.jsonl")
    return SelectedDataset(environment="e", dataset=config, path=path, script=None)


def test_whole_data_is_counted_and_named_by_its_hash(dataset: SelectedDataset) -> None:
    finding = data_finding(dataset)
    assert finding.state is OK
    assert finding.found.startswith("1 task, 1 picture; sha256 ")


def test_a_picture_that_is_not_what_its_name_says_fails(dataset: SelectedDataset) -> None:
    lines = dataset.path.read_text()
    (picture,) = assets_of(dataset.path).folder.iterdir()
    row = json.loads(lines)
    row["responses_create_params"]["input"][0]["content"][0]["image_url"] = f"sha256:{picture.name}"
    dataset.path.write_text(json.dumps(row) + "\n")
    assert data_finding(dataset).state is OK
    picture.write_bytes(b"something else")
    assert data_finding(dataset).state is FAIL
    picture.unlink()
    assert data_finding(dataset).state is FAIL


@pytest.mark.parametrize("content", ["", "not json\n", "{}\n"])
def test_rows_that_are_no_tasks_fail(content: str, dataset: SelectedDataset) -> None:
    dataset.path.write_text(content)
    assert data_finding(dataset).state is FAIL


def test_data_that_is_not_there_fails_only_where_nothing_makes_it(dataset: SelectedDataset, tmp_path: Path) -> None:
    dataset.path.unlink()
    assert data_finding(dataset).state is FAIL
    made = SelectedDataset("e", dataset.dataset, dataset.path, tmp_path / "prepare.py")
    assert data_finding(made).state is WARN


def test_pictures_that_are_left_when_time_is_up_are_said_to_be(
    dataset: SelectedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup_places, "DATA_LIMIT_S", -1.0)
    assert "1 of them not compared for lack of time" in data_finding(dataset).found


# -- words --------------------------------------------------------------------


def test_a_strangers_words_cannot_move_the_cursor_or_begin_a_line() -> None:
    evil = "\x1b[2J\x1b]0;x\x07\nok    judge\u202e" + "y" * 5000
    lines = finding_lines(Finding(check="endpoint", state=FAIL, tried="t", on=evil, found=evil, advice=evil))
    assert len(lines) == 2
    assert all(line.isprintable() and len(line) < 1300 for line in lines)
