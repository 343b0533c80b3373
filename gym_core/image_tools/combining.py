"""Combining: two images or more compared, laid beside or over each other."""

from typing import Annotated

import cv2
import numpy as np
from PIL import Image

from .arguments import AsPoint, Choice, Number, Whole
from .contract import Made, Pixels, View, check_size, listed, made
from .places import Box, Point

_GAP = 8
"""Pixels between images that lie side by side."""
_MIN_AREA = 4
"""Of a difference that is told, in pixels: smaller ones are noise of compression."""


def compare(
    view: View,
    other: View,
    tolerance: Annotated[int, Whole(0, 255, "Differences up to this in a channel do not count")] = 30,
) -> Made:
    """Show where two images differ: the boxes of the differences, and a picture of them, white where they are. The
    other image is scaled to the first one's size."""
    second = other.image.resize(view.image.size)
    apart: Pixels = cv2.absdiff(view.pixels, np.asarray(second, dtype=np.uint8))
    differs = (apart.max(axis=2) > tolerance).astype(np.uint8)
    joined = cv2.dilate(differs, np.ones((5, 5), dtype=np.uint8))
    _, labels, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    areas = np.bincount(labels[differs > 0], minlength=len(stats))
    kept = [int(i) for i in np.argsort(-areas, kind="stable") if i > 0 and areas[i] >= _MIN_AREA]
    told = [
        f"{view.said_box(Box(x, y, x + width, y + height))}: {areas[index]} px"
        for index in kept
        for x, y, width, height in [tuple(map(float, stats[index][:4]))]
    ]
    share = f"{float(differs.mean()):.2%} of the pixels differ"
    text = f"{view.name} and {other.name}: {share}, in {len(kept)} places."
    return made(f"{text}\n{listed(told)}\n", differs * np.uint8(255))


def side_by_side(
    views: tuple[View, ...],
    direction: Annotated[str, Choice(("horizontal", "vertical"), "How they are laid")] = "horizontal",
) -> Made:
    """Lay images beside or under each other in one picture, each in its own size."""
    across = direction == "horizontal"
    widths, heights = [v.image.width for v in views], [v.image.height for v in views]
    gaps = _GAP * (len(views) - 1)
    size = (sum(widths) + gaps, max(heights)) if across else (max(widths), sum(heights) + gaps)
    check_size(*size)
    picture = Image.new("RGB", size, "white")
    offset = 0
    for view in views:
        picture.paste(view.image, (offset, 0) if across else (0, offset))
        offset += (view.image.width if across else view.image.height) + _GAP
    return made(f"{', '.join(view.name for view in views)}, {direction}.", picture)


def blend(view: View, other: View, share: Annotated[float, Number(0, 1, "Of the other image")] = 0.5) -> Made:
    """Lay two images over each other, half transparent. The other one is scaled to the first one's size."""
    second = other.image.resize(view.image.size)
    return made(f"{view.name} with {share:.0%} of {other.name}.", Image.blend(view.image, second, share))


def overlay(
    view: View,
    other: View,
    point: Annotated[Point, AsPoint("Where on the first image the other one's upper left corner goes")],
    opacity: Annotated[float, Number(0.05, 1, "1 hides what is under it")] = 1.0,
) -> Made:
    """Paste an image onto another one. What reaches past the edge is cut off."""
    picture = view.image.copy()
    veil = Image.new("L", other.image.size, round(255 * opacity))
    picture.paste(other.image, (int(point.x), int(point.y)), veil)
    return made(f"{other.name} on {view.name} at {view.said_point(point)}.", picture)


TOOLS = (compare, side_by_side, blend, overlay)
KEEPS_PLACES = (compare, blend, overlay)
