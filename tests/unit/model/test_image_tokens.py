"""The placeholder of a picture, told from the ids of prompts that differ in their picture alone."""

import math

import pytest

from gym_core.servers.model.image_tokens import PicturePrompt, find_image_tokens
from gym_core.servers.model.probe_training import PICTURE_SIZES_PX
from gym_core.types.model_call import ImageTokens

PAD, START, END, BREAK = 900, 901, 902, 903
QUESTION = [5, 6, 7, 5, 8]


def qwen(side: int, min_tokens: int, max_tokens: int) -> list[PicturePrompt]:
    """As transformers' `smart_resize` has it."""

    def count(width: int, height: int) -> int:
        w, h = round(width / side) * side, round(height / side) * side
        if w * h > max_tokens * side**2:
            beta = math.sqrt(width * height / (max_tokens * side**2))
            w, h = (math.floor(length / beta / side) * side for length in (width, height))
        elif w * h < min_tokens * side**2:
            beta = math.sqrt(min_tokens * side**2 / (width * height))
            w, h = (math.ceil(length * beta / side) * side for length in (width, height))
        return w * h // side**2

    return [PicturePrompt(size, [*QUESTION, START, *[PAD] * count(*size), END]) for size in PICTURE_SIZES_PX]


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        pytest.param(qwen(28, 4, 16384), ImageTokens(token_id=PAD, side_px=28), id="qwen2_vl"),
        pytest.param(qwen(32, 64, 16384), ImageTokens(token_id=PAD, side_px=32, min_tokens=64), id="qwen3_vl"),
        pytest.param(qwen(28, 4, 64), ImageTokens(token_id=PAD, side_px=28, max_tokens=64), id="tiny qwen2_vl"),
        pytest.param(qwen(32, 4, 64), ImageTokens(token_id=PAD, side_px=32, max_tokens=64), id="tiny qwen3_vl"),
    ],
)
def test_a_grid_is_told_with_its_side_and_where_pictures_are_scaled(
    prompts: list[PicturePrompt], expected: ImageTokens
) -> None:
    assert find_image_tokens(QUESTION, prompts) == expected


def test_rows_that_end_in_a_token_of_their_own_do_not_hide_the_placeholder() -> None:
    prompts = [
        PicturePrompt((w, h), [*QUESTION, *([PAD] * round(w / 16) + [BREAK]) * round(h / 16)])
        for w, h in PICTURE_SIZES_PX
    ]
    found = find_image_tokens(QUESTION, prompts)
    assert found is not None
    assert (found.token_id, found.side_px) == (PAD, 16)


@pytest.mark.parametrize("count", [2, 256, 576])
def test_a_model_that_gives_each_picture_the_same_has_no_grid(count: int) -> None:
    prompts = [PicturePrompt(size, [*QUESTION, START, *[PAD] * count, END]) for size in PICTURE_SIZES_PX]
    expected = ImageTokens(token_id=PAD, min_tokens=count, max_tokens=count)
    assert find_image_tokens(QUESTION, prompts) == expected


def test_counts_of_tiles_are_no_grid() -> None:
    prompts = [
        PicturePrompt(size, [*QUESTION, START, *[PAD] * (256 * tiles), END])
        for size, tiles in zip(PICTURE_SIZES_PX, (1, 3, 3, 5), strict=True)
    ]
    assert find_image_tokens(QUESTION, prompts) == ImageTokens(token_id=PAD)


def test_one_placeholder_a_picture_is_told_where_nothing_else_is_added() -> None:
    prompts = [PicturePrompt(size, [*QUESTION, PAD]) for size in PICTURE_SIZES_PX]
    assert find_image_tokens(QUESTION, prompts) == ImageTokens(token_id=PAD, min_tokens=1, max_tokens=1)


@pytest.mark.parametrize(
    "prompts",
    [
        pytest.param([], id="no prompt"),
        pytest.param([PicturePrompt(size, QUESTION) for size in PICTURE_SIZES_PX], id="no placeholder"),
        pytest.param(
            [PicturePrompt(size, [*QUESTION, START, PAD, END]) for size in PICTURE_SIZES_PX], id="markers too"
        ),
        pytest.param(
            [PicturePrompt(PICTURE_SIZES_PX[0], [*QUESTION, PAD]), PicturePrompt(PICTURE_SIZES_PX[1], QUESTION)],
            id="not in each",
        ),
    ],
)
def test_what_cannot_be_told_is_not_guessed(prompts: list[PicturePrompt]) -> None:
    assert find_image_tokens(QUESTION, prompts) is None
