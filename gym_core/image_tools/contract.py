"""What an image tool takes and gives: a view of an image, and words with new pictures. Nothing is edited in place."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .places import Box, Coordinates, Point, Size

Pixels = NDArray[np.uint8]
"""(height, width, 3), RGB; or (height, width) in grey."""

MAX_INPUT_PIXELS = 64_000_000
MAX_OUTPUT_PIXELS = 16_000_000
MAX_SIDE = 8192
"""Of a picture that a tool makes."""
MAX_LISTED = 20
"""Findings that a reply names one by one; the rest are counted."""
MAX_DRAWN = 300
"""Findings that are drawn one by one: of more the picture shows nothing, and they can be a million."""


class ImageToolError(Exception):
    """The call cannot be done as asked; the message tells a model what to do about it."""


@dataclass(frozen=True)
class View:
    """One image as a tool sees it: opaque RGB, a copy that no one else holds."""

    image: Image.Image
    name: str
    """"image 0"."""
    coordinates: Coordinates = Coordinates.FRACTION

    @property
    def size(self) -> Size:
        return Size(self.image.width, self.image.height)

    @cached_property
    def pixels(self) -> Pixels:
        """Read-only."""
        array = np.asarray(self.image, dtype=np.uint8)
        array.flags.writeable = False
        return array

    @cached_property
    def gray(self) -> Pixels:
        """Luminance, read-only."""
        array = np.asarray(self.image.convert("L"), dtype=np.uint8)
        array.flags.writeable = False
        return array

    def said_point(self, point: Point) -> str:
        x = self.coordinates.said(point.x, self.image.width)
        y = self.coordinates.said(point.y, self.image.height)
        return f"({x:g}, {y:g})"

    def said_box(self, box: Box) -> str:
        say, size = self.coordinates.said, self.size
        x0, y0, x1, y1 = (
            *(say(box.x0, size.width), say(box.y0, size.height)),
            *(say(box.x1, size.width), say(box.y1, size.height)),
        )
        return f"[{x0:g}, {y0:g}, {x1:g}, {y1:g}]"

    @classmethod
    def of(cls, image: Image.Image, name: str, coordinates: Coordinates) -> "View":
        """A view of a copy; transparent parts are shown on white. Raises ImageToolError for one that is too large."""
        if image.width * image.height > MAX_INPUT_PIXELS:
            raise ImageToolError(f"{name} has {image.width}x{image.height} pixels: more than {MAX_INPUT_PIXELS}")
        return cls(_opaque(image), name, coordinates)


@dataclass(frozen=True)
class Made:
    """What a tool gives back."""

    text: str
    images: tuple[Image.Image, ...] = ()


def made(text: str, picture: Image.Image | Pixels) -> Made:
    """One new picture, with its size told."""
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    check_size(image.width, image.height)
    return Made(f"{text} The result has {image.width}x{image.height} pixels.", (image,))


def check_size(width: float, height: float) -> None:
    """Before a picture is made. Raises ImageToolError."""
    if width > MAX_SIDE or height > MAX_SIDE or width * height > MAX_OUTPUT_PIXELS:
        raise ImageToolError(
            f"the result would have {width:.0f}x{height:.0f} pixels; at most {MAX_SIDE} a side and"
            f" {MAX_OUTPUT_PIXELS} altogether are made"
        )


def listed(findings: Iterable[str], *, count: int | None = None) -> str:
    """One a line, the first few; how many more there are. `count` of them, where only the first ones are given."""
    lines = list(findings)
    total = len(lines) if count is None else count
    more = [f"and {total - MAX_LISTED} more"] if total > MAX_LISTED else []
    return "\n".join([*lines[:MAX_LISTED], *more])


def _opaque(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        return _eight_bits(image)
    if not image.has_transparency_data:
        return image.convert("RGB") if image.mode != "RGB" else image.copy()
    with_alpha = image.convert("RGBA")
    white = Image.new("RGBA", with_alpha.size, "white")
    return Image.alpha_composite(white, with_alpha).convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Deep grey, its own range spread over black to white: Pillow would cut it off at 255."""
    values = np.nan_to_num(np.asarray(image, dtype=np.float64), posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    spread = (values - low) * (255.0 / (high - low)) if high > low else np.zeros_like(values)
    return Image.fromarray(spread.astype(np.uint8)).convert("RGB")
