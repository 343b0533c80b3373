"""The benchmarks' rows: drawn from a seed, or of a file in the published form; what the policy is told of them."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.pyvision import drawn_images, drawn_videos
from benchmarks.pyvision.prepare import fingerprint, prepare
from gym_core.datasets.manifest import manifest_warnings
from gym_core.datasets.prepared import assets_of, read_dataset
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject
from resources_servers.pyvision.grading import PyVisionTask
from resources_servers.pyvision.videos import InlineVideo, SharedVideo
from tests.unit.datasets.test_video_reader import write_video
from tests.unit.pyvision.servers import png


def rows_of(path: Path) -> list[JsonObject]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def told(row: JsonObject) -> list[str]:
    """Texts of the prompt in order, `[image]` where one stands."""
    parts = row["responses_create_params"]["input"][0]["content"]
    return [part.get("text", "[image]") for part in parts]


@pytest.mark.parametrize("clues", ["images", "videos"])
def test_a_seed_is_the_same_questions_and_another_one_others(tmp_path: Path, clues: str) -> None:
    first, again, other = (
        prepare({"clues": clues, "seed": seed, "per_kind": 1}, tmp_path / f"{name}.jsonl")
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert first.read_bytes() == again.read_bytes()
    assert not set(first.read_text().splitlines()) & set(other.read_text().splitlines())
    tasks = list(read_dataset(first))
    assert len(tasks) == len(drawn_images.KINDS if clues == "images" else drawn_videos.KINDS)
    for task in tasks:
        PyVisionTask.model_validate(task.task_data)
    assert len(rows_of(prepare({"clues": clues, "max_rows": 2, "per_kind": 1}, tmp_path / "d.jsonl"))) == 2


def test_images_stand_between_tags_that_name_them_with_width_and_height(tmp_path: Path) -> None:
    path = prepare({"clues": "images", "per_kind": 1}, tmp_path / "i.jsonl")
    (row,) = [row for row in rows_of(path) if "two_pictures" in row["task_id"]["task_id"]]
    texts = told(row)
    assert [text for text in texts if text in ("<image_clue_0>", "<image_clue_1>", "[image]")] == [
        "<image_clue_0>",
        "[image]",
        "<image_clue_1>",
        "[image]",
    ]
    assert texts[3].startswith("</image_clue_0>\nWidth of image_clue_0: ")
    assert "<image_clue_2>" in texts[0]  # what the model's first figure is called
    assert (texts[-1], row["videos"]) == (f"\nQuestion: {row['question']}", [])
    assert len(list(assets_of(path).folder.iterdir())) == 5  # of the four kinds one has two


def test_a_video_is_described_and_not_shown(tmp_path: Path) -> None:
    for row in rows_of(prepare({"clues": "videos", "per_kind": 1}, tmp_path / "v.jsonl")):
        (text,) = told(row)
        assert "<video_clue_0>\nWidth: 160; height: 120; frames: " in text
        assert "frames a second: 12; length: " in text
        assert "data:" not in text
        (video,) = PyVisionTask.model_validate(row).videos
        assert isinstance(video, InlineVideo)


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"clues": "sounds"},
        {"clues": "images", "per_kind": 0},
        {"clues": "images", "rows": "/no/such.jsonl"},
        {"clues": "images", "row": 1},
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, args: JsonObject) -> None:
    with pytest.raises(ConfigError, match="prepare_args"):
        prepare(args, tmp_path / "x.jsonl")


# -- rows in the published form -------------------------------------------------------


def official(path: str | Sequence[str] | None = "media/a.png", **changes: object) -> JsonObject:
    row: JsonObject = {
        "id": 7,
        "question": "<image>What is it?",
        "answer": "B",
        "ability": "perception",
        "data_source": "vstar",
        "image_path": path,
        "split": "train",
    }
    return row | changes


def write_rows(folder: Path, rows: Sequence[object], kind: str = "jsonl") -> Path:
    (folder / "media").mkdir(exist_ok=True)
    (folder / "media" / "a.png").write_bytes(png(30, 20))
    (folder / "media" / "b.png").write_bytes(png(40, 10, "blue"))
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    elif kind == "json":
        path.write_text(json.dumps(rows))
    else:
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_rows_of_a_file_are_asked_in_our_words(tmp_path: Path, kind: str) -> None:
    source = write_rows(tmp_path, [official(), official("media/b.png", id=8, answer="3/4")], kind)
    first, second = rows_of(prepare({"clues": "images", "rows": str(source)}, tmp_path / "out.jsonl"))
    assert (first["task_id"], first["question"], first["expected_answer"]) == (
        {"taskset": "pyvision_image", "task_id": "7"},
        "What is it?",
        "B",
    )
    assert (first["category"], first["data_source"], first["grader"]) == ("perception", "vstar", None)
    assert "Width of image_clue_0: 40; height: 10" in told(second)[3]


def test_a_row_may_have_several_images_and_the_media_another_folder(tmp_path: Path) -> None:
    source = write_rows(tmp_path, [official(["a.png", "b.png"])])
    args: JsonObject = {"clues": "images", "rows": str(source), "media": str(tmp_path / "media")}
    (row,) = rows_of(prepare(args, tmp_path / "out.jsonl"))
    assert told(row).count("[image]") == 2


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (official("media/none.png"), "no file 'media/none.png'"),
        (official("../secret.png"), "leads out of"),
        (official("/etc/passwd"), "leads out of"),
        (official("media"), "no file 'media'"),
        (official("rows.jsonl"), "like no PNG"),
        (official(None), "image_path: should be a path, or a list of paths"),
        (official([]), "image_path: should be a path, or a list of paths"),
        (official([""]), "image_path: should be a path, or a list of paths"),
        (official("a/" * 3000), "image_path: a path is longer than 400 characters"),
        (official("x" * 300 + ".png"), "(is no path of a file|no file 'xxx)"),
        (official("a\0.png"), "is no path of a file"),
        (official(["media/a.png"] * 33), "image_path: 33 images are more than 32"),
        (official(question=""), "question: String should have at least 1 character"),
        (official(question="<image> <image>"), "question: String should have at least 1 character"),
        (official(answer=""), "answer: String should have at least 1 character"),
        (official(answer=None), "answer: should be text or a number"),
        (official(answer=["B"]), "answer: should be text or a number"),
        (official(answer=True), "answer: should be text or a number"),
        (official(id=False), "id: should be text or a number"),
        (official(id=" "), "id: String should have at least 1 character"),
        (official(id="x" * 5000), "id: String should have at most 200 characters"),
        (official(id="first"), "id: 'first' is row 1's"),
        (official(id="FIRST", question="What is it? "), "is row 1 again"),
        ({"id": 1}, "question: Field required; answer: Field required; image_path: Field required"),
        ([1], "is no object"),
        (b'{"id": 1, "question": }', "not JSON: .* at position"),
        (b'{"id": "\xff"}', "not UTF-8"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: object, why: str) -> None:
    first = official(id="first", question="What is it?") if "FIRST" in str(row) else official(id="first", answer="A")
    source = write_rows(tmp_path, [first, row])
    with pytest.raises(ValueError, match=f"1 bad rows in .*\n  row 2: .*{why}"):
        prepare({"clues": "images", "rows": str(source)}, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_large_video_is_named_with_its_sha_256_and_a_small_one_is_in_its_row(tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    write_video(tmp_path / "clips" / "a.mp4")
    rows = [official(question=f"<video>What {index}?", video_path="clips/a.mp4", id=index) for index in range(2)]
    source = write_rows(tmp_path, rows)
    args: JsonObject = {"clues": "videos", "rows": str(source)}
    inline = rows_of(prepare(args, tmp_path / "inline.jsonl"))
    assert [type(PyVisionTask.model_validate(row).videos[0]) for row in inline] == [InlineVideo] * 2
    assert manifest_warnings(tmp_path / "inline.jsonl") == []
    named = rows_of(prepare(args | {"inline_mib": 0}, tmp_path / "named.jsonl"))
    video = PyVisionTask.model_validate(named[0]).videos[0]
    assert isinstance(video, SharedVideo)
    assert video.file == "clips/a.mp4"
    assert "frames: 30; frames a second: 10; length: 3 seconds" in told(named[0])[0]
    assert "2 videos are not in the rows" in manifest_warnings(tmp_path / "named.jsonl")[0]


def test_a_broken_video_is_named(tmp_path: Path) -> None:
    source = write_rows(tmp_path, [official(video_path="media/a.mp4")])
    (tmp_path / "media" / "a.mp4").write_bytes(b"nothing" * 99)
    with pytest.raises(ValueError, match=r"row 1: video 'a\.mp4': .*Invalid data"):
        prepare({"clues": "videos", "rows": str(source)}, tmp_path / "out.jsonl")


@pytest.mark.parametrize("name", ["naïve clip,1.mp4", ".hid.mp4", "clips/.hid/a.mp4"])
def test_a_name_that_the_environment_takes_for_no_shared_file_is_refused(tmp_path: Path, name: str) -> None:
    source = write_rows(tmp_path, [official(question="<video>What?", video_path=f"media/{name}")])
    (tmp_path / "media" / name).parent.mkdir(parents=True, exist_ok=True)
    write_video(tmp_path / "media" / name)
    args: JsonObject = {"clues": "videos", "rows": str(source)}
    assert len(rows_of(prepare(args, tmp_path / "inline.jsonl"))) == 1
    with pytest.raises(ValueError, match=r"row 1: video .* is too large for its row .*plain name"):
        prepare(args | {"inline_mib": 0}, tmp_path / "named.jsonl")
    with pytest.raises(ValueError, match="plain name"):
        SharedVideo(file=f"media/{name}", sha256="0" * 64)


def test_more_videos_than_the_environment_takes_and_a_picture_for_one_are_refused(tmp_path: Path) -> None:
    rows = [official(video_path=["media/a.png"]), official(video_path=["media/a.mp4"] * 9)]
    source = write_rows(tmp_path, rows)
    with pytest.raises(ValueError, match="2 bad rows") as raised:
        prepare({"clues": "videos", "rows": str(source)}, tmp_path / "out.jsonl")
    assert "row 1: video 'media/a.png' is a picture: image/png" in str(raised.value)
    assert "row 2: video_path: 9 videos are more than 8" in str(raised.value)


@pytest.mark.parametrize("content", [b"[{", b'["\xff"]', b"{}"])
def test_a_list_of_rows_that_is_none_is_named(tmp_path: Path, content: bytes) -> None:
    source = tmp_path / "rows.json"
    source.write_bytes(content)
    with pytest.raises(ValueError, match=r"rows\.json'(: not| is no list)"):
        prepare({"clues": "images", "rows": str(source)}, tmp_path / "out.jsonl")


def test_media_that_changed_are_told_by_the_fingerprint(tmp_path: Path) -> None:
    source = write_rows(tmp_path, [b"{", official(), official("media/none.png", id=8)])
    args: JsonObject = {"clues": "images", "rows": str(source)}
    first = fingerprint(args)
    assert fingerprint(args) == first
    (tmp_path / "media" / "b.png").write_bytes(png(3, 3))  # which no row names
    assert fingerprint(args) == first
    (tmp_path / "media" / "a.png").write_bytes(png(31, 20))
    second = fingerprint(args)
    (tmp_path / "media" / "none.png").write_bytes(png(3, 3))
    assert len({first, second, fingerprint(args)}) == 3


def test_another_file_of_rows_is_told_by_its_fingerprint(tmp_path: Path) -> None:
    source = write_rows(tmp_path, [official()])
    first = fingerprint({"rows": str(source)})
    write_rows(tmp_path, [official(answer="C")])
    assert first.startswith("sha256:")
    assert fingerprint({"rows": str(source)}) != first
    assert fingerprint({}) == ""
    assert fingerprint({"rows": str(tmp_path / "none")}).startswith("no file")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,question\n")
    with pytest.raises(ValueError, match=r"read from \.jsonl, \.json and \.parquet"):
        prepare({"clues": "images", "rows": str(path)}, tmp_path / "out.jsonl")
