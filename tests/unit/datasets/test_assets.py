"""The assets folder, and messages that name pictures by their hash."""

import base64
import hashlib
from pathlib import Path

import pytest

from gym_core.capture.images import (
    MAX_IMAGE_BYTES,
    AssetStore,
    externalize,
    image_urls,
    inline,
    make_data_url,
    parse_data_url,
)
from gym_core.errors import InvalidTask
from gym_core.types.responses import (
    FunctionCallOutput,
    InputImage,
    InputMessage,
    InputText,
    OutputMessage,
    OutputText,
    ResponsesBody,
    ResponsesReply,
)

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
JPEG = b"\xff\xd8\xff\xe0" + b"pixels"


@pytest.fixture
def store(tmp_path: Path) -> AssetStore:
    return AssetStore(tmp_path / "X_assets")


def body_with(*urls: str) -> ResponsesBody:
    parts = [InputImage(image_url=url) for url in urls]
    return ResponsesBody(input=[InputMessage(role="user", content=[*parts, InputText(text="how many?")])])


def test_an_image_is_kept_once_under_its_hash(store: AssetStore) -> None:
    sha256 = store.put(PNG)
    assert sha256 == hashlib.sha256(PNG).hexdigest()
    first = store.path(sha256).stat()
    assert store.put(PNG) == sha256
    assert store.path(sha256).stat().st_ino == first.st_ino
    assert [file.name for file in store.folder.iterdir()] == [sha256]
    assert store.get(sha256) == PNG
    assert store.data_url(sha256) == "data:image/png;base64," + base64.b64encode(PNG).decode()


def test_a_short_file_left_by_a_power_cut_is_noticed_and_mended(store: AssetStore) -> None:
    sha256 = store.put(PNG)
    store.path(sha256).write_bytes(b"")
    with pytest.raises(ValueError, match="does not have the content"):
        store.get(sha256)
    store.put(PNG)
    assert store.get(sha256) == PNG


def test_a_missing_image_and_a_name_that_is_no_hash_are_errors(store: AssetStore) -> None:
    with pytest.raises(FileNotFoundError):
        store.get("0" * 64)
    for name in ("../secret", "", "A" * 64, "0" * 64 + "\n"):
        with pytest.raises(ValueError, match="not a SHA-256"):
            store.get(name)


def test_messages_lose_their_bytes_and_get_them_back(store: AssetStore) -> None:
    body = body_with(make_data_url(PNG), make_data_url(JPEG), make_data_url(PNG))
    stored = externalize(body, store)
    assert all(url.startswith("sha256:") for url in image_urls(stored))
    assert len(list(store.folder.iterdir())) == 2
    assert externalize(stored, store) == stored
    assert inline(stored, store) == body
    assert inline(body, store) == body


def test_pictures_that_tools_returned_are_found_in_a_reply(store: AssetStore) -> None:
    reply = ResponsesReply(
        id="r",
        created_at=0.0,
        status="completed",
        output=[
            FunctionCallOutput(call_id="1", output=[InputImage(image_url=make_data_url(PNG))]),
            FunctionCallOutput(call_id="2", output="plain"),
            OutputMessage(id="m", content=[OutputText(text="3")]),
        ],
    )
    stored = externalize(reply, store)
    assert image_urls(stored) == ["sha256:" + hashlib.sha256(PNG).hexdigest()]
    assert inline(stored, store) == reply


def test_a_media_type_is_what_the_bytes_say(store: AssetStore) -> None:
    wrong = "data:image/None;base64," + base64.b64encode(JPEG).decode()
    assert image_urls(inline(externalize(body_with(wrong), store), store)) == [make_data_url(JPEG)]


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/a.png",
        "file:///etc/passwd",
        "/etc/passwd",
        "data:image/png,abc",
        "data:text/html;base64,aGk=",
        "data:image/png;charset=x;base64,aGk=",
        "data:image/png;base64,a b=",
        "data:image/png;base64,abc",
        "sha256:../../etc/passwd",
        "sha256:" + "g" * 64,
    ],
)
def test_any_other_url_is_an_invalid_task_and_nothing_is_fetched(store: AssetStore, url: str) -> None:
    with pytest.raises(InvalidTask):
        externalize(body_with(url), store)
    assert not store.folder.exists()


def test_a_reference_to_an_absent_image_is_an_invalid_task(store: AssetStore) -> None:
    with pytest.raises(InvalidTask, match="FileNotFoundError"):
        inline(body_with("sha256:" + "0" * 64), store)


def test_too_large_an_image_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(ValueError, match="larger than"):
        parse_data_url("data:image/png;base64," + "A" * (MAX_IMAGE_BYTES * 4 // 3 + 8))
