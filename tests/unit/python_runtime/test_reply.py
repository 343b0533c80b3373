"""What came from the sandbox is read once, bounded, and without what a terminal would act upon."""

import base64
import json

import pytest

from gym_core.servers.python_runtime.reply import Reply, without_escapes

PNG = b"\x89PNG\r\n\x1a\n and so on"


def reply(**changes: object) -> Reply:
    fields = {"outcome": "ok", "head": "", "tail": "", "dropped_bytes": 0, "images": [], "notes": [], "is_over": False}
    return Reply.from_json(json.dumps(fields | changes).encode())


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(B\x1b7saved", "saved"),
        ("bell\x07 back\x08 nul\x00 del\x7f csi\x9b", "bell back nul del csi"),
        ("dos\r\nline", "dos\nline"),
        ("progress\r50%\r100%", "progress\r50%\r100%"),
        ("an open \x1b[", "an open "),
    ],
)
def test_what_a_terminal_would_act_upon_is_left_out(printed: str, shown: str) -> None:
    assert without_escapes(printed) == shown


def test_a_long_text_loses_its_middle_and_says_how_much() -> None:
    text = reply(head="a" * 500 + "b" * 500).text(200)
    assert text == "a" * 100 + "\n[... 800 characters cut ...]\n" + "b" * 100


def test_what_the_client_dropped_counts_as_cut() -> None:
    assert reply(head="a" * 150, tail="b" * 150, dropped_bytes=1000).text(200) == (
        "a" * 100 + "\n[... 1100 characters cut ...]\n" + "b" * 100
    )


def test_a_text_that_fits_is_left_as_it_is() -> None:
    assert reply(head="ab" * 100).text(200) == "ab" * 100


def test_what_is_no_png_or_no_base64_is_no_picture() -> None:
    images = [base64.b64encode(PNG).decode(), base64.b64encode(b"GIF89a").decode(), "%%%", "ü"]
    assert reply(images=images).pictures() == [PNG]


def test_notes_are_one_short_line_each() -> None:
    assert reply(notes=["two\nlines \x1b[1mbold", "x" * 1000]).words() == ["two lines bold", "x" * 300]


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "won"},
        {"dropped_bytes": -1},
        {"images": [""] * 65},
        {"notes": ["n"] * 41},
        {"more": 1},
        {"head": None},
    ],
)
def test_an_answer_of_another_shape_is_none(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        reply(**changes)


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff"])
def test_what_is_no_json_is_no_answer(content: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        Reply.from_json(content)
