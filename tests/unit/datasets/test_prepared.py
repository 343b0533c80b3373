"""Visual questions as task rows, and datasets on disk."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from gym_core.capture.images import image_urls, make_data_url
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.prepared import DatasetError, assets_of, read_dataset, write_dataset
from gym_core.datasets.visual_question import ANSWER_SENTENCE, VisualQuestion, to_task_row
from gym_core.types.responses import InputImage, InputText


def picture(colour: str) -> PreparedImage:
    file = io.BytesIO()
    Image.new("RGB", (4, 4), colour).save(file, "PNG")
    return PreparedImage.from_bytes(file.getvalue(), row=colour)


BLANK = VisualQuestion(
    source_id="17",
    taskset="shapes",
    category="Visual Tracking",
    subtype="Maze",
    image=picture("red"),
    question="How many cells? ",
    ans_type="blank",
    gold="zebra-42",
)
CHOICE = replace(BLANK, source_id="18", image=picture("blue"), ans_type="choice", options=("Left", "Right"), gold="B")


def test_the_prompt_is_image_then_instruction_question_choices_and_the_box_sentence(tmp_path: Path) -> None:
    path = tmp_path / "shapes.jsonl"
    assert write_dataset([(to_task_row(CHOICE, instruction="Look first.\n"), CHOICE.image)], path) == 1
    (task,) = read_dataset(path)
    image, text = task.responses_create_params.user_parts()
    assert isinstance(image, InputImage)
    assert image.image_url == f"sha256:{CHOICE.image.sha256}"
    assert isinstance(text, InputText)
    question = f"How many cells?\nChoices:\n(A) Left\n(B) Right\n{ANSWER_SENTENCE}"
    assert text.text == f"Look first.\n\n---\n\n{question}"
    assert task.id.model_dump() == {"taskset": "shapes", "task_id": "18"}
    assert assets_of(path).get(CHOICE.image.sha256) == CHOICE.image.content


@pytest.mark.parametrize("instruction", [None, "", " \n"])
def test_without_an_instruction_the_bare_question_is_sent(instruction: str | None) -> None:
    row = to_task_row(BLANK, instruction=instruction)
    text = row["responses_create_params"]["input"][0]["content"][1]["text"]
    assert text == f"How many cells?\n{ANSWER_SENTENCE}"


def test_the_gold_is_for_the_grader_alone() -> None:
    row = to_task_row(BLANK, instruction="Look first.")
    assert row["expected_answer"] == "zebra-42"
    assert "zebra-42" not in json.dumps(row["responses_create_params"])


def test_options_and_answer_type_must_agree() -> None:
    with pytest.raises(ValueError, match="18: blank question with 2 options"):
        replace(CHOICE, ans_type="blank")


def test_a_dataset_that_cannot_be_finished_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "shapes.jsonl"

    def rows():  # type: ignore[no-untyped-def]
        yield to_task_row(BLANK, instruction=None), BLANK.image
        raise ValueError("row 2 is broken")

    with pytest.raises(ValueError, match="row 2"):
        write_dataset(rows(), path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["shapes_assets"]


def test_rows_of_other_gyms_are_read_with_their_pictures(tmp_path: Path) -> None:
    image_url = make_data_url(BLANK.image.content)
    message = {"role": "user", "content": [{"type": "input_image", "image_url": image_url, "detail": "auto"}]}
    body = {"input": [message]}
    path = tmp_path / "other.jsonl"
    flat = {"responses_create_params": body, "expected_answer": "3", "_ng_task_index": 5}
    materialized = {"task_id": {"taskset": "t", "task_id": "x"}, "task_input": {"responses_create_params": body}}
    path.write_text(json.dumps(flat) + "\n\n" + json.dumps(materialized) + "\n")
    first, second = read_dataset(path)
    assert (first.id.taskset, first.id.task_id, first.task_data) == ("other", "0", {"expected_answer": "3"})
    assert (second.id.taskset, second.id.task_id, second.task_data) == ("t", "x", {})
    assert image_urls(first.responses_create_params) == [f"sha256:{BLANK.image.sha256}"]
    assert assets_of(path).get(BLANK.image.sha256) == BLANK.image.content


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON: the line is cut short after 1 characters"),
        ('{"responses_create_params": {"inp', "cut short after 33 characters"),
        ('{"a": 1,}', "not JSON: expecting property name enclosed in double quotes at position 9"),
        (b"{\xff}", "not UTF-8: byte 0xff at position 2"),
        ('{"responses_create_params": {"input": "a"}, "x": NaN}', "NaN is no number"),
        ('{"responses_create_params": {"input": "a\\ud800"}}', "half of a surrogate pair"),
        ('{"responses_create_params": {"input": "hi"}}', "has the content of line 1"),
        ('{"responses_create_params": {"input": "hi"}, "x": ' + "[" * 200 + "]" * 200 + "}", "more than 100 deep"),
        ("[]", "a task row is a JSON object, not list"),
        ("{}", "needs `responses_create_params`"),
        ('{"responses_create_params": {"input": []}}', "input is empty: there is nothing to ask"),
        ('{"responses_create_params": {"input": "a", "temperature": 1e300}}', "temperature"),
        ('{"responses_create_params": {"input": "hi", "temprature": 1}}', "temprature: Extra inputs"),
        ('{"responses_create_params": {"input": "hi"}, "reward": 1.0}', "is this a file of results"),
        ('{"task_input": 3}', "TaskInput"),
        ("[" * 100_000, "nested more than 100 deep"),
        (
            '{"responses_create_params": {"input": [{"role": "user", "content": '
            '[{"type": "input_image", "image_url": "http://x/y.png"}]}]}}',
            "image 'http://x/y.png': nothing is fetched; put the picture in as a data: URL",
        ),
        (
            '{"responses_create_params": {"input": [{"role": "user", "content": '
            '[{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}]}}',
            "an image is none of a known kind: it begins with b",
        ),
        (
            '{"responses_create_params": {"input": [{"role": "user", "content": '
            '[{"type": "input_image", "image_url": "data:image/png;base64,A*AA"}]}]}}',
            "bad.jsonl:2: image data URL: Invalid base64",
        ),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path: Path, line: str | bytes, complaint: str) -> None:
    path = tmp_path / "bad.jsonl"
    content = line.encode() if isinstance(line, str) else line
    path.write_bytes(b'{"responses_create_params": {"input": "hi"}}\n' + content + b"\n")
    tasks = read_dataset(path)
    next(tasks)
    with pytest.raises(DatasetError, match=r"bad\.jsonl:2: ") as caught:
        next(tasks)
    assert re.search(complaint, str(caught.value))
    assert "object at 0x" not in str(caught.value)


def test_a_file_of_tasks_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="cannot be read: Is a directory"):
        list(read_dataset(tmp_path))


def test_a_byte_order_mark_and_windows_line_ends_are_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"responses_create_params": {"input": "hi"}}\r\n\r\n')
    assert len(list(read_dataset(path))) == 1


def test_a_row_may_have_several_images_or_none(tmp_path: Path) -> None:
    path = tmp_path / "several.jsonl"
    images = [picture("red"), picture("blue")]
    rows = [(to_task_row(BLANK, instruction=None), images), ({"responses_create_params": {"input": "hi"}}, ())]
    assert write_dataset(rows, path) == 2
    assert {file.name for file in assets_of(path).folder.iterdir()} == {image.sha256 for image in images}
    assert len(list(read_dataset(path))) == 2
