"""Drawing: marks, words and grids put on a copy of an image."""

import math
from typing import Annotated

from PIL import ImageDraw, ImageFont

from .arguments import AsBox, AsPoint, AsPoints, Color, Number, Whole, Words
from .contract import Made, View, made
from .places import Box, Point

Rgb = tuple[int, int, int]
RED: Rgb = (255, 0, 0)

_ARROW_HEAD = 4
"""Its length in widths of the line."""
_LABEL_PIXELS = 12

Ink = Annotated[Rgb, Color("Of the mark")]
Thickness = Annotated[int, Whole(1, 50, "Width of the line in pixels")]


def draw_box(view: View, box: Annotated[Box, AsBox("Where")], color: Ink = RED, thickness: Thickness = 3) -> Made:
    """Draw the outline of a rectangle on an image."""
    image = view.image.copy()
    left, top, right, bottom = box.pixels(view.size)
    ImageDraw.Draw(image).rectangle([left, top, right - 1, bottom - 1], outline=color, width=thickness)
    return made(f"{view.name} with a box at {view.said_box(box)}.", image)


def draw_line(
    view: View,
    start: Annotated[Point, AsPoint("One end")],
    end: Annotated[Point, AsPoint("The other end")],
    color: Ink = RED,
    thickness: Thickness = 3,
) -> Made:
    """Draw a straight line on an image."""
    image = view.image.copy()
    ImageDraw.Draw(image).line([start.x, start.y, end.x, end.y], fill=color, width=thickness)
    return made(f"{view.name} with a line from {view.said_point(start)} to {view.said_point(end)}.", image)


def draw_arrow(
    view: View,
    start: Annotated[Point, AsPoint("The tail")],
    end: Annotated[Point, AsPoint("The head")],
    color: Ink = RED,
    thickness: Thickness = 3,
) -> Made:
    """Draw an arrow on an image."""
    image = view.image.copy()
    draw = ImageDraw.Draw(image)
    draw.line([start.x, start.y, end.x, end.y], fill=color, width=thickness)
    direction = math.atan2(start.y - end.y, start.x - end.x)
    for side in (direction - 0.5, direction + 0.5):
        length = _ARROW_HEAD * thickness + 4
        tip = (end.x + length * math.cos(side), end.y + length * math.sin(side))
        draw.line([(end.x, end.y), tip], fill=color, width=thickness)
    return made(f"{view.name} with an arrow from {view.said_point(start)} to {view.said_point(end)}.", image)


def draw_polygon(
    view: View,
    points: Annotated[tuple[Point, ...], AsPoints(2, 64, "The corners, in order")],
    color: Ink = RED,
    thickness: Thickness = 3,
) -> Made:
    """Draw lines from point to point on an image and back to the first one."""
    image = view.image.copy()
    corners = [(point.x, point.y) for point in (*points, points[0])]
    ImageDraw.Draw(image).line(corners, fill=color, width=thickness, joint="curve")
    return made(f"{view.name} with a polygon of {len(points)} corners.", image)


def draw_circle(
    view: View,
    center: Annotated[Point, AsPoint("Its centre")],
    radius: Annotated[float, Number(1, 4096, "In pixels")],
    color: Ink = RED,
    thickness: Thickness = 3,
) -> Made:
    """Draw a circle on an image."""
    image = view.image.copy()
    around = [center.x - radius, center.y - radius, center.x + radius, center.y + radius]
    ImageDraw.Draw(image).ellipse(around, outline=color, width=thickness)
    return made(f"{view.name} with a circle of {radius:g} pixels around {view.said_point(center)}.", image)


def draw_point(
    view: View,
    points: Annotated[tuple[Point, ...], AsPoints(1, 64, "Where")],
    color: Ink = RED,
    radius: Annotated[int, Whole(1, 100, "In pixels")] = 5,
) -> Made:
    """Put a dot on each of some places of an image, numbered from 1 when there are several."""
    image = view.image.copy()
    draw = ImageDraw.Draw(image)
    for number, point in enumerate(points, start=1):
        draw.ellipse([point.x - radius, point.y - radius, point.x + radius, point.y + radius], fill=color)
        if len(points) > 1:
            draw.text((point.x + radius + 2, point.y - _LABEL_PIXELS / 2), str(number), color, _font(_LABEL_PIXELS))
    return made(f"{view.name} with dots at {', '.join(map(view.said_point, points))}.", image)


def draw_text(
    view: View,
    text: Annotated[str, Words(200, "What to write")],
    point: Annotated[Point, AsPoint("The upper left corner of the words")],
    color: Ink = RED,
    height: Annotated[int, Whole(6, 200, "Of the letters, in pixels")] = 16,
) -> Made:
    """Write words on an image."""
    image = view.image.copy()
    ImageDraw.Draw(image).text((point.x, point.y), text, fill=color, font=_font(height))
    return made(f"{view.name} with words at {view.said_point(point)}.", image)


def grid_overlay(
    view: View,
    rows: Annotated[int, Whole(1, 50, "Cells from top to bottom")] = 4,
    columns: Annotated[int, Whole(1, 50, "Cells from left to right")] = 4,
    color: Ink = RED,
) -> Made:
    """Draw a grid over an image; each cell is labelled row,column, counted from 1 at the top left."""
    image = view.image.copy()
    draw = ImageDraw.Draw(image)
    width, height = image.size
    for row in range(1, rows):
        draw.line([0, row * height / rows, width, row * height / rows], fill=color)
    for column in range(1, columns):
        draw.line([column * width / columns, 0, column * width / columns, height], fill=color)
    label = max(6, min(_LABEL_PIXELS, int(width / columns / 4), int(height / rows / 2)))
    for row in range(rows):
        for column in range(columns):
            place = (column * width / columns + 2, row * height / rows + 1)
            draw.text(place, f"{row + 1},{column + 1}", fill=color, font=_font(label))
    return made(f"{view.name} under a grid of {rows} rows and {columns} columns.", image)


def _font(height: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own, so that no font of the machine is needed."""
    return ImageFont.load_default(height)


TOOLS = (draw_box, draw_line, draw_arrow, draw_polygon, draw_circle, draw_point, draw_text, grid_overlay)
KEEPS_PLACES = TOOLS
