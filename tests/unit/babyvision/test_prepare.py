"""BabyVision from either form of the data to task rows; hashes, locks and mistakes."""

import hashlib
import json
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from benchmarks.babyvision_opencode.prepare import PROMPT_FILE, fingerprint, prepare
from benchmarks.babyvision_opencode.source import OFFICIAL_ZIP_SHA256, REVISION
from gym_core.capture.images import sniff_media_type
from gym_core.datasets.manifest import manifest_warnings
from gym_core.datasets.prepared import assets_of, read_dataset
from gym_core.datasets.visual_question import ANSWER_SENTENCE
from gym_core.errors import ConfigError
from gym_core.types.responses import InputImage, InputText
from gym_core.types.task import Task
from gym_core.types.wire import JsonObject
from tests.unit.babyvision.data import SOLUTION, blank_row, choice_row, good_rows, picture, write_parquet, write_zip

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def jsonl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("BABYVISION_PARQUET", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "data" / "babyvision_benchmark.jsonl"


@pytest.fixture
def parquet(tmp_path: Path, jsonl: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Good rows, named by BABYVISION_PARQUET."""
    path = write_parquet(good_rows(), tmp_path / "local copy.bin")
    monkeypatch.setenv("BABYVISION_PARQUET", str(path))
    return path


def prepared(jsonl: Path, args: JsonObject | None = None) -> list[Task]:
    assert prepare(args or {}, jsonl) == jsonl
    return list(read_dataset(jsonl))


def prompt(task: Task) -> str:
    image, text = task.responses_create_params.user_parts()
    assert isinstance(image, InputImage)
    assert isinstance(text, InputText)
    return text.text


def test_rows_carry_the_gold_for_the_grader_and_the_image_as_it_was(jsonl: Path, parquet: Path) -> None:
    blank, choice, *_ = tasks = prepared(jsonl)
    assert [task.id.model_dump() for task in tasks][:2] == [
        {"taskset": "babyvision", "task_id": "362"},
        {"taskset": "babyvision", "task_id": "8343"},
    ]
    assert blank.task_data["expected_answer"] == "gold-8−5=3"
    assert (blank.task_data["category"], blank.task_data["l2_category"]) == ("Visual Tracking", "Maze")
    assert choice.task_data["expected_answer"] == "B"
    assert choice.task_data["options"] == ["The left", "The right"]
    for task, row in zip(tasks, good_rows(), strict=True):
        (image, _) = task.responses_create_params.user_parts()
        assert isinstance(image, InputImage)
        assert assets_of(jsonl).get(image.image_url.removeprefix("sha256:")) == row["image"]["bytes"]


def test_a_jpeg_under_a_png_name_is_a_jpeg(jsonl: Path, parquet: Path) -> None:
    (image, _) = prepared(jsonl)[2].responses_create_params.user_parts()
    assert isinstance(image, InputImage)
    assert sniff_media_type(assets_of(jsonl).get(image.image_url.removeprefix("sha256:"))) == "image/jpeg"


def test_neither_gold_nor_solution_is_in_what_the_policy_sees(jsonl: Path, parquet: Path) -> None:
    prepared(jsonl)
    for line in jsonl.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        seen = json.dumps(row["responses_create_params"], ensure_ascii=False)
        assert SOLUTION not in line
        assert "coT" not in line
        assert set(row["responses_create_params"]) == {"input"}
        if row["ans_type"] == "blank":
            assert row["expected_answer"].startswith("gold-")
            assert row["expected_answer"] not in seen


def test_the_instruction_goes_before_the_question_and_can_be_left_out(jsonl: Path, parquet: Path) -> None:
    question = f"How many steps? Answer with a number.\nChoices:\n(A) The left\n(B) The right\n{ANSWER_SENTENCE}"
    assert prompt(prepared(jsonl)[1]) == f"{PROMPT_FILE.read_text().strip()}\n\n---\n\n{question}"
    assert prompt(prepared(jsonl, {"instruction": ""})[1]) == question
    assert prompt(prepared(jsonl, {"instruction": "Look."})[1]) == f"Look.\n\n---\n\n{question}"


def test_the_zip_gives_the_same_rows(
    tmp_path: Path, jsonl: Path, parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_parquet = prepared(jsonl)
    archive = write_zip(good_rows(), tmp_path / "babyvision_data.zip")
    monkeypatch.setenv("BABYVISION_PARQUET", str(archive))
    other = jsonl.with_name("zip.jsonl")
    assert prepared(other, {"zip_sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}) == from_parquet


def test_a_zip_that_is_not_the_official_one_is_refused(
    tmp_path: Path, jsonl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write_zip(good_rows()[:1], tmp_path / "data.parquet")
    monkeypatch.setenv("BABYVISION_PARQUET", str(archive))
    own = hashlib.sha256(archive.read_bytes()).hexdigest()
    with pytest.raises(ValueError, match=f"not the official zip: its SHA-256 is {own}, not {OFFICIAL_ZIP_SHA256}"):
        prepare({}, jsonl)
    assert not jsonl.exists()


def test_the_first_file_seen_is_locked_and_another_is_refused_until_the_lock_is_deleted(
    tmp_path: Path, jsonl: Path, parquet: Path
) -> None:
    prepare({}, jsonl)
    prepare({}, jsonl)
    first = hashlib.sha256(parquet.read_bytes()).hexdigest()
    write_parquet(good_rows()[:1], parquet)
    second = hashlib.sha256(parquet.read_bytes()).hexdigest()
    with pytest.raises(ValueError, match=f"SHA-256 is {second}, the lock has {first}.*delete"):
        prepare({}, jsonl)
    (jsonl.parent / "babyvision.lock.json").unlink()
    assert len(prepared(jsonl)) == 1


def test_the_manifest_says_what_the_rows_were_made_from(jsonl: Path, parquet: Path) -> None:
    prepare({}, jsonl)
    manifest = json.loads((jsonl.parent / "babyvision_benchmark_manifest.json").read_text())
    assert manifest == {
        "source": "local",
        "revision": None,
        "sha256": hashlib.sha256(parquet.read_bytes()).hexdigest(),
        "rows": 4,
        "warnings": ["4 rows, not 388: scores do not compare with published ones"],
    }


def test_every_mistake_is_named_by_its_task(tmp_path: Path, jsonl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = picture("PNG")
    rows = [
        blank_row(1, "null", image, "a.png"),
        choice_row(2, 2, image, "b.png"),
        choice_row(3, -1, image, "c.png"),
        choice_row(4, 0, image, "d.png", options=[]),
        blank_row(5, "7", image[:-20], "e.png"),
        blank_row(6, "7", image, "f.png", ansType="essay"),
        blank_row(7, "7", image, "g.png", question=" "),
        blank_row(8, "7", image, "h.png"),
        blank_row(8, "7", image, "h.png"),
        blank_row(9, "7", None, "i.png"),
    ]
    monkeypatch.setenv("BABYVISION_PARQUET", str(write_parquet(rows, tmp_path / "bad.parquet")))
    with pytest.raises(ValueError, match="BabyVision: 9 bad rows") as error:
        prepare({}, jsonl)
    lines = str(error.value).splitlines()[1:]
    expected = [
        "taskId 1: blank question without blankAns",
        "taskId 2: choiceAns 2 is not an index into 2 options",
        "taskId 3: choiceAns -1 is not an index into 2 options",
        "taskId 4: choice question with 0 options",
        "taskId 5: image of",
        "taskId 6: ansType: Input should be 'choice' or 'blank'",
        "taskId 7: question: String should have at least 1 character",
        "taskId 8: stands twice",
        "taskId 9: image has no bytes",
    ]
    assert len(lines) == len(expected)
    for line, beginning in zip(lines, expected, strict=True):
        assert line.strip().startswith(beginning)
    assert not jsonl.exists()


def test_a_zip_without_a_picture_names_the_task(tmp_path: Path, jsonl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as files:
        lines = [json.dumps(good_rows()[0] | {"image": "../../../etc/passwd"}), "[1]", "{"]
        files.writestr("babyvision_data/meta_data.jsonl", "\n".join(lines))
    monkeypatch.setenv("BABYVISION_PARQUET", str(archive))
    with pytest.raises(ValueError, match="3 bad rows") as error:
        prepare({"zip_sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}, jsonl)
    assert "taskId 362: no image '../../../etc/passwd' in the zip" in str(error.value)
    assert "babyvision_data/meta_data.jsonl:2: " in str(error.value)
    assert "babyvision_data/meta_data.jsonl:3: " in str(error.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"hello", "neither Parquet nor zip"), (b"PAR1 and then nonsense", "not a readable Parquet file")],
)
def test_a_file_that_is_something_else_is_named(
    tmp_path: Path, jsonl: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, complaint: str
) -> None:
    (tmp_path / "x").write_bytes(content)
    monkeypatch.setenv("BABYVISION_PARQUET", str(tmp_path / "x"))
    with pytest.raises(ValueError, match=complaint):
        prepare({}, jsonl)


def test_a_parquet_file_of_another_schema_says_which_columns_it_lacks(
    tmp_path: Path, jsonl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BABYVISION_PARQUET", str(write_parquet([{"taskId": 1}], tmp_path / "x")))
    with pytest.raises(ValueError, match=r"no column \['type', 'subtype', 'image'"):
        prepare({}, jsonl)


def test_a_local_copy_that_is_not_there_is_named(jsonl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BABYVISION_PARQUET", "/nowhere/x.parquet")
    with pytest.raises(ConfigError, match="BABYVISION_PARQUET: '/nowhere/x.parquet' is no file"):
        prepare({}, jsonl)


def test_a_fingerprint_names_the_content_of_the_local_copy(
    tmp_path: Path, parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fingerprint({})
    monkeypatch.setenv("BABYVISION_PARQUET", str(parquet.rename(tmp_path / "elsewhere")))
    assert fingerprint({}) == first
    write_parquet(good_rows()[:1], tmp_path / "elsewhere")
    assert fingerprint({}) not in (first, "")
    monkeypatch.setenv("BABYVISION_PARQUET", str(tmp_path))
    assert fingerprint({}) == f"no file {tmp_path}"
    monkeypatch.delenv("BABYVISION_PARQUET")
    assert fingerprint({}) == "", "what was prepared from a local copy stays good without the variable"


def test_a_part_of_babyvision_says_that_it_is_one(jsonl: Path, parquet: Path) -> None:
    prepare({}, jsonl)
    assert manifest_warnings(jsonl) == ["4 rows, not 388: scores do not compare with published ones"]


class Hub(BaseHTTPRequestHandler):
    """The hub with one file, whatever is asked for."""

    content = b""
    length: int | None = None
    paths: list[str]

    def do_GET(self) -> None:
        self.paths.append(self.path)
        self.send_response(200 if self.content else 503)
        self.send_header("Content-Length", str(self.length if self.length is not None else len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(jsonl: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    handler = type("TestHub", (Hub,), {"paths": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
        yield handler
        server.shutdown()
        thread.join()


def all_rows() -> list[JsonObject]:
    image = picture("PNG")
    return [blank_row(task_id, "7", image, "a.png") for task_id in range(388)]


def test_the_hub_is_asked_once_for_the_pinned_revision(tmp_path: Path, jsonl: Path, hub: type[Hub]) -> None:
    hub.content = write_parquet(all_rows(), tmp_path / "hub").read_bytes()
    assert len(prepared(jsonl)) == 388
    assert len(prepared(jsonl.with_name("question_only.jsonl"), {"instruction": ""})) == 388
    name = f"/datasets/UnipatAI/BabyVision/resolve/{REVISION}/data/train-00000-of-00001.parquet"
    assert hub.paths == [name]
    lock = json.loads((jsonl.parent / "babyvision.lock.json").read_text())
    sha256 = hashlib.sha256(hub.content).hexdigest()
    assert lock == {"sha256_of_origin": {f"hub:UnipatAI/BabyVision@{REVISION}": sha256}}
    manifest = json.loads((jsonl.parent / "babyvision_benchmark_manifest.json").read_text())
    assert (manifest["revision"], manifest["rows"], manifest["warnings"]) == (REVISION, 388, [])


def test_a_hub_file_with_too_few_rows_is_an_error(tmp_path: Path, jsonl: Path, hub: type[Hub]) -> None:
    hub.content = write_parquet(good_rows()[:1], tmp_path / "hub").read_bytes()
    with pytest.raises(ValueError, match="has 1 rows, not 388"):
        prepare({}, jsonl)


@pytest.mark.parametrize("length", [None, 10_000], ids=["refused", "cut short"])
def test_a_failed_download_leaves_nothing_and_says_what_to_do(jsonl: Path, hub: type[Hub], length: int | None) -> None:
    hub.content, hub.length = (b"PAR1" if length else b""), length
    with pytest.raises(ValueError, match="download of http.* failed: .*set BABYVISION_PARQUET to a local copy"):
        prepare({}, jsonl)
    assert list(jsonl.parent.iterdir()) == []


def test_both_benchmarks_differ_in_the_instruction_alone() -> None:
    with_instruction, question_only = (
        yaml.safe_load((BENCHMARKS / name / "config.yaml").read_text())
        for name in ("babyvision_opencode", "babyvision_opencode_question_only")
    )
    first = with_instruction["babyvision_opencode"]["environment_servers"]["single_agent_turn_legacy"]
    second = question_only["babyvision_opencode_question_only"]["environment_servers"]["single_agent_turn_legacy"]
    (dataset,), (bare,) = first.pop("datasets"), second.pop("datasets")
    assert first == second
    assert dataset.pop("jsonl_fpath") != bare.pop("jsonl_fpath")
    assert bare.pop("prepare_args") == {"instruction": ""}
    assert dataset == bare
