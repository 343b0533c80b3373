"""A file that grows is read on from where one stopped; what is damaged or not whole yet never stops a reader."""

from pathlib import Path

import pytest

from gym_core.rollout.sink import encode_line
from gym_core.viewer import follow
from gym_core.viewer.follow import FollowedFile, Line


def _lines(*numbers: int) -> bytes:
    return b"".join(encode_line({"n": number}) for number in numbers)


def _read(file: FollowedFile) -> list[bytes]:
    read: list[Line] = []
    file.read_on(read.append, lambda: None)
    return [line.content[:7] for line in read]


def test_each_line_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    file = FollowedFile(path)
    assert _read(file) == []  # not there yet
    path.write_bytes(_lines(1, 2))
    assert _read(file) == [b'{"n":1,', b'{"n":2,']
    with path.open("ab") as writer:
        writer.write(_lines(3))
    assert _read(file) == [b'{"n":3,']
    assert _read(file) == []


def test_a_torn_last_line_waits_for_its_rest(tmp_path: Path) -> None:
    path, line = tmp_path / "x.jsonl", _lines(2)
    path.write_bytes(_lines(1) + line[:9])
    file = FollowedFile(path)
    assert _read(file) == [b'{"n":1,']
    assert file.torn_bytes == 9
    with path.open("ab") as writer:
        writer.write(line[9:])
    assert _read(file) == [b'{"n":2,']
    assert (file.torn_bytes, file.damaged_lines) == (0, [])


def test_a_damaged_line_is_counted_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(_lines(1) + _lines(2).replace(b'"n":2', b'"n":7') + b"not json\n" + _lines(4))
    file = FollowedFile(path)
    assert _read(file) == [b'{"n":1,', b'{"n":4,']
    assert file.damaged_lines == [2, 3]


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_file_that_was_replaced_or_cut_is_read_anew(tmp_path: Path, is_replaced: bool) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(_lines(1, 2, 3))
    file = FollowedFile(path)
    assert len(_read(file)) == 3
    if is_replaced:
        other = tmp_path / "y"
        other.write_bytes(_lines(7, 8, 9, 10))
        other.replace(path)
    else:
        path.write_bytes(_lines(7))
    forgotten: list[int] = []
    read: list[Line] = []
    file.read_on(read.append, lambda: forgotten.append(len(read)))
    assert read[0].content.startswith(b'{"n":7,')
    assert forgotten == [0]
    assert file.generation == 1


def test_a_line_too_long_to_hold_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "MAX_LINE_BYTES", 64)
    path = tmp_path / "x.jsonl"
    path.write_bytes(_lines(1) + encode_line({"text": "x" * 500}) + _lines(2))
    file = FollowedFile(path)
    assert _read(file) == [b'{"n":1,', b'{"n":2,']
    assert file.damaged_lines == [2]


def test_a_line_that_is_not_there_any_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(_lines(1))
    file = FollowedFile(path)
    read: list[Line] = []
    file.read_on(read.append, lambda: None)
    (line,) = read
    assert file.read_at(line.offset, len(line.content)) == line.content
    path.write_bytes(_lines(2)[1:] + b" ")
    with pytest.raises(ValueError, match="replaced"):
        file.read_at(line.offset, len(line.content))


def test_a_line_that_its_reader_does_not_understand_counts_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(_lines(1, 2, 3))
    read: list[Line] = []

    def take(line: Line) -> None:
        if b'"n":2' in line.content:
            raise ValueError("two")
        read.append(line)

    file = FollowedFile(path)
    file.read_on(take, read.clear)
    assert len(read) == 2
    assert file.damaged_lines == [2]
