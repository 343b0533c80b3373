"""Frames by number, exactly, in whatever order they are asked for and whatever the file is."""

from pathlib import Path

import av
import numpy as np
import pytest

from gym_core.datasets.video_reader import Frames, VideoReader

N, RATE = 30, 10
KINDS = [
    ("a.mp4", "libx264", "yuv420p", {"g": "7", "bf": "2"}),
    ("b.mp4", "mpeg4", "yuv420p", {}),
    ("c.mkv", "ffv1", "bgr0", {}),
    ("d.avi", "mpeg4", "yuv420p", {}),
    ("e.gif", "gif", "rgb8", {}),
]


def write_video(
    path: Path, codec: str = "mpeg4", pix_fmt: str = "yuv420p", options: dict[str, str] | None = None, frames: int = N
) -> Path:
    """A grey that rises frame by frame, 32x16 pixels."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=RATE, options=options or {})
        stream.width, stream.height, stream.pix_fmt = 32, 16, pix_fmt
        container.start_encoding()
        for index in range(frames):
            picture = np.full((16, 32, 3), index * 8, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize(("name", "codec", "pix_fmt", "options"), KINDS, ids=[kind[0] for kind in KINDS])
def test_a_frame_is_the_same_whichever_way_it_is_reached(
    tmp_path: Path, name: str, codec: str, pix_fmt: str, options: dict[str, str]
) -> None:
    video = VideoReader(str(write_video(tmp_path / name, codec, pix_fmt, options)))
    assert len(video) == N
    in_order = [frame.asnumpy() for frame in video]
    assert [frame.shape for frame in in_order] == [(16, 32, 3)] * N
    for index, frame in enumerate(in_order):
        assert abs(float(frame.mean()) - index * 8) < 40  # a palette of 256 is coarse
    if codec != "gif":
        assert all(a.mean() < b.mean() for a, b in zip(in_order, in_order[1:], strict=False))
    for index in [29, 0, 13, 12, 14, 6, 7, 8, 28, 1, -1, -30, 20]:
        assert (video[index].asnumpy() == in_order[index]).all()
    asked = [5, 3, 3, 29, -30]
    assert (video.get_batch(asked).asnumpy() == np.stack([in_order[index] for index in asked])).all()
    assert (video[4:10:3].asnumpy() == np.stack([in_order[4], in_order[7]])).all()


def test_it_has_decords_interface(tmp_path: Path) -> None:
    video = VideoReader(str(write_video(tmp_path / "a.mp4", "libx264", options={"g": "10"})), num_threads=2)
    assert video.get_avg_fps() == RATE
    assert video.get_frame_timestamp(3) == pytest.approx([0.3, 0.4])
    assert video.get_frame_timestamp([0, -1]) == pytest.approx(np.array([[0, 0.1], [2.9, 3.0]]))
    assert video.get_frame_timestamp(slice(0, 2)).shape == (2, 2)
    keys = video.get_key_indices()
    assert keys[0] == 0
    assert all(0 < b - a <= 10 for a, b in zip(keys, keys[1:], strict=False))
    video.seek(28)
    assert (video.next() == video[28]).all()
    video.skip_frames(-2)
    assert (video.next() == video[27]).all()
    assert video.get_batch([]).shape == (0, 16, 32, 3)
    video.seek_accurate(29)
    video.next()
    with pytest.raises(StopIteration):
        video.next()
    frame = video[0]
    assert isinstance(frame, Frames)
    assert (type(frame.asnumpy()), type(frame.numpy()), frame.dtype) == (np.ndarray, np.ndarray, np.uint8)
    small = VideoReader(str(tmp_path / "a.mp4"), width=8, height=4)
    assert (small[0].shape, small.get_batch([0, 1]).shape) == ((4, 8, 3), (2, 4, 8, 3))


def test_a_stream_that_says_no_times_is_counted_and_read_all_the_same(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.h264", "libx264", options={"g": "10", "bf": "0"})
    video = VideoReader(str(path))
    assert len(video) == N
    in_order = [frame.asnumpy() for frame in video]
    assert all(a.mean() < b.mean() for a, b in zip(in_order, in_order[1:], strict=False))
    for index in [17, 3, 29, 4]:
        assert (video[index].asnumpy() == in_order[index]).all()
    assert video.get_frame_timestamp(1)[0] > 0


@pytest.mark.parametrize("index", [N, -N - 1, 10**12])
def test_a_frame_that_there_is_not_is_an_index_error(tmp_path: Path, index: int) -> None:
    video = VideoReader(str(write_video(tmp_path / "a.mp4")))
    with pytest.raises(IndexError, match="of a video of 30 frames"):
        video[index]
    with pytest.raises(IndexError):
        video.get_batch([0, index])


def test_files_that_are_no_video_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_bytes(b"no video at all" * 20)
    (tmp_path / "empty.mp4").write_bytes(b"")
    whole = write_video(tmp_path / "whole.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 2])  # its index is at the end
    with av.open(str(tmp_path / "sound.wav"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    write_video(tmp_path / "none.mp4", frames=0)
    for name in ("text.mp4", "empty.mp4", "cut.mp4", "sound.wav", "none.mp4"):
        with pytest.raises(ValueError, match=r"Invalid data|holds no video|holds no frame|End of file"):
            VideoReader(str(tmp_path / name))
