"""Where the pictures of a conversation stand in its token ids: runs of placeholders, checked against the pictures.

Models of the Qwen kind lay a picture out in a grid: its sides, rounded to whole placeholders; a picture with more than
the most, or fewer than the fewest, is scaled until it fits, its aspect kept. Others take one number for every picture.
Models that break a picture's run (a token at the end of each row) are not read: their runs do not match.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from PIL import Image

from gym_core.capture.token_table import Ids
from gym_core.types.model_call import ImageTokens

MAX_PIXELS = 128_000_000
"""Of a picture whose size is believed: its header is all that is read."""
_SLACK = 1 + 1e-9
"""For what floating point takes away."""
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")


class ImageProblem(StrEnum):
    """Why a sequence with pictures cannot be trained."""

    MISSING = "image_missing"
    """The size of a picture is not known: its file is not here, is damaged, or is no picture."""
    SAMPLED = "sampled_image_placeholder"
    """The policy sampled a placeholder: a trainer would count one picture too many."""
    MISMATCH = "image_placeholders_mismatch"
    """The runs of placeholders are not those that the pictures need, in number, length or shape."""


@dataclass(frozen=True)
class Picture:
    sha256: str
    width: int
    """Pixels of the file as it was sent."""
    height: int


@dataclass(frozen=True)
class ImagePlace:
    """The placeholders of one picture."""

    offset: int
    """Of the first one in the token ids."""
    length: int
    grid_hw: tuple[int, int] | None
    """Placeholders down and across; None for models without a grid, or when no grid fits."""


@dataclass(frozen=True)
class Placement:
    places: tuple[ImagePlace | None, ...]
    """One to each picture, in order; None where it could not be told."""
    problem: ImageProblem | None
    """None: every picture is in its place."""


@dataclass(frozen=True)
class _Run:
    offset: int
    length: int


def place_images(
    token_ids: Ids,
    pictures: Sequence[Picture | None],
    tokens: ImageTokens,
    *,
    sampled: Sequence[tuple[int, int]] = (),
) -> Placement:
    """Placeholders of each picture in T token ids. O(T).

    `pictures` in the order of the messages, repeats included; None for one whose size is not known. `sampled` are the
    half-open spans that the policy sampled: placeholders in them belong to no picture.
    """
    is_placeholder = token_ids == tokens.token_id
    n_all = np.count_nonzero(is_placeholder)
    for start, end in sampled:
        is_placeholder[start:end] = False
    runs = list(_runs(is_placeholder))
    places, fits = _place(runs, pictures, tokens)
    problem = None
    if not fits:
        problem = ImageProblem.MISMATCH
    if np.count_nonzero(is_placeholder) != n_all:
        problem = ImageProblem.SAMPLED
    if None in pictures:
        problem = ImageProblem.MISSING
    return Placement(places, problem)


def read_size(path: Path) -> tuple[int, int]:
    """(width, height) in pixels from a picture's header; no pixel is decoded. Raises OSError and ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a large picture, which is never decoded here, and of odd metadata
        try:
            with Image.open(path, formats=_FORMATS) as image:
                width, height = image.size
        except (Image.DecompressionBombError, SyntaxError, OverflowError) as error:
            raise ValueError(f"picture {path.name}: {error}") from error
    if not 0 < width * height <= MAX_PIXELS:
        raise ValueError(f"picture {path.name}: {width}x{height} pixels")
    return width, height


