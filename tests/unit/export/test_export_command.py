"""`gym export` on saved runs: each format, what is counted and told, and what is refused."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gym_core.capture.images import parse_data_url
from gym_core.capture.recorder import capture_path
from gym_core.cli.export import FORMATS, IMAGES
from gym_core.cli.main import main
from gym_core.errors import FailureKind
from gym_core.export.images import ImageMode, open_images
from gym_core.export.job import WHAT_TO_DO
from gym_core.export.report import ExportReport
from gym_core.export.samples import NoSamples, read_session
from gym_core.export.writers import ExportFormat
from gym_core.types.sample import TrainingSample
from tests.unit.export.saved_runs import ENDPOINT, FakeRun, damage, picture


@pytest.fixture
def run(tmp_path: Path) -> FakeRun:
    return FakeRun(tmp_path / "results")


@pytest.fixture
def mixed(run: FakeRun) -> Path:
    """Three rollouts: one for training, one whose judge failed, one without token ids."""
    without = run.session()
    without.say("user", "what?")
    without.answer("it is red", has_ids=False)
    return run.write(
        [
            run.record(0, run.tool_session()),
            run.record(1, run.tool_session(), failure=FailureKind.JUDGE_FAILED),
            run.record(2, without),
        ]
    )


def export(output: Path, *words: object) -> int:
    return main(["export", "--output", str(output), *map(str, words)])


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def report_of(output: Path) -> ExportReport:
    return ExportReport.model_validate_json(output.with_name(output.name + ".json").read_bytes())


def expected(run: FakeRun, number: int = 0) -> TrainingSample:
    record = run.record(number + 50, run.tool_session())
    (sample,) = read_session(record, run.files.captures, run.assets, endpoint=ENDPOINT).samples
    return sample


def test_the_words_of_the_command_line_are_those_of_the_formats() -> None:
    assert list(FORMATS) == [kind.value for kind in ExportFormat]
    assert list(IMAGES) == [mode.value for mode in ImageMode]


def test_jsonl_lines_are_samples(mixed: Path, run: FakeRun, tmp_path: Path) -> None:
    output = tmp_path / "train.jsonl"
    assert export(output, "--format", "jsonl", mixed) == 0
    (line,) = output.read_bytes().splitlines()
    sample = TrainingSample.from_json(line)
    wanted = expected(run)
    assert (sample.token_ids, sample.loss_mask, sample.logprobs) == (
        wanted.token_ids,
        wanted.loss_mask,
        wanted.logprobs,
    )
    assert [image.sha256 for image in sample.images] == [image.sha256 for image in wanted.images]


def test_the_summary_and_the_side_file_count_everything(
    mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "train.jsonl"
    assert export(output, "--format", "jsonl", mixed) == 0
    printed = capsys.readouterr().out
    assert "3 rollouts, 1 row of jsonl" in printed
    assert "1 (not written): rollout_masked:judge_failed 1" in printed
    assert "no_token_ids 1" in printed
    report = report_of(output)
    assert (report.rollouts, report.samples, report.rows) == (3, 2, 1)
    assert report.masked == {"rollout_masked:judge_failed": 1}
    assert report.logprobs_modes == {"raw": 2}
    assert report.samplings == [{"temperature": 0.5}]
    (about,) = report.runs
    assert (about.run_hash, about.endpoint) == ("h", ENDPOINT)
    assert (output.parent / about.images_dir).resolve() == mixed.with_name("run_assets")


def test_masked_samples_are_written_when_asked_for(mixed: Path, tmp_path: Path) -> None:
    output = tmp_path / "train.jsonl"
    assert export(output, "--format", "jsonl", "--include-masked", mixed) == 0
    assert [line["mask_reason"] for line in lines_of(output)] == [None, "rollout_masked:judge_failed"]


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "parquet"])
def test_every_format_of_lines_holds_the_trained_tokens(kind: str, mixed: Path, run: FakeRun, tmp_path: Path) -> None:
    output = tmp_path / "rows.jsonl"
    assert export(output, "--format", kind, mixed) == 0
    (row,) = lines_of(output)
    assert report_of(output).format == kind
    wanted = expected(run)
    spelled = json.dumps(wanted.token_ids[-10:])[1:-1].replace(" ", "")
    assert spelled in output.read_text().replace(" ", "")
    assert all(image.sha256 in output.read_text() for image in wanted.images)


def test_several_runs_go_into_one_parquet_file(run: FakeRun, tmp_path: Path) -> None:
    other = FakeRun(tmp_path / "other")
    paths = [r.write([r.record(n, r.tool_session())]) for n, r in enumerate((run, other))]
    output = tmp_path / "train.parquet"
    assert export(output, "--format", "parquet", *paths) == 0
    table = pq.read_table(output)
    assert table.num_rows == 2
    assert [r.path for r in report_of(output).runs] == ["results/run.jsonl", "other/run.jsonl"]
    assert [len(ids) for ids in table["token_ids"].to_pylist()] == [len(expected(run).token_ids)] * 2


def test_pictures_can_be_inline(mixed: Path, tmp_path: Path) -> None:
    output = tmp_path / "train.jsonl"
    assert export(output, "--format", "jsonl", "--images", "inline", mixed) == 0
    sample = TrainingSample.from_json(output.read_bytes().rstrip())
    contents = [parse_data_url(image.data_url or "") for image in sample.images]
    assert contents == [picture(2, 1, "red"), picture(1, 3, "blue")]
    sizes = [image.size for image in open_images(sample.images, FakeRun(tmp_path / "nowhere").assets)]
    assert sizes == [(56, 28), (28, 84)]


def test_pictures_can_be_copied_along(mixed: Path, tmp_path: Path) -> None:
    output = tmp_path / "moved" / "train.jsonl"
    assert export(output, "--format", "jsonl", "--images", "files", mixed) == 0
    folder = output.parent / report_of(output).runs[0].images_dir
    assert sorted(path.read_bytes() for path in folder.iterdir()) == sorted(
        [picture(2, 1, "red"), picture(1, 3, "blue")]
    )


def test_nemo_rl_finds_the_pictures_of_references_as_files(mixed: Path, run: FakeRun, tmp_path: Path) -> None:
    output = tmp_path / "rows.jsonl"
    assert export(output, "--format", "nemo_rl", mixed) == 0
    text = output.read_text()
    for content in (picture(2, 1, "red"), picture(1, 3, "blue")):
        assert run.assets.path(run.assets.put(content)).resolve().as_uri() in text


@pytest.mark.parametrize("kind", ["jsonl", "nemo_rl"])
@pytest.mark.parametrize(
    ("mode", "is_told"), [("reference", True), ("files", True), ("inline", True), ("inline", False)]
)
def test_damaged_pictures_are_not_for_training(
    kind: str, mode: str, is_told: bool, mixed: Path, run: FakeRun, tmp_path: Path
) -> None:
    """A damage that the file's time does not tell is met after the file was checked once."""
    assert export(tmp_path / "before.jsonl", "--format", kind, mixed) == 0
    damage(run, picture(1, 3, "blue"), is_told=is_told)
    output = tmp_path / "train.jsonl"
    assert export(output, "--format", kind, "--images", mode, mixed) == 0
    assert output.read_bytes() == b""
    report = report_of(output)
    assert report.masked == {"image_missing": 1, "rollout_masked:judge_failed": 1}
    assert (report.rows, report.trained_tokens) == (0, 0)


