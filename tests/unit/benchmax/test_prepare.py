"""A class's dataset as task rows: what is kept, where pictures go, and which examples cannot be tasks."""

import io
import json
from pathlib import Path

import pytest
from PIL import Image

from gym_core.capture.images import make_data_url
from gym_core.config.roots import INSTALL_DIR
from gym_core.datasets.images import png_of
from gym_core.datasets.prepared import assets_of, read_dataset
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject
from resources_servers.benchmax.prepare import fingerprint, prepare
from tests.unit.benchmax.served import ODD

EXAMPLES = "resources_servers/benchmax/examples"
PICTURE = make_data_url(png_of(Image.new("RGB", (3, 2), "red")))
ASK = {"prompt_messages": [{"role": "user", "content": "What?"}]}
SHOW = {
    "prompt_messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PICTURE}}] * 2}],
    "gold": [1, {"deep": None}],
}


def odd(class_name: str, **arguments: object) -> JsonObject:
    return {"environment": {"class_path": f"{ODD}:{class_name}", "arguments": arguments}}


def rows_of(path: Path) -> list[JsonObject]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_prompt_payload_id_and_pictures_are_where_they_belong(tmp_path: Path) -> None:
    path = prepare(odd("Examples", pairs=[["first one/é", SHOW]]), tmp_path / "x.jsonl")
    (row,) = rows_of(path)
    assert (row["task_id"]["task_id"], row["example_id"], row["split"]) == ("first one/é", "first one/é", "eval")
    assert row["payload"] == SHOW
    parts = row["responses_create_params"]["input"][0]["content"]
    sha256 = parts[0]["image_url"].removeprefix("sha256:")
    assert Image.open(io.BytesIO(assets_of(path).get(sha256))).size == (3, 2)
    assert parts[0] == parts[1]
    (task,) = read_dataset(path)
    assert task.task_data["payload"] == SHOW


def test_the_payload_need_not_keep_the_prompts_pictures(tmp_path: Path) -> None:
    args = odd("Examples", pairs=[["a", SHOW]]) | {"keep_prompt_images": False}
    (row,) = rows_of(prepare(args, tmp_path / "x.jsonl"))
    assert "data:" not in json.dumps(row)
    assert row["payload"]["gold"] == SHOW["gold"]


def test_the_classs_limit_of_calls_is_the_rows(tmp_path: Path) -> None:
    (row, *_) = rows_of(prepare(odd("Plain", max_tool_calls=2), tmp_path / "x.jsonl"))
    assert row["responses_create_params"]["max_tool_calls"] == 2


@pytest.mark.parametrize("class_name", ["Plain", "Examples"])
def test_so_many_examples_as_were_asked_for_by_a_newer_and_an_older_contract(tmp_path: Path, class_name: str) -> None:
    arguments = {"pairs": [[str(n), ASK] for n in range(5)]} if class_name == "Examples" else {}
    path = prepare(odd(class_name, **arguments) | {"max_examples": 2}, tmp_path / "x.jsonl")
    assert [row["example_id"] for row in rows_of(path)] == ["0", "1"]


def test_the_class_is_given_its_split_and_its_folder(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    args = odd("Examples", pairs=[["a", ASK]], journal=str(journal)) | {"split": "train", "base_dir": str(tmp_path)}
    prepare(args, tmp_path / "data" / "x.jsonl")
    prepare({**args, "base_dir": None}, tmp_path / "data" / "x.jsonl")
    assert journal.read_text().splitlines() == [f"train {tmp_path}", f"train {tmp_path / 'data'}"]


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([["a", ASK], ["b", ASK], ["a", SHOW]], "examples 0 and 2 have one id, 'a'"),
        ([["a", {}]], "example 'a': prompt_messages"),
        ([["a", {**ASK, "gold": float("nan")}]], "example 'a': its payload is no JSON"),
        ([["a", [ASK]]], "example 'a': its payload is a list"),
        ([["a", json.loads(json.dumps(SHOW).replace(PICTURE, "https://x/y.png"))]], "example 'a': not a base64 image"),
        ([["a", json.loads(json.dumps(SHOW).replace(PICTURE, PICTURE[:60]))]], "example 'a'"),
        ([["a", {"prompt_messages": [{"role": "tool", "content": "x"}]}]], "example 'a': prompt_messages"),
        ([], "create_dataset gave no example of 'eval'"),
    ],
)
def test_an_example_that_can_be_no_task_is_named_and_no_file_is_left(
    tmp_path: Path, pairs: list[list[object]], why: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is looked at below
        prepare(odd("Examples", pairs=pairs), tmp_path / "x.jsonl")
    assert why in str(caught.value)
    assert not (tmp_path / "x.jsonl").exists()


def test_a_dataset_that_is_not_awaited_is_told_to_be(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="async def"):
        prepare(odd("SyncDataset"), tmp_path / "x.jsonl")


@pytest.mark.parametrize(
    "more", [{"split": "test"}, {"max_examples": 0}, {"base_dir": "no/such"}, {"rows": 3}, {"environment": {}}]
)
def test_wrong_arguments_are_named(tmp_path: Path, more: JsonObject) -> None:
    with pytest.raises(ConfigError, match="prepare_args"):
        prepare(odd("Plain") | more, tmp_path / "x.jsonl")


async def test_rows_can_be_made_where_a_loop_runs(tmp_path: Path) -> None:
    assert len(rows_of(prepare(odd("Plain"), tmp_path / "x.jsonl"))) == 3


@pytest.mark.parametrize("class_path", ["dot_memory_env:DotMemoryEnv", "ledger_env:LedgerEnv"])
def test_the_examples_make_the_same_rows_again(tmp_path: Path, class_path: str) -> None:
    args: JsonObject = {"environment": {"class_path": class_path, "import_paths": [EXAMPLES]}}
    first, second = (prepare(args, tmp_path / name / "x.jsonl") for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert fingerprint(args) == fingerprint(args)
    assert len(list(read_dataset(first))) == 24
    assert (INSTALL_DIR / EXAMPLES).is_dir()
