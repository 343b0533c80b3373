"""Frames of a video file by number: `decord.VideoReader`'s interface on PyAV, which is kept up and has wheels.

Models know that interface. This file is also sent into sandboxes and run there, so it imports PyAV, numpy and the
standard library alone. What it opens is untrusted: every mistake in a file is a ValueError (or PyAV's own error, which
is one), and sizes are bounded before a frame is decoded.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import av
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_FRAMES = 1_000_000
"""Of one video: nine hours at 30 frames a second."""
MAX_FRAME_PIXELS = 64_000_000


class Frames(np.ndarray[tuple[int, ...], np.dtype[np.generic]]):
    """An array that answers to decord's `asnumpy` too. One frame is height x width x 3 (RGB), a batch has one more."""

    def asnumpy(self) -> "NDArray[np.generic]":
        return np.asarray(self)

    def numpy(self) -> "NDArray[np.generic]":
        return np.asarray(self)


class _Time(NamedTuple):
    """When a frame is shown, in ticks of the stream."""

    pts: int
    is_key: bool


class VideoReader:
    """Frames by index from 0, negative ones from the end: `len(v)`, `v[i]`, `v[a:b]`, `v.get_batch([...])`.

    `width` and `height` scale every frame, -1 leaves it. `ctx` and `num_threads` are taken and mean nothing here. The
    whole file is looked through once when it is opened, without decoding. Raises ValueError for what is no video or
    holds no frame.
    """

    def __init__(self, uri: str, ctx: object = None, width: int = -1, height: int = -1, num_threads: int = 0) -> None:
        self._uri = str(uri)
        self._container = av.open(self._uri)
        if not self._container.streams.video:
            raise ValueError(f"{self._uri}: holds no video")
        self._stream = self._container.streams.video[0]
        self.width = width if width > 0 else self._stream.width
        self.height = height if height > 0 else self._stream.height
        if not 0 < self._stream.width * self._stream.height <= MAX_FRAME_PIXELS:
            raise ValueError(f"{self._uri}: frames of {self._stream.width}x{self._stream.height} pixels")
        self._times = self._read_times()
        self._length = len(self._times) or self._count_frames()
        if self._length == 0:
            raise ValueError(f"{self._uri}: holds no frame")
        self._frames: Iterator[av.VideoFrame] | None = None
        self._next = 0
        """Number of the frame that `_frames` gives next."""
        self._position = 0
        """Of `next()`."""

    # -- decord's interface -------------------------------------------------

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int | slice) -> Frames:
        if isinstance(index, slice):
            return self.get_batch(range(*index.indices(len(self))))
        return self._picture(self._checked(index)).view(Frames)

    def __iter__(self) -> Iterator[Frames]:
        return (self[index] for index in range(len(self)))

    def next(self) -> Frames:
        """The frame after the last `next()` or at the last `seek()`. Raises StopIteration at the end."""
        if self._position >= len(self):
            raise StopIteration
        self._position += 1
        return self[self._position - 1]

    def seek(self, pos: int) -> None:
        self._position = self._checked(pos)

    seek_accurate = seek

    def skip_frames(self, num: int = 1) -> None:
        self._position += num

    def get_batch(self, indices: Sequence[int]) -> Frames:
        """Any order, repeats too; each frame is decoded once."""
        asked = [self._checked(index) for index in indices]
        if not asked:
            return np.empty((0, self.height, self.width, 3), np.uint8).view(Frames)
        decoded = {index: self._picture(index) for index in sorted(set(asked))}
        return np.stack([decoded[index] for index in asked]).view(Frames)

    def get_avg_fps(self) -> float:
        rate = self._stream.average_rate or self._stream.guessed_rate
        return float(rate) if rate else 0.0

    def get_frame_timestamp(self, idx: "int | slice | Sequence[int]") -> Frames:
        """Start and end of a frame in seconds from the first one's start; a row for each of several."""
        if isinstance(idx, slice):
            idx = range(*idx.indices(len(self)))
        if isinstance(idx, (int, np.integer)):
            return np.array(self._span(self._checked(idx))).view(Frames)
        return np.array([self._span(self._checked(one)) for one in idx]).reshape(-1, 2).view(Frames)

    def get_key_indices(self) -> list[int]:
        """Frames that need no other one to be decoded."""
        return [index for index, time in enumerate(self._times) if time.is_key] or [0]

    # -- how it is done -----------------------------------------------------

    def _checked(self, index: int) -> int:
        at = int(index)
        if not -len(self) <= at < len(self):
            raise IndexError(f"frame {at} of a video of {len(self)} frames")
        return at % len(self)

    def _span(self, index: int) -> tuple[float, float]:
        step = 1 / (self.get_avg_fps() or 1.0)
        base = self._stream.time_base
        if not self._times or base is None:
            return index * step, (index + 1) * step
        start = float((self._times[index].pts - self._times[0].pts) * base)
        if index + 1 == len(self):
            return start, start + step
        return start, float((self._times[index + 1].pts - self._times[0].pts) * base)

    def _read_times(self) -> list[_Time]:
        """Of every frame in the order in which they are shown; none where the file does not say them all."""
        times: list[_Time] = []
        is_timed = True
        for packet in self._container.demux(self._stream):
            if packet.size == 0 or packet.is_discard:
                continue
            if len(times) >= MAX_FRAMES:
                raise ValueError(f"{self._uri}: more than {MAX_FRAMES} frames")
            is_timed = is_timed and packet.pts is not None
            times.append(_Time(packet.pts or 0, packet.is_keyframe))
        times.sort()
        is_timed = is_timed and all(a.pts < b.pts for a, b in zip(times, times[1:], strict=False))
        self._keys = [index for index, time in enumerate(times) if time.is_key] if is_timed else []
        return times if is_timed else []

    def _count_frames(self) -> int:
        count = 0
        with av.open(self._uri) as container:
            for _ in container.decode(video=0):
                count += 1
                if count > MAX_FRAMES:
                    raise ValueError(f"{self._uri}: more than {MAX_FRAMES} frames")
        return count

    def _picture(self, index: int) -> "NDArray[np.uint8]":
        frame = self._frame(index)
        return np.asarray(frame.to_ndarray(format="rgb24", width=self.width, height=self.height), np.uint8)

    def _frame(self, index: int) -> av.VideoFrame:
        if not self._is_ahead(index):
            self._go_before(index)
        frame = self._walk_to(index)
        if frame is None and self._times:  # a file whose index of key frames is wrong: from its beginning, then
            self._restart()
            frame = self._walk_to(index)
        if frame is None:
            raise ValueError(f"{self._uri}: frame {index} cannot be decoded")
        return frame

    def _is_ahead(self, index: int) -> bool:
        """Whether going on from here is the shortest way."""
        if self._frames is None or index < self._next:
            return False
        return not self._keys or self._keys[max(0, bisect_right(self._keys, index) - 1)] <= self._next

    def _go_before(self, index: int) -> None:
        """To the last key frame that is not after it."""
        at = bisect_right(self._keys, index) - 1
        if at < 0 or self._keys[at] == 0:
            self._restart()
            return
        self._next = self._keys[at]
        self._container.seek(self._times[self._next].pts, stream=self._stream, backward=True)
        self._frames = self._container.decode(self._stream)

    def _restart(self) -> None:
        self._container.close()
        self._container = av.open(self._uri)
        self._stream = self._container.streams.video[0]
        self._frames, self._next = self._container.decode(self._stream), 0

    def _walk_to(self, index: int) -> av.VideoFrame | None:
        """None where it does not come: the walk is over then."""
        wanted = self._times[index].pts if self._times else None
        for frame in self._frames or ():
            if wanted is None:
                self._next += 1
                if self._next == index + 1:
                    return frame
            elif frame.pts is not None and frame.pts >= wanted:
                self._next = index + 1
                if frame.pts == wanted:
                    return frame
                break
        self._frames = None
        return None