@pytest.mark.parametrize("kind", ["jsonl", "nemo_rl"])
def test_damaged_pictures_of_masked_samples_are_neither_copied_nor_named(
    kind: str, mixed: Path, run: FakeRun, tmp_path: Path
) -> None:
    damage(run, picture(1, 3, "blue"))
    output = tmp_path / "all.jsonl"
    assert export(output, "--format", kind, "--include-masked", "--images", "files", mixed) == 0
    folder = output.parent / report_of(output).runs[0].images_dir
    assert [path.read_bytes() for path in folder.iterdir()] == [picture(2, 1, "red")]
    assert "file://" not in output.read_text()


def refused(capsys: pytest.CaptureFixture[str], output: Path, words: Sequence[object]) -> str:
    before = {path for path in output.parent.rglob("*") if path.is_file()}
    assert export(output, *words) == 2
    assert {path for path in output.parent.rglob("*") if path.is_file()} == before
    return capsys.readouterr().err


def test_a_run_without_captures_says_what_to_copy(
    mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed.with_name("run_captures").rename(tmp_path / "elsewhere")
    said = refused(capsys, tmp_path / "out.jsonl", ["--format", "jsonl", mixed])
    assert "X_captures" in said
    assert "3 rollouts" in said


def test_a_run_without_token_ids_says_what_to_set(
    run: FakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = run.session()
    session.say("user", "what?")
    session.answer("it is red", has_ids=False)
    path = run.write([run.record(0, session)])
    said = refused(capsys, tmp_path / "out.jsonl", ["--format", "jsonl", path])
    assert "return_token_id_information=true" in said


def test_swapped_captures_are_refused_with_what_to_do(
    run: FakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run.write([run.record(number, run.tool_session()) for number in range(2)])
    one, two = (capture_path(run.files.captures, f"s{number}") for number in range(2))
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    said = refused(capsys, tmp_path / "out.jsonl", ["--format", "jsonl", path])
    assert "2 rollouts: the files of their model calls are those of other rollouts" in said


def test_every_reason_for_no_samples_says_what_to_do() -> None:
    assert set(WHAT_TO_DO) == set(NoSamples)


def test_nothing_is_overwritten(mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there already" in refused(capsys, mixed, ["--format", "jsonl", mixed])


@pytest.mark.parametrize("content", ["", "{}", '{"a": 1}\n{"a": 2}\n'])
def test_a_file_that_is_no_runs_output_is_refused(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "strange.jsonl"
    path.write_text(content)
    assert "strange.jsonl" in refused(capsys, tmp_path / "out.jsonl", ["--format", "jsonl", path])


def test_a_file_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such file" in refused(capsys, tmp_path / "out.jsonl", ["--format", "jsonl", tmp_path / "no.jsonl"])


def test_a_foreign_file_is_told_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "strange.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    said = refused(capsys, tmp_path / "out.jsonl", ["--format", "jsonl", path])
    assert "_gym_crc32" in said
    assert "cut that line" not in said


def test_one_run_is_not_exported_twice(
    mixed: Path, run: FakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twice = refused(capsys, tmp_path / "out.jsonl", ["--format", "jsonl", mixed, mixed.parent / "." / mixed.name])
    assert "given twice" in twice
    copy = FakeRun(tmp_path / "copy")
    copy.folder.mkdir()
    for source, target in ((run.files.rollouts, copy.files.rollouts), (run.files.manifest, copy.files.manifest)):
        target.write_bytes(source.read_bytes())
    again = refused(capsys, tmp_path / "out.jsonl", ["--format", "jsonl", mixed, copy.files.rollouts])
    assert "session 's0' was exported already" in again


def test_a_last_line_that_is_cut_off_is_told(mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = mixed.read_bytes()
    mixed.write_bytes(whole[:-20])
    output = tmp_path / "out.jsonl"
    assert export(output, "--format", "jsonl", mixed) == 0
    length = len(whole.splitlines()[-1]) + 1 - 20
    told = capsys.readouterr()
    for text in (told.out, told.err, *report_of(output).warnings):
        assert f"{length} bytes were not read" in text
    assert report_of(output).rollouts == 2


@pytest.mark.parametrize("is_there", [False, True])
def test_a_run_without_a_look_at_its_endpoint_is_exported_only_when_allowed(
    is_there: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = FakeRun(tmp_path / "results", endpoint=None)
    mixed = run.write([run.record(0, run.tool_session())])
    if not is_there:
        run.files.manifest.unlink()
    output = tmp_path / "out.jsonl"
    assert "run_run.json" in refused(capsys, output, ["--format", "jsonl", mixed])
    assert export(output, "--format", "jsonl", "--allow-missing-manifest", mixed) == 0
    told = capsys.readouterr()
    assert "run_run.json" in told.err
    assert "not checked for pictures" in told.out
    (warning,) = report_of(output).warnings
    assert "run_run.json" in warning
    if is_there:
        return
    assert report_of(output).runs[0].run_hash is None
    assert lines_of(output)[0]["logprobs_mode"] == "unknown"
