"""The JSONL sink keeps what it acknowledged, whatever happens to the file's end."""

import os
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_core.errors import ConfigError, EpisodeError, FailureKind
from gym_core.rollout.sink import DamagedFile, JsonlSink, encode_line, is_intact, read_rows

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    with JsonlSink(path) as sink:
        for row in rows:
            sink.append(row)


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    _write(path, [{"a": 1}, {"a": "zwei\n"}])
    _write(path, [{"a": [3]}])
    assert list(read_rows(path)) == [{"a": 1}, {"a": "zwei\n"}, {"a": [3]}]


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(), _JSON, min_size=1).filter(lambda row: "_gym_crc32" not in row))
def test_a_line_is_intact_and_no_shorter_one_is(row: dict[str, object]) -> None:
    line = encode_line(row)[:-1]
    assert is_intact(line)
    assert not any(is_intact(line[:cut]) for cut in range(len(line)))


@pytest.mark.parametrize("cut", [1, 2, 9, 20, 30])
def test_a_torn_last_line_is_cut_off_and_the_rest_kept(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.jsonl"
    _write(path, [{"n": i, "pad": "x" * 40} for i in range(3)])
    os.truncate(path, path.stat().st_size - cut)
    assert [row["n"] for row in read_rows(path)] == [0, 1]
    _write(path, [{"n": 9}])
    assert [row["n"] for row in read_rows(path)] == [0, 1, 9]


def test_a_torn_only_line_leaves_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"half')
    _write(path, [{"n": 1}])
    assert list(read_rows(path)) == [{"n": 1}]


@pytest.mark.parametrize("content", [b'{"a": 1}\n', b'{"a": 1}', b'{"a": 1}\n{"a": 2}\n'])
def test_a_file_of_somebody_else_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match="_gym_crc32"):
        JsonlSink(path)
    with pytest.raises(DamagedFile, match="no rollout of a run"):
        list(read_rows(path))
    assert path.read_bytes() == content


def test_damage_before_the_last_line_stops_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    _write(path, [{"n": 1}, {"n": 2}, {"n": 3}])
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match=r"x\.jsonl:1"):
        list(read_rows(path))


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with JsonlSink(path), pytest.raises(ConfigError, match="another run"):
        JsonlSink(path)


def test_a_full_disk_refuses_the_row_and_loses_no_other(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with JsonlSink(path) as sink:
        sink.append({"n": 1})
        # The limit lets a part of the next line through, as a full disk does.
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, hard))
        try:
            with pytest.raises(EpisodeError) as refused:
                sink.append({"n": 2, "pad": "x" * 100})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert refused.value.kind is FailureKind.PERSISTENCE_FAILED
        sink.append({"n": 3})
    assert [row["n"] for row in read_rows(path)] == [1, 3]
