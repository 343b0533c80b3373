"""Long strings cut out of a body: what is read is what came."""

import json
import random

import msgspec
import pytest

from gym_core.servers.model.long_strings import Allowance, LongStrings
from gym_core.servers.model.request import parse

LONG = "QUJD" * 20_000


def cut_and_whole(strings: LongStrings, body: bytes) -> bytes:
    cut = strings.cut(body)
    return body if cut is None else strings.whole(cut.body)


@pytest.mark.parametrize("n", [1, 16 << 10, 32 << 10, 100_000])
def test_a_string_of_any_length_comes_back_as_it_was(n: int) -> None:
    strings = LongStrings(Allowance())
    for text in ("a" * n, "b" * n, "a" * n):
        body = json.dumps({"messages": [{"role": "user", "content": text}, {"x": text[1:]}]}).encode()
        assert cut_and_whole(strings, body) == body


def test_a_string_of_twice_the_stride_is_cut_wherever_it_lies() -> None:
    strings = LongStrings(Allowance())
    for offset in range(0, 40_000, 1111):
        cut = strings.cut(json.dumps(["x" * 10] * (offset // 14) + ["y" * (32 << 10)]).encode())
        assert cut is not None
        assert len(cut.spans) == 1


def test_a_body_cut_reads_as_the_body_itself() -> None:
    strings = LongStrings(Allowance())
    content = [{"type": "image_url", "image_url": {"url": LONG + ending}} for ending in ("A", "B", "A", '"\\', "é")]
    messages = [{"role": "user", "content": said} for said in ("a", content, "b", content[:1], "\x7f")]
    body = json.dumps({"messages": messages, "seed": 1}, ensure_ascii=False).encode()
    cut = strings.cut(body)
    assert cut is not None
    assert len(cut.body) < len(body) / 2
    raws, cut_raws = parse(body)[0].messages, parse(cut.body)[0].messages
    assert [strings.whole(bytes(raw)) for raw in cut_raws] == [bytes(raw) for raw in raws]
    assert [bytes(raw) for raw in strings.places(body, cut, cut_raws)] == [bytes(raw) for raw in raws]


@pytest.mark.parametrize("body", [b'{"a": ' + b"1" * 99_000 + b"}", b"[" + b" " * 99_000 + b"]", b"x" * 99_000])
def test_what_lies_in_no_string_has_no_name_that_parses(body: bytes) -> None:
    for around in (b"%b", b'["a", %b, "b"]'):
        cut = LongStrings(Allowance()).cut(around % body)
        if cut is not None:
            with pytest.raises(msgspec.DecodeError):
                msgspec.json.decode(cut.body)


def test_two_strings_alike_in_length_and_at_the_places_looked_at_are_two() -> None:
    strings = LongStrings(Allowance())
    bodies = [b'["%b%c%b"]' % (LONG[:30_000].encode(), letter, LONG.encode()) for letter in b"AB"]
    assert [cut_and_whole(strings, body) for body in bodies * 2] == bodies * 2


def test_past_the_allowance_strings_stay_and_a_closed_session_makes_room() -> None:
    allowance = Allowance(len(LONG) + 10)
    first, second = LongStrings(allowance), LongStrings(allowance)
    body = json.dumps([LONG]).encode()
    assert first.cut(body) is not None
    assert second.cut(body) is None
    first.close()
    assert second.cut(body) is not None


def test_another_sessions_name_stands_for_nothing() -> None:
    one, other = LongStrings(Allowance()), LongStrings(Allowance())
    cut = one.cut(json.dumps([LONG]).encode())
    assert cut is not None
    assert other.whole(cut.body) == cut.body
    assert other.count(cut.body) == 0


def test_random_bodies_come_back_as_they_were() -> None:
    rng = random.Random(7)
    strings = LongStrings(Allowance())
    for _ in range(200):
        pieces = [rng.choice([b'"', b"\\", b'"', b"\x7f", b"a" * rng.randrange(60_000), b"\xc3"]) for _ in range(12)]
        body = b"".join(pieces)
        assert cut_and_whole(strings, body) == body


def test_strings_are_found_in_any_order_and_where_one_begins_another() -> None:
    strings, rng = LongStrings(Allowance()), random.Random(3)
    texts = [LONG, LONG + "x", "y" + LONG, LONG[:-1]]
    for _ in range(50):
        said = rng.choices(texts, k=rng.randrange(1, 6))
        body = json.dumps({"messages": said}).encode()
        cut = strings.cut(body)
        assert cut is not None
        assert [end - start for start, end in cut.spans] == list(map(len, said))
        assert strings.whole(cut.body) == body
