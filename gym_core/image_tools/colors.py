"""Colours: what is where, how much of it, and how many things of it."""

from typing import Annotated

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from .arguments import AsBox, AsPoint, Color, Whole
from .contract import MAX_DRAWN, MAX_LISTED, Made, Pixels, View, listed, made
from .drawing import RED, Rgb
from .places import Box, Point

_SAMPLED_SIDE = 256
_PLOT_HEIGHT = 200

Tolerance = Annotated[int, Whole(0, 255, "How far each of red, green and blue may differ")]
_Wanted = Annotated[Rgb, Color("Which one")]


def color_at(
    view: View,
    point: Annotated[Point, AsPoint("Where")],
    radius: Annotated[int, Whole(0, 50, "The mean of so many pixels around it is taken")] = 0,
) -> Made:
    """Tell the colour at a place of an image."""
    x, y = min(int(point.x), view.image.width - 1), min(int(point.y), view.image.height - 1)
    around = view.pixels[max(0, y - radius) : y + radius + 1, max(0, x - radius) : x + radius + 1]
    mean = around.reshape(-1, 3).mean(axis=0)
    return Made(f"The colour of {view.name} at {view.said_point(point)} is {_said(mean)}.")


def find_color(view: View, color: _Wanted, tolerance: Tolerance = 40) -> Made:
    """Find where an image has a colour: the box around it, its share, and a picture with all else hidden."""
    inside = _like(view, color, tolerance)
    if not inside.any():
        return Made(f"{view.name} has nothing within {tolerance} of {_said(color)}.")
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    box = Box(float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))
    picture = np.where(inside[:, :, None], view.pixels, np.uint8(255))
    share = f"{float(inside.mean()):.2%} of {view.name} is within {tolerance} of {_said(color)}"
    return made(f"{share}, all of it in {view.said_box(box)}.", picture)


def count_color(
    view: View,
    color: _Wanted,
    tolerance: Tolerance = 40,
    min_area: Annotated[int, Whole(1, 1_000_000, "In pixels; smaller parts are left out")] = 10,
) -> Made:
    """Count the connected parts of an image that have a colour; each is framed and numbered, largest first."""
    inside = _like(view, color, tolerance).astype(np.uint8)
    stats = cv2.connectedComponentsWithStats(inside, connectivity=8)[2][1:]
    large = stats[stats[:, cv2.CC_STAT_AREA] >= min_area]
    parts = large[np.argsort(-large[:, cv2.CC_STAT_AREA], kind="stable")]
    picture = view.image.copy()
    draw = ImageDraw.Draw(picture)
    for number, (left, top, width, height, _) in enumerate(parts[:MAX_DRAWN].tolist(), start=1):
        draw.rectangle([left, top, left + width - 1, top + height - 1], outline=RED)
        draw.text((left + 2, top + 1), str(number), fill=RED)
    told = [
        f"{view.said_box(Box(left, top, left + width, top + height))}: area {area} px"
        for left, top, width, height, area in parts[:MAX_LISTED].tolist()
    ]
    text = f"{len(parts)} connected parts of {view.name} are within {tolerance} of {_said(color)}."
    if len(parts) > MAX_DRAWN:
        text += f" The {MAX_DRAWN} largest are framed."
    return made(f"{text}\n{listed(told, count=len(parts))}\n", picture)


def dominant_colors(view: View, count: Annotated[int, Whole(1, 16, "At most so many")] = 5) -> Made:
    """Tell the most frequent colours of an image and their shares."""
    small = view.image.copy()
    small.thumbnail((_SAMPLED_SIDE, _SAMPLED_SIDE), Image.Resampling.NEAREST)
    few = small.quantize(count, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    shares = np.bincount(np.asarray(few).ravel(), minlength=count) / (few.width * few.height)
    palette = np.array(few.getpalette() or [0, 0, 0], dtype=np.float64).reshape(-1, 3)
    told = [f"{_said(palette[i])}: {shares[i]:.1%}" for i in np.argsort(-shares, kind="stable") if shares[i] > 0]
    return Made(f"The colours of {view.name}, most frequent first.\n{listed(told)}")


def histogram(view: View, box: Annotated[Box | None, AsBox("Of this part only")] = None) -> Made:
    """How often each brightness occurs in an image, for red, green and blue: numbers and a plot."""
    pixels = view.pixels
    if box is not None:
        left, top, right, bottom = box.pixels(view.size)
        pixels = pixels[top:bottom, left:right]
    told, plot = [], np.full((_PLOT_HEIGHT, 256, 3), 255, dtype=np.uint8)
    counts = [np.bincount(pixels[:, :, index].ravel(), minlength=256) for index in range(3)]
    highest = max(int(count.max()) for count in counts)
    for index, (name, count) in enumerate(zip(("red", "green", "blue"), counts, strict=True)):
        values = pixels[:, :, index]
        told.append(
            f"{name}: mean {values.mean():.0f}, deviation {values.std():.0f}, median {np.median(values):.0f},"
            f" from {values.min()} to {values.max()}"
        )
        heights = np.round(count * (_PLOT_HEIGHT - 1) / highest).astype(int)
        is_bar = np.arange(_PLOT_HEIGHT)[::-1, None] < heights[None, :]
        plot[is_bar] = plot[is_bar] // np.array([1 if i == index else 2 for i in range(3)], dtype=np.uint8)
    return made(f"Brightness of {view.name}.\n{listed(told)}\n", plot)


def _like(view: View, color: Rgb, tolerance: int) -> NDArray[np.bool_]:
    low = np.clip(np.array(color) - tolerance, 0, 255).astype(np.uint8)
    high = np.clip(np.array(color) + tolerance, 0, 255).astype(np.uint8)
    inside: Pixels = cv2.inRange(view.pixels, low, high)
    return inside > 0


def _said(color: "Rgb | NDArray[np.float64]") -> str:
    red, green, blue = (round(float(value)) for value in color)
    return f"#{red:02x}{green:02x}{blue:02x} (red {red}, green {green}, blue {blue})"


TOOLS = (color_at, find_color, count_color, dominant_colors, histogram)
KEEPS_PLACES = (find_color, count_color)