def _runs(is_placeholder: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Iterator[_Run]:
    edges = np.flatnonzero(np.diff(is_placeholder.astype(np.int8), prepend=0, append=0))
    for start, end in edges.reshape(-1, 2).tolist():
        yield _Run(start, end - start)


def _place(
    runs: Sequence[_Run], pictures: Sequence[Picture | None], tokens: ImageTokens
) -> tuple[tuple[ImagePlace | None, ...], bool]:
    """Places, and whether all of them are as the pictures need."""
    if len(runs) < len(pictures):
        runs = _split(runs, pictures, tokens)
    if len(runs) != len(pictures):
        return (None,) * len(pictures), False
    fits = True
    places = []
    lengths: dict[str, int] = {}
    for run, picture in zip(runs, pictures, strict=True):
        grid = None
        if picture is not None:
            grid = find_grid(picture, run.length, tokens)
            fits = fits and _has_right_length(run.length, grid, tokens)
            fits = fits and lengths.setdefault(picture.sha256, run.length) == run.length
        places.append(ImagePlace(run.offset, run.length, grid))
    return tuple(places), fits


def _has_right_length(length: int, grid: tuple[int, int] | None, tokens: ImageTokens) -> bool:
    if tokens.side_px is not None:
        return grid is not None
    return tokens.min_tokens is None or tokens.min_tokens != tokens.max_tokens or length == tokens.min_tokens


def _split(runs: Sequence[_Run], pictures: Sequence[Picture | None], tokens: ImageTokens) -> list[_Run]:
    """Runs of pictures that stand side by side with nothing between; none when the lengths do not come out even."""
    found: list[_Run] = []
    waiting = list(reversed(pictures))
    for run in runs:
        offset, end = run.offset, run.offset + run.length
        while offset < end:
            length = _expected_length(waiting.pop() if waiting else None, tokens)
            if length is None or offset + length > end:
                return []
            found.append(_Run(offset, length))
            offset += length
    return found


def _expected_length(picture: Picture | None, tokens: ImageTokens) -> int | None:
    """Placeholders of a picture, where that is sure; None where it is not."""
    if tokens.min_tokens is not None and tokens.min_tokens == tokens.max_tokens:
        return tokens.min_tokens
    if picture is None or tokens.side_px is None:
        return None
    rows, columns = _rounded(picture, tokens.side_px)
    is_sure = (tokens.min_tokens or 0) <= rows * columns <= (tokens.max_tokens or rows * columns)
    return rows * columns if is_sure else None


def find_grid(picture: Picture, length: int, tokens: ImageTokens) -> tuple[int, int] | None:
    """(down, across) of the grid in which a picture takes `length` placeholders; None when there is no such grid.

    The least and the most that `tokens` names were seen with some picture, so they may be a little inside the true
    bounds: a picture between them is not scaled, and one beyond them may be. Of several grids of a scaled picture it
    is the one with the nearest aspect.
    """
    if tokens.side_px is None or length < 1:
        return None
    rows, columns = _rounded(picture, tokens.side_px)
    if rows * columns == length:
        return rows, columns
    down = length < rows * columns and (tokens.max_tokens is None or rows * columns > tokens.max_tokens)
    up = length > rows * columns and (tokens.min_tokens is None or rows * columns < tokens.min_tokens)
    if not down and not up:
        return None
    fitting = [
        grid
        for grid in _grids(length)
        if _is_scaled(picture, grid, tokens.min_tokens if up else tokens.max_tokens, up=up)
    ]
    aspect = picture.height / picture.width
    return min(fitting, key=lambda grid: abs(math.log(grid[0] / grid[1] / aspect)), default=None)


def _rounded(picture: Picture, side_px: int) -> tuple[int, int]:
    # Python's round, as the processors of these models do it: a half goes to the even neighbour.
    return max(1, round(picture.height / side_px)), max(1, round(picture.width / side_px))


def _grids(length: int) -> Iterator[tuple[int, int]]:
    for rows in range(1, math.isqrt(length) + 1):
        if length % rows == 0:
            yield rows, length // rows
            if rows * rows != length:
                yield length // rows, rows


def _is_scaled(picture: Picture, grid: tuple[int, int], bound: int | None, *, up: bool) -> bool:
    """Whether one scale brings both sides to the grid: rounded up when it was enlarged, down when it was reduced.

    The scale makes the area just the true bound, which is not below the most and not above the least that was seen.
    """
    low, high = 0.0, math.inf
    if bound is not None:
        seen = math.sqrt(bound / (picture.width * picture.height))
        low, high = (0.0, seen * _SLACK) if up else (seen / _SLACK, math.inf)
    for side, count in zip((picture.height, picture.width), grid, strict=True):
        # Enlarged: count - 1 < scale * side <= count. Reduced: count <= scale * side < count + 1, but one at least.
        first, last = (count - 1, count) if up else (count if count > 1 else 0, count + 1)
        low, high = max(low, first / side), min(high, last / side)
    return low <= high if bound is not None else low < high
