"""What a segment file promises: a frame is there whole, was never acknowledged, or the damage is reported."""

import os
import resource
import signal
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_core.capture.segment import SegmentDamaged, SegmentWriter, read_frames


def write(path: Path, *payloads: bytes) -> None:
    writer = SegmentWriter(path)
    for payload in payloads:
        writer.append(payload)
    writer.close()


@given(payloads=st.lists(st.binary(max_size=50), max_size=5))
@settings(max_examples=50)
def test_frames_come_back_in_order(tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("segment") / "s.calls"
    write(path, *payloads)
    assert list(read_frames(path)) == payloads


def test_a_file_cut_at_any_byte_loses_only_what_is_behind_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "s.calls"
    write(path, b"first", b"second")
    whole = path.read_bytes()
    ends = [0, 12 + len(b"first"), len(whole)]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        n_whole = sum(end <= cut for end in ends) - 1
        assert list(read_frames(path)) == [b"first", b"second"][:n_whole]
        write(path, b"after")
        assert list(read_frames(path)) == [*[b"first", b"second"][:n_whole], b"after"]


def test_damage_before_the_last_frame_is_reported_and_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "s.calls"
    write(path, b"first", b"second")
    whole = path.read_bytes()
    for at in range(12 + len(b"first")):
        damaged = bytearray(whole)
        damaged[at] ^= 0x20
        path.write_bytes(damaged)
        with pytest.raises(SegmentDamaged):
            list(read_frames(path))
        with pytest.raises(SegmentDamaged):
            SegmentWriter(path)
        assert path.read_bytes() == damaged


@pytest.mark.parametrize("at_end", [False, True])
def test_a_damaged_length_is_never_taken_for_an_interrupted_write_while_a_frame_follows(
    tmp_path: Path, at_end: bool
) -> None:
    path = tmp_path / "s.calls"
    write(path, b"first", b"second", b"third")
    damaged = bytearray(path.read_bytes())
    second = 12 + len(b"first")
    length = len(damaged) - second - 12 if at_end else 1 << 20  # exactly to the end, or beyond it
    damaged[second + 4 : second + 8] = length.to_bytes(4, "little")
    path.write_bytes(damaged)
    with pytest.raises(SegmentDamaged, match="byte 17"):
        list(read_frames(path))
    with pytest.raises(SegmentDamaged):
        SegmentWriter(path)
    assert path.read_bytes() == damaged


def test_a_file_of_before_is_read_and_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "s.calls"
    old = [struct.pack("<4sII", b"GYC1", len(text), zlib.crc32(text)) + text for text in (b"first", b"second")]
    path.write_bytes(b"".join(old))
    write(path, b"third")
    assert list(read_frames(path)) == [b"first", b"second", b"third"]
    path.write_bytes(old[0] + old[1][:-1])
    write(path, b"after")
    assert list(read_frames(path)) == [b"first", b"after"]
    damaged = bytearray(b"".join(old))
    damaged[6] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(SegmentDamaged):
        SegmentWriter(path)


def test_blocks_of_zeros_after_a_crash_of_the_machine_are_a_torn_end(tmp_path: Path) -> None:
    path = tmp_path / "s.calls"
    write(path, b"first")
    with path.open("ab") as file:
        file.write(bytes(4096))
    assert list(read_frames(path)) == [b"first"]


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path / "s.calls")
    with pytest.raises(BlockingIOError):
        SegmentWriter(tmp_path / "s.calls")
    writer.close()
    SegmentWriter(tmp_path / "s.calls").close()


def test_a_short_write_is_undone_and_raised_and_the_next_one_is_whole(tmp_path: Path) -> None:
    """Where the room ends within a write, the kernel writes a part and raises nothing; so does a file size limit."""
    path = tmp_path / "s.calls"
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            writer = SegmentWriter(path)
            writer.append(b"first")
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
            with pytest.raises(OSError, match="wrote 83 of 512"):
                writer.append(bytes(500))
            with pytest.raises(OSError, match="File too large|wrote"):
                writer.append(bytes(500))
            writer.append(b"fits")
            os._exit(0)
        except BaseException:  # noqa: BLE001 - nothing of the test runner may run in the child
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert list(read_frames(path)) == [b"first", b"fits"]
