"""Measurement: distances, angles and areas between places that the model names, told and drawn."""

import math
from typing import Annotated

from PIL import Image, ImageDraw

from .arguments import AsPoint, AsPoints
from .contract import ImageToolError, Made, View, made
from .drawing import RED
from .places import Point

_WIDTH = 2


def measure_distance(
    view: View, start: Annotated[Point, AsPoint("From here")], end: Annotated[Point, AsPoint("To here")]
) -> Made:
    """Measure a straight distance on an image, in pixels."""
    across, down = end.x - start.x, end.y - start.y
    text = (
        f"From {view.said_point(start)} to {view.said_point(end)} of {view.name}: {math.hypot(across, down):.1f} px,"
        f" {abs(across):.1f} across and {abs(down):.1f} down."
    )
    return made(text, _with_lines(view, (start, end)))


def measure_angle(
    view: View,
    vertex: Annotated[Point, AsPoint("Where the two sides meet")],
    first: Annotated[Point, AsPoint("On one side")],
    second: Annotated[Point, AsPoint("On the other side")],
) -> Made:
    """Measure an angle on an image, 0 to 180 degrees."""
    if vertex in (first, second):
        raise ImageToolError("a point on a side must not be where the sides meet")
    bearings = [math.atan2(point.y - vertex.y, point.x - vertex.x) for point in (first, second)]
    turn = abs(math.degrees(bearings[0] - bearings[1]))
    angle = min(turn, 360 - turn)
    text = f"The angle at {view.said_point(vertex)} of {view.name} is {angle:.1f} degrees."
    return made(text, _with_lines(view, (first, vertex, second)))


def measure_area(
    view: View, points: Annotated[tuple[Point, ...], AsPoints(3, 64, "The corners, in order around it")]
) -> Made:
    """Measure the area and the outline of a polygon on an image, in pixels."""
    ring = list(zip(points, points[1:] + points[:1], strict=True))
    area = abs(sum(a.x * b.y - b.x * a.y for a, b in ring)) / 2
    outline = sum(math.hypot(b.x - a.x, b.y - a.y) for a, b in ring)
    share = area / (view.image.width * view.image.height)
    text = (
        f"The polygon on {view.name}: area {area:.1f} square px ({share:.2%} of the image), outline {outline:.1f} px."
    )
    return made(text, _with_lines(view, (*points, points[0])))


def _with_lines(view: View, points: tuple[Point, ...]) -> Image.Image:
    image = view.image.copy()
    ImageDraw.Draw(image).line([(point.x, point.y) for point in points], fill=RED, width=_WIDTH)
    return image


TOOLS = (measure_distance, measure_angle, measure_area)
KEEPS_PLACES = TOOLS
