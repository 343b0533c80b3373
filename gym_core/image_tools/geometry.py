"""Geometry: a part of an image, or all of it, in another size, turn or frame."""

import math
from typing import Annotated

import numpy as np
from PIL import Image, ImageOps

from .arguments import AsBox, AsPoints, Choice, Color, Number, Whole
from .contract import MAX_OUTPUT_PIXELS, ImageToolError, Made, View, check_size, made
from .places import Box, Point, Size

_LANCZOS = Image.Resampling.LANCZOS
_FLIPS = {"left_right": Image.Transpose.FLIP_LEFT_RIGHT, "top_bottom": Image.Transpose.FLIP_TOP_BOTTOM}
_QUARTER_TURNS = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}


def enlarged(image: Image.Image, box: Box) -> Image.Image:
    """What the box covers, scaled up so that its long edge is as long as the image's; never scaled down."""
    part = image.crop(box.pixels(Size(image.width, image.height)))
    scale = max(image.width, image.height) / max(part.width, part.height)
    scale = min(scale, math.sqrt(MAX_OUTPUT_PIXELS / (part.width * part.height)))
    if scale <= 1:
        return part
    size = (max(1, round(part.width * scale)), max(1, round(part.height * scale)))
    return part.resize(size, _LANCZOS)


def zoom(view: View, box: Annotated[Box, AsBox("What to enlarge", becomes_image=True)]) -> Made:
    """Enlarge a part of an image so that its long edge becomes as long as the whole image's."""
    return made(f"{view.name}, enlarged: {view.said_box(box)}.", enlarged(view.image, box))


def crop(view: View, box: Annotated[Box, AsBox("What to keep", becomes_image=True)]) -> Made:
    """Cut a rectangle out of an image, pixel for pixel."""
    return made(f"{view.name}, cropped to {view.said_box(box)}.", view.image.crop(box.pixels(view.size)))


def resize(view: View, factor: Annotated[float, Number(0.05, 16, "By how much; 2 doubles width and height")]) -> Made:
    """Make a whole image larger or smaller."""
    size = (max(1, round(view.image.width * factor)), max(1, round(view.image.height * factor)))
    check_size(*size)
    return made(f"{view.name}, resized by {factor:g}.", view.image.resize(size, _LANCZOS))


def rotate(
    view: View,
    degrees: Annotated[float, Number(-360, 360, "Counter-clockwise; negative is clockwise")],
    fill: Annotated[tuple[int, int, int], Color("Of the new corners")] = (255, 255, 255),
) -> Made:
    """Turn an image about its centre. The result is large enough to show all of it."""
    text = f"{view.name}, turned by {degrees:g} degrees counter-clockwise."
    turn = degrees % 360
    if turn in _QUARTER_TURNS:
        return made(text, view.image.transpose(_QUARTER_TURNS[int(turn)]))
    cos, sin = abs(math.cos(math.radians(degrees))), abs(math.sin(math.radians(degrees)))
    width, height = view.image.size
    check_size(width * cos + height * sin, width * sin + height * cos)
    return made(text, view.image.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=fill))


def flip(view: View, direction: Annotated[str, Choice(tuple(_FLIPS), "left_right is a mirror's image")]) -> Made:
    """Mirror an image."""
    return made(f"{view.name}, flipped {direction}.", view.image.transpose(_FLIPS[direction]))


def pad(
    view: View,
    pixels: Annotated[int, Whole(1, 1000, "Width of the border")],
    fill: Annotated[tuple[int, int, int], Color("Of the border")] = (255, 255, 255),
) -> Made:
    """Put a border of one colour around an image."""
    check_size(view.image.width + 2 * pixels, view.image.height + 2 * pixels)
    return made(f"{view.name} with a border of {pixels} pixels.", ImageOps.expand(view.image, pixels, fill))


def straighten(
    view: View,
    corners: Annotated[tuple[Point, ...], AsPoints(4, 4, "Upper left, upper right, lower right, lower left corner")],
) -> Made:
    """Undo perspective: the part between four corners, seen from the front as a rectangle."""
    upper_left, upper_right, lower_right, lower_left = corners
    width = round(max(_distance(upper_left, upper_right), _distance(lower_left, lower_right)))
    height = round(max(_distance(upper_left, lower_left), _distance(upper_right, lower_right)))
    if width < 1 or height < 1 or not _is_convex(corners):
        raise ImageToolError("the four corners must enclose an area, clockwise from the upper left one")
    check_size(width, height)
    targets = [Point(0, 0), Point(width, 0), Point(width, height), Point(0, height)]
    flat = view.image.transform(
        (width, height),
        Image.Transform.PERSPECTIVE,
        _perspective(targets, corners),
        Image.Resampling.BICUBIC,
    )
    return made(f"{view.name}, straightened between {', '.join(map(view.said_point, corners))}.", flat)


def _distance(start: Point, end: Point) -> float:
    return math.hypot(end.x - start.x, end.y - start.y)


def _is_convex(corners: tuple[Point, ...]) -> bool:
    """Clockwise on the screen, no three corners in a line."""
    turns = [
        (b.x - a.x) * (c.y - b.y) - (b.y - a.y) * (c.x - b.x)
        for a, b, c in zip(corners, corners[1:] + corners[:1], corners[2:] + corners[:2], strict=True)
    ]
    return min(turns) > 1


def _perspective(targets: list[Point], sources: tuple[Point, ...]) -> list[float]:
    """The eight coefficients by which Pillow finds the source of each target pixel."""
    rows, values = [], []
    for target, source in zip(targets, sources, strict=True):
        rows.append([target.x, target.y, 1, 0, 0, 0, -source.x * target.x, -source.x * target.y])
        rows.append([0, 0, 0, target.x, target.y, 1, -source.y * target.x, -source.y * target.y])
        values += [source.x, source.y]
    return [float(number) for number in np.linalg.solve(np.array(rows), np.array(values))]


TOOLS = (zoom, crop, resize, rotate, flip, pad, straighten)
KEEPS_PLACES = (resize,)
