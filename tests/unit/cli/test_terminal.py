import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_core.cli.terminal import counted, duration, printable, table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\nb\tc", "a b c"),
        ("\x1b[2J\x1b]0;title\x07red", "[2J]0;titlered"),
        ("user\u202egnp.exe", "usergnp.exe"),
        ("zero\u200bwidth", "zerowidth"),
        ("näh 中文", "näh 中文"),
    ],
)
def test_control_characters_do_not_reach_the_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_what_is_printable_moves_no_cursor_and_is_bounded(text: str) -> None:
    shown = printable(text, max_characters=20)
    assert len(shown) <= 23
    assert shown.isprintable()


def test_tables_are_aligned() -> None:
    assert table([("a", "long cell", "x"), ("longer", "b", "")]) == ["  a       long cell  x", "  longer  b"]
    assert table([]) == []


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")])
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_nouns_follow_their_number() -> None:
    assert [counted(count, noun) for noun in ("task", "retry") for count in (0, 1, 2)] == [
        *("0 tasks", "1 task", "2 tasks"),
        *("0 retries", "1 retry", "2 retries"),
    ]
