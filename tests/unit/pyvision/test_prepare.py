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
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
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
        (official(None), "image_path: Input should be"),
        (official([]), "image_path"),
        (official(question=""), "question: String should have at least 1 character"),
        ({"id": 1}, "question: Field required"),
        ([1], "is no object"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: object, why: str) -> None:
    source = write_rows(tmp_path, [official(), row])
    with pytest.raises(ValueError, match=f"1 bad rows in .*\n  row 2: .*{why}"):
        prepare({"clues": "images", "rows": str(source)}, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_large_video_is_named_with_its_sha_256_and_a_small_one_is_in_its_row(tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    write_video(tmp_path / "clips" / "a.mp4")
    rows = [official(question="<video>What?", video_path="clips/a.mp4", id=index) for index in range(2)]
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
