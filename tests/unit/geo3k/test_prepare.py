"""Geometry3K's Parquet file to task rows; mistakes, and where the file comes from."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.geo3k_zoom.prepare import INSTRUCTION, fingerprint, prepare
from gym_core.datasets.prepared import assets_of, read_dataset
from gym_core.errors import ConfigError
from gym_core.types.responses import InputImage, InputText
from gym_core.types.wire import JsonObject
from tests.unit.geo3k.problems import data_uri, problems, write_parquet


@pytest.fixture
def jsonl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("GEO3K_PARQUET", raising=False)
    return tmp_path / "data" / "geo3k.jsonl"


@pytest.fixture
def local(tmp_path: Path, jsonl: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = write_parquet(tmp_path / "test.parquet")
    monkeypatch.setenv("GEO3K_PARQUET", str(path))
    return path


def test_the_image_comes_first_and_its_bytes_are_the_problems_own(jsonl: Path, local: Path) -> None:
    prepare({}, jsonl)
    tasks = list(read_dataset(jsonl))
    assert len(tasks) == 10
    for task, problem in zip(tasks, problems(), strict=True):
        image, text = task.responses_create_params.user_parts()
        assert isinstance(image, InputImage)
        assert isinstance(text, InputText)
        assert assets_of(jsonl).get(image.image_url.removeprefix("sha256:")) == problem.png
        assert text.text.startswith(INSTRUCTION)
        assert problem.text in text.text
        assert "<image>" not in text.text
        assert "\\boxed{" in text.text
        assert task.task_data["expected_answer"] == problem.gold


def test_the_gold_reaches_the_grader_alone(jsonl: Path, local: Path) -> None:
    prepare({}, jsonl)
    for line in jsonl.read_text().splitlines():
        assert "expected_answer" not in json.dumps(json.loads(line)["responses_create_params"])


def test_a_part_of_the_rows_is_the_same_part_every_time(jsonl: Path, local: Path) -> None:
    first = prepare({"max_rows": 4}, jsonl).read_text()
    ids = [json.loads(line)["source_id"] for line in first.splitlines()]
    assert len(set(ids)) == 4
    assert ids != sorted(ids, key=lambda name: int(name.split("-")[1]))
    assert prepare({"max_rows": 4}, jsonl).read_text() == first


def test_each_split_has_a_local_copy_of_its_own(jsonl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "test.parquet")
    write_parquet(tmp_path / "train.parquet", [{"problem": "Find x.", "answer": "3", "images": [data_uri(PNG)]}])
    monkeypatch.setenv("GEO3K_PARQUET", str(tmp_path / "{split}.parquet"))
    assert len(prepare({"split": "train"}, jsonl).read_text().splitlines()) == 1
    assert len(prepare({"split": "test"}, jsonl).read_text().splitlines()) == 10
    assert fingerprint({"split": "train"}) != fingerprint({"split": "test"})


PNG = problems()[0].png


def test_one_file_is_not_two_splits(jsonl: Path, local: Path) -> None:
    prepare({"split": "test"}, jsonl)
    train = jsonl.with_name("train.jsonl")
    for ask in (lambda: prepare({"split": "train"}, train), lambda: fingerprint({"split": "train"})):
        with pytest.raises(ConfigError, match=r"names the test split's file alone: write {split}.*\+\+split=benchmark"):
            ask()
    assert not train.exists()


@pytest.mark.parametrize("split", ["train", "test"])
def test_two_splits_with_one_content_are_refused(
    jsonl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    for name in ("train", "test"):
        write_parquet(tmp_path / f"{name}.parquet")
    monkeypatch.setenv("GEO3K_PARQUET", str(tmp_path / "{split}.parquet"))
    with pytest.raises(ConfigError, match="hold the same rows"):
        prepare({"split": split}, jsonl)


def test_without_the_train_file_the_test_rows_are_made_and_it_says_how_to_leave_the_others_out(
    jsonl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "test.parquet")
    monkeypatch.setenv("GEO3K_PARQUET", str(tmp_path / "{split}.parquet"))
    assert len(prepare({"split": "test"}, jsonl).read_text().splitlines()) == 10
    with pytest.raises(ConfigError, match=r"train.parquet' is no file; \+\+split=benchmark leaves the train rows out"):
        prepare({"split": "train"}, jsonl.with_name("train.jsonl"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": ""}, "answer"),
        ({"problem": "  "}, "problem"),
        ({"images": []}, "images"),
        ({"images": [data_uri(PNG), data_uri(PNG)]}, "images"),
        ({"images": ["http://127.0.0.1/x.png"]}, "no base64 data URI: it begins with 'http"),
        ({"images": ["data:image/None;base64,!!"]}, "test-0: image"),
        ({"images": ["data:image/None;base64,AAAA"]}, "test-0: image of 3 bytes"),
        ({"images": [data_uri(PNG[:2000])]}, "test-0: image of 2000 bytes"),
    ],
)
def test_a_bad_row_is_named(
    jsonl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: JsonObject, message: str
) -> None:
    good: JsonObject = {"problem": "<image>Find x.", "answer": "3", "images": [data_uri(PNG)]}
    path = write_parquet(tmp_path / "x.parquet", [{**good, **change}, good])
    monkeypatch.setenv("GEO3K_PARQUET", str(path))
    with pytest.raises(ValueError, match="geo3k: 1 bad rows") as told:
        prepare({}, jsonl)
    assert message in str(told.value)
    assert not jsonl.exists()


@pytest.mark.parametrize("args", [{"split": "validation"}, {"max_rows": 0}, {"revision": "../x"}, {"seed": 1}])
def test_wrong_arguments_are_named(jsonl: Path, args: JsonObject) -> None:
    with pytest.raises(ConfigError, match="prepare_args"):
        prepare(args, jsonl)


def test_another_local_copy_is_another_fingerprint(
    jsonl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fingerprint({}) == ""
    path = write_parquet(tmp_path / "a.parquet")
    monkeypatch.setenv("GEO3K_PARQUET", str(path))
    assert fingerprint({}) == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    path.unlink()
    assert fingerprint({}).startswith("no file")
    with pytest.raises(ConfigError, match="GEO3K_PARQUET"):
        prepare({}, jsonl)


@pytest.fixture
def hub(tmp_path: Path, jsonl: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """A hub: content by path."""
    files: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = files.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield files
        server.shutdown()
        thread.join()


def test_the_hubs_file_is_fetched_once_and_another_one_is_refused_later(
    jsonl: Path, tmp_path: Path, hub: dict[str, bytes]
) -> None:
    address = "/datasets/chenhegu/geo3k_imgurl/resolve/main/test.parquet"
    hub[address] = write_parquet(tmp_path / "a.parquet").read_bytes()
    prepare({}, jsonl)
    hub[address] = b"gone"
    prepare({}, jsonl)
    assert len(list(read_dataset(jsonl))) == 10
    manifest = json.loads((jsonl.parent / "geo3k_manifest.json").read_text())
    assert manifest["origin"] == "hub:chenhegu/geo3k_imgurl@main/test.parquet"
    (kept,) = jsonl.parent.glob("geo3k-*.parquet")
    kept.unlink()
    with pytest.raises(ValueError, match="is not the file seen before"):
        prepare({}, jsonl)


def test_without_a_hub_it_says_what_to_do(jsonl: Path, hub: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match=r"download of .* failed: .*404.* set GEO3K_PARQUET"):
        prepare({"split": "train"}, jsonl)
