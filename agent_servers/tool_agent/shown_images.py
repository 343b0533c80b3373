"""Pictures as the model is shown them: scaled where they have too few or too many pixels. Pure; decodes, so in threads.

Tools keep the pictures as they are: what a model crops is the original, whatever it was shown.
"""

import io
from collections.abc import Sequence
from typing import Self

from PIL import Image
from pydantic import Field, model_validator

from gym_core.capture.images import make_data_url, parse_data_url
from gym_core.datasets.images import PreparedImage, png_of
from gym_core.types.responses import InputImage, InputMessage, InputPart, OutputItem, ResponsesBody
from gym_core.types.wire import Wire

_SCALED_MODES = ("L", "RGB", "RGBA")


class ShownPixels(Wire):
    """`shown_pixels` of the block; of one picture, width times height."""

    least: int = Field(default=3_136, gt=0)
    most: int = Field(default=2_000_000, gt=0)

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.most < 4 * self.least:
            raise ValueError(f"most: {self.most} is not at least four times least ({self.least})")
        return self


def shown_body(body: ResponsesBody, limits: ShownPixels) -> ResponsesBody:
    """The body with its user messages' pictures scaled. Raises ValueError for a picture that is none."""
    if isinstance(body.input, str):
        return body
    return body.model_copy(update={"input": [_shown_item(item, limits) for item in body.input]})


def shown_parts(parts: Sequence[InputPart], limits: ShownPixels) -> list[InputPart]:
    """Raises ValueError for a picture that is none."""
    return [_shown_image(part, limits) if isinstance(part, InputImage) else part for part in parts]


def _shown_item(item: OutputItem, limits: ShownPixels) -> OutputItem:
    if not isinstance(item, InputMessage) or isinstance(item.content, str):
        return item
    return item.model_copy(update={"content": shown_parts(item.content, limits)})


def _shown_image(part: InputImage, limits: ShownPixels) -> InputImage:
    content = parse_data_url(part.image_url)
    with Image.open(io.BytesIO(content)) as header:
        size = header.size
    fitting = fitting_size(size, limits)
    if fitting == size:
        return part
    prepared = PreparedImage.from_bytes(content, row="image of the prompt")
    with Image.open(io.BytesIO(prepared.content)) as image:
        even = image if image.mode in _SCALED_MODES else image.convert("RGBA" if image.has_transparency_data else "RGB")
        scaled = even.resize(fitting, Image.Resampling.LANCZOS)
    return part.model_copy(update={"image_url": make_data_url(png_of(scaled))})


def fitting_size(size: tuple[int, int], limits: ShownPixels) -> tuple[int, int]:
    """Width and height within the limits, of nearly the same shape; the size itself where it fits."""
    width, height = size
    pixels = width * height
    if limits.least <= pixels <= limits.most:
        return size
    if pixels < limits.least:
        scale = (limits.least / pixels) ** 0.5
        return -int(-width * scale // 1), -int(-height * scale // 1)
    scale = (limits.most / pixels) ** 0.5
    narrow = max(1, int(min(size) * scale))
    wide = min(int(max(size) * scale), limits.most // narrow)
    return (wide, narrow) if width >= height else (narrow, wide)
