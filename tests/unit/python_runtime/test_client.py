"""The client's own bounds, on bytes that the model's code may have written."""

import os
import random

import pytest

from gym_core.servers.python_runtime.client import HEAD, MAX_NOTES, Answer, Output, born, family


def frame(kind: bytes, content: bytes = b"") -> bytes:
    return HEAD.pack(kind, len(content)) + content


WHOLE = frame(b"o", b"raised") + frame(b"t", b"Traceback") + frame(b"i", b"png") + frame(b"n", b"note") + frame(b"e")


def answer(max_images: int = 2, max_images_bytes: int = 100) -> Answer:
    return Answer(max_images=max_images, max_images_bytes=max_images_bytes)


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
def test_an_answer_is_read_however_it_is_cut(step: int) -> None:
    found = answer()
    for start in range(0, len(WHOLE), step):
        assert not found.has_ended
        found.add(WHOLE[start : start + step])
    assert (found.has_ended, found.is_broken) == (True, False)
    assert (found.outcome, found.traceback, found.images, found.notes) == ("raised", b"Traceback", [b"png"], ["note"])


@pytest.mark.parametrize(
    "content",
    [
        b"garbage, longer than a head",
        frame(b"o", b"perfect"),
        frame(b"e"),
        frame(b"x"),
        HEAD.pack(b"t", 1 << 60),
        frame(b"i", b"x" * 101),
        frame(b"i", b"x" * 60) + frame(b"i", b"x" * 60),
        frame(b"i") * 3,
        frame(b"n") * (MAX_NOTES + 1),
    ],
)
def test_what_breaks_the_rules_is_no_answer(content: bytes) -> None:
    found = answer()
    found.add(content)
    assert (found.has_ended, found.is_broken) == (False, True)


def test_random_bytes_never_end_well_and_are_not_kept() -> None:
    rng = random.Random(5)
    for _ in range(300):
        found = answer()
        found.add(rng.randbytes(rng.randrange(9, 200)))
        assert not found.has_ended


def test_output_keeps_its_beginning_and_its_end() -> None:
    output = Output(20)
    for number in range(1000):
        output.add(b"%03d " % number)
    assert output.fields() == {"head": "000 001 00", "tail": "7 998 999 ", "dropped_bytes": 3980}


def test_output_that_fits_is_whole_and_a_character_across_its_halves_too() -> None:
    output = Output(20)
    output.add("123456789ü123456789".encode())
    assert output.fields() == {"head": "123456789ü123456789", "tail": "", "dropped_bytes": 0}


def test_a_process_is_known_by_when_it_was_born_and_nobody_elses_is_touched() -> None:
    """What is found is killed, so nothing may be found by chance."""
    me = os.getpid()
    assert family([]) == {}
    assert family([{"token": "no-such-token", "leader": 0, "born": 0}]) == {}
    assert family([{"token": "no-such-token", "leader": 1, "born": born(1) + 1}]) == {}
    assert born(me) > 0
    assert born(2**22 + 1) == 0
