"""Placeholders of pictures found in token ids."""

import io
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gym_core.capture.placeholders import ImagePlace, ImageProblem, Picture, find_grid, place_images, read_size
from gym_core.capture.token_table import Ids
from gym_core.types.model_call import ImageTokens

PAD, START, END = 9, 7, 8
GRID = ImageTokens(token_id=PAD, side_px=32, min_tokens=4, max_tokens=16)
UNBOUNDED = ImageTokens(token_id=PAD, side_px=32)
FIXED = ImageTokens(token_id=PAD, min_tokens=3, max_tokens=3)
UNKNOWN = ImageTokens(token_id=PAD)

RED, BLUE = Picture("red", 96, 64), Picture("blue", 64, 64)


def ids(*pads: int, between: tuple[int, ...] = (END, START)) -> Ids:
    """Text, then runs of placeholders of these lengths, then text."""
    found = [1, 2, START]
    for n in pads:
        found += [PAD] * n + list(between)
    return np.array([*found, 3], np.int32)


def smart_resize(picture: Picture, tokens: ImageTokens) -> tuple[int, int]:
    """The rule of Qwen's processors, in pixels as they state it."""
    assert tokens.side_px
    assert tokens.min_tokens
    assert tokens.max_tokens
    factor, least, most = tokens.side_px, tokens.min_tokens * tokens.side_px**2, tokens.max_tokens * tokens.side_px**2
    height, width = picture.height, picture.width
    h, w = max(factor, round(height / factor) * factor), max(factor, round(width / factor) * factor)
    if h * w > most:
        beta = math.sqrt(height * width / most)
        h = max(factor, math.floor(height / beta / factor) * factor)
        w = max(factor, math.floor(width / beta / factor) * factor)
    elif h * w < least:
        beta = math.sqrt(least / (height * width))
        h, w = math.ceil(height * beta / factor) * factor, math.ceil(width * beta / factor) * factor
    return h // factor, w // factor


def test_each_picture_has_its_run() -> None:
    placement = place_images(ids(6, 4), [RED, BLUE], GRID)
    assert placement.places == (ImagePlace(3, 6, (2, 3)), ImagePlace(11, 4, (2, 2)))
    assert placement.problem is None


def test_a_sequence_without_pictures_has_no_placeholders() -> None:
    assert place_images(ids(), [], GRID).problem is None
    assert place_images(ids(4), [], GRID).problem is ImageProblem.MISMATCH
    assert place_images(ids(), [BLUE], GRID).places == (None,)


@pytest.mark.parametrize(
    ("pads", "pictures", "tokens"),
    [
        ((6,), [RED, BLUE], GRID),
        ((6, 4, 4), [RED, BLUE], GRID),
        ((5,), [RED], GRID),
        ((4, 6), [RED, BLUE], GRID),
        ((4,), [Picture("p", 2000, 20)], GRID),
        ((3, 4), [RED, BLUE], FIXED),
        ((3, 4), [RED, RED], UNKNOWN),
    ],
)
def test_runs_that_are_not_the_pictures_own_are_told(
    pads: tuple[int, ...], pictures: list[Picture], tokens: ImageTokens
) -> None:
    assert place_images(ids(*pads), pictures, tokens).problem is ImageProblem.MISMATCH


def test_models_without_a_grid_are_checked_by_number_alone() -> None:
    assert place_images(ids(3, 3), [RED, BLUE], FIXED).places == (ImagePlace(3, 3, None), ImagePlace(8, 3, None))
    assert place_images(ids(5, 7), [RED, BLUE], UNKNOWN).problem is None


@pytest.mark.parametrize(("tokens", "lengths"), [(GRID, (6, 4, 6)), (FIXED, (3, 3, 3))])
def test_pictures_with_nothing_between_them_are_told_apart(tokens: ImageTokens, lengths: tuple[int, ...]) -> None:
    placement = place_images(ids(*lengths, between=()), [RED, BLUE, RED], tokens)
    assert [place.length for place in placement.places if place] == list(lengths)
    assert [place.offset for place in placement.places if place] == [3, 3 + lengths[0], 3 + lengths[0] + lengths[1]]
    assert placement.problem is None
    assert place_images(ids(*lengths, 1, between=()), [RED, BLUE, RED], tokens).problem is ImageProblem.MISMATCH


def test_pictures_side_by_side_whose_lengths_are_not_sure_are_not_guessed() -> None:
    assert place_images(ids(6, 4, between=()), [RED, BLUE], UNKNOWN).places == (None, None)


def test_a_sampled_placeholder_is_told_and_belongs_to_no_picture() -> None:
    tokens = ids(6, 1)
    placement = place_images(tokens, [RED], GRID, sampled=[(11, 12)])
    assert (placement.places, placement.problem) == ((ImagePlace(3, 6, (2, 3)),), ImageProblem.SAMPLED)
    assert place_images(tokens, [RED], GRID, sampled=[(12, 14)]).problem is ImageProblem.MISMATCH
    assert (tokens == PAD).sum() == 7, "the ids are left as they are"


def test_a_picture_of_unknown_size_is_told_and_the_others_are_placed() -> None:
    placement = place_images(ids(6, 4), [None, BLUE], GRID)
    assert placement.places == (ImagePlace(3, 6, None), ImagePlace(11, 4, (2, 2)))
    assert placement.problem is ImageProblem.MISSING


@given(
    st.integers(8, 4000),
    st.integers(8, 4000),
    st.integers(1, 64),
    st.integers(64, 1024),
    st.booleans(),
)
def test_any_picture_is_where_the_processors_put_it(
    width: int, height: int, least: int, most: int, known: bool
) -> None:
    if max(width, height) > 200 * min(width, height):
        return
    picture = Picture("p", width, height)
    rows, columns = smart_resize(picture, ImageTokens(token_id=PAD, side_px=32, min_tokens=least, max_tokens=most))
    told = ImageTokens(token_id=PAD, side_px=32, min_tokens=least, max_tokens=most) if known else UNBOUNDED
    grid = find_grid(picture, rows * columns, told)
    assert grid is not None
    assert grid[0] * grid[1] == rows * columns


def test_a_grid_that_no_scale_of_the_picture_gives_is_none() -> None:
    wide = Picture("p", 3200, 320)
    assert find_grid(Picture("p", 3200, 3200), 7, UNBOUNDED) is None
    assert find_grid(wide, 1000, UNBOUNDED) == (10, 100)
    assert find_grid(wide, 12, GRID) == (1, 12)
    assert find_grid(wide, 6, GRID) is None, "so few that the most would not be used"
    assert find_grid(Picture("p", 64, 64), 9, GRID) is None, "between the bounds nothing is scaled"
    assert find_grid(Picture("p", 64, 64), 0, GRID) is None


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_the_size_of_a_picture_is_read_from_its_beginning(tmp_path: Path, kind: str) -> None:
    whole = io.BytesIO()
    Image.new("RGB", (70, 40)).save(whole, kind)
    path = tmp_path / "picture"
    path.write_bytes(whole.getvalue())
    assert read_size(path) == (70, 40)


def test_a_size_beyond_belief_and_no_picture_are_errors(tmp_path: Path) -> None:
    bomb = bytearray(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (60_000).to_bytes(4, "big") * 2 + b"\x08\x02\x00\x00\x00")
    bomb += zlib.crc32(bytes(bomb[12:])).to_bytes(4, "big")
    for name, content in (("bomb", bytes(bomb)), ("text", b"not a picture"), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises((ValueError, OSError)):
            read_size(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_size(tmp_path / "none")
