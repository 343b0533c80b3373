"""Marking: a part of an image hidden, or made to stand out."""

from typing import Annotated

from PIL import Image, ImageDraw, ImageEnhance, ImageFilter

from .arguments import AsBox, AsPoints, Choice, Color, Number
from .contract import Made, View, made
from .drawing import RED, Rgb
from .places import Box, Point

WHITE: Rgb = (255, 255, 255)

_Side = Annotated[str, Choice(("inside", "outside"), "Which side of the box is changed")]


def mask(
    view: View,
    box: Annotated[Box, AsBox("Where", looks=False)],
    side: _Side = "inside",
    fill: Annotated[Rgb, Color("Of what is hidden")] = WHITE,
) -> Made:
    """Hide a rectangle of an image, or everything but it, under one colour."""
    hidden = Image.new("RGB", view.image.size, fill)
    return made(f"{view.name}, {side} of {view.said_box(box)} hidden.", _replaced(view, hidden, box, side))


def blur_region(
    view: View,
    box: Annotated[Box, AsBox("Where", looks=False)],
    side: _Side = "inside",
    radius: Annotated[float, Number(1, 50, "In pixels")] = 8,
) -> Made:
    """Blur a rectangle of an image, or everything but it."""
    blurred = view.image.filter(ImageFilter.GaussianBlur(radius))
    return made(f"{view.name}, {side} of {view.said_box(box)} blurred.", _replaced(view, blurred, box, side))


def highlight(
    view: View,
    box: Annotated[Box, AsBox("Where")],
    color: Annotated[Rgb, Color("Of the tint")] = RED,
    strength: Annotated[float, Number(0.05, 0.95, "Share of the tint")] = 0.2,
) -> Made:
    """Tint a rectangle of an image; what is under the tint stays visible."""
    tinted = Image.blend(view.image, Image.new("RGB", view.image.size, color), strength)
    return made(f"{view.name}, {view.said_box(box)} highlighted.", _replaced(view, tinted, box, "inside"))


def spotlight(
    view: View,
    box: Annotated[Box, AsBox("What stays bright")],
    brightness: Annotated[float, Number(0, 0.9, "Of the rest, as a share of what it was")] = 0.35,
) -> Made:
    """Darken everything but a rectangle of an image."""
    dark = ImageEnhance.Brightness(view.image).enhance(brightness)
    return made(f"{view.name}, all but {view.said_box(box)} darkened.", _replaced(view, dark, box, "outside"))


def cut_out(
    view: View,
    points: Annotated[tuple[Point, ...], AsPoints(3, 64, "The corners of what stays, in order")],
    fill: Annotated[Rgb, Color("Of the rest")] = WHITE,
) -> Made:
    """Hide everything outside a polygon under one colour."""
    inside = Image.new("1", view.image.size)
    ImageDraw.Draw(inside).polygon([(point.x, point.y) for point in points], fill=1)
    picture = Image.composite(view.image, Image.new("RGB", view.image.size, fill), inside)
    return made(f"{view.name}, all but a polygon of {len(points)} corners hidden.", picture)


def _replaced(view: View, other: Image.Image, box: Box, side: str) -> Image.Image:
    """The view with `other`, of its size, on one side of the box."""
    place = box.pixels(view.size)
    under, over = (view.image, other) if side == "inside" else (other, view.image)
    picture = under.copy()
    picture.paste(over.crop(place), place)
    return picture


TOOLS = (mask, blur_region, highlight, spotlight, cut_out)
KEEPS_PLACES = TOOLS
