"""Integer drawing on an RGB picture: lines, discs, polygons, text in our own 5x7 font.

Nothing is anti-aliased and nothing comes from the system, so a puzzle is the same bytes on every machine and a colour
in the picture is exactly a colour of the palette. Points are (x, y) in pixels, widths and radii are pixels.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import isqrt

from PIL import Image, ImageDraw

Color = tuple[int, int, int]
Point = tuple[int, int]
Box = tuple[int, int, int, int]
Glyph = tuple[str, ...]
"""A small figure as rows of dots, "#" set and "." free."""

PAPER: Color = (255, 255, 255)
INK: Color = (24, 24, 28)
RULE: Color = (190, 192, 198)
"""Grid lines and frames: visible, and not to be taken for a figure."""

PALETTE: dict[str, Color] = {
    "red": (220, 38, 38),
    "blue": (29, 78, 216),
    "green": (22, 140, 60),
    "orange": (245, 140, 10),
    "purple": (147, 51, 190),
    "brown": (115, 70, 35),
    "pink": (244, 114, 182),
    "cyan": (10, 180, 205),
}
"""Names that a question may use. Every two differ by at least 60 in some channel."""

GLYPH_WIDTH = 5
GLYPH_HEIGHT = 7


def new_canvas(width: int, height: int, color: Color = PAPER) -> Image.Image:
    return Image.new("RGB", (width, height), color)


def draw_rect(img: Image.Image, box: Box, color: Color) -> None:
    """Filled, `right` and `bottom` not included, as in a crop."""
    left, top, right, bottom = box
    if right > left and bottom > top:
        ImageDraw.Draw(img).rectangle((left, top, right - 1, bottom - 1), fill=color)


def draw_frame(img: Image.Image, box: Box, color: Color, width: int = 1) -> None:
    """The border of a box, inside it."""
    left, top, right, bottom = box
    draw_rect(img, (left, top, right, top + width), color)
    draw_rect(img, (left, bottom - width, right, bottom), color)
    draw_rect(img, (left, top, left + width, bottom), color)
    draw_rect(img, (right - width, top, right, bottom), color)


def draw_disc(img: Image.Image, center: Point, radius: int, color: Color) -> None:
    _stamp(ImageDraw.Draw(img), center, radius, color)


def draw_ring(img: Image.Image, center: Point, radius: int, width: int, color: Color, inside: Color = PAPER) -> None:
    """A circle of `width` pixels whose inside is painted too."""
    draw_disc(img, center, radius, color)
    draw_disc(img, center, radius - width, inside)


def draw_polygon(img: Image.Image, points: Sequence[Point], color: Color) -> None:
    ImageDraw.Draw(img).polygon(list(points), fill=color)


def draw_line(img: Image.Image, start: Point, end: Point, width: int, color: Color) -> None:
    """A straight stroke with round ends. An even width is drawn one pixel wider."""
    draw_polyline(img, (start, end), width, color)


def draw_polyline(img: Image.Image, points: Sequence[Point], width: int, color: Color) -> None:
    draw = ImageDraw.Draw(img)
    for start, end in pairwise(points):
        for point in line_points(start, end):
            _stamp(draw, point, width // 2, color)


def line_points(start: Point, end: Point) -> list[Point]:
    """The pixels of a one-pixel line, both ends included (Bresenham)."""
    (x, y), (x_end, y_end) = start, end
    run, rise = abs(x_end - x), -abs(y_end - y)
    step_x, step_y = (1 if x < x_end else -1), (1 if y < y_end else -1)
    error = run + rise
    points = [(x, y)]
    while (x, y) != (x_end, y_end):
        doubled = 2 * error
        if doubled >= rise:
            error += rise
            x += step_x
        if doubled <= run:
            error += run
            y += step_y
        points.append((x, y))
    return points


def text_size(text: str, scale: int) -> Point:
    """Width and height in pixels of a line of text."""
    return (max(0, len(text) * (GLYPH_WIDTH + 1) - 1) * scale, GLYPH_HEIGHT * scale)


def draw_text(img: Image.Image, xy: Point, text: str, scale: int, color: Color = INK) -> None:
    """One line of text with its top left corner at `xy`. Raises KeyError for a character the font lacks."""
    for position, character in enumerate(text):
        draw_glyph(img, (xy[0] + position * (GLYPH_WIDTH + 1) * scale, xy[1]), FONT[character], scale, color)


def draw_glyph(img: Image.Image, xy: Point, glyph: Glyph, scale: int, color: Color = INK) -> None:
    """Dots of `scale` pixels, top left corner at `xy`."""
    for row, dots in enumerate(glyph):
        for column, dot in enumerate(dots):
            if dot == "#":
                x, y = xy[0] + column * scale, xy[1] + row * scale
                draw_rect(img, (x, y, x + scale, y + scale), color)


def draw_text_centered(img: Image.Image, center: Point, text: str, scale: int, color: Color = INK) -> None:
    width, height = text_size(text, scale)
    draw_text(img, (center[0] - width // 2, center[1] - height // 2), text, scale, color)


def _stamp(draw: ImageDraw.ImageDraw, center: Point, radius: int, color: Color) -> None:
    x, y = center
    for dy in range(-radius, radius + 1):
        # r(r+1) instead of r*r: small discs come out round instead of as diamonds with four spikes.
        half = isqrt(radius * (radius + 1) - dy * dy)
        draw.line((x - half, y + dy, x + half, y + dy), fill=color)


_FONT_ROWS = {
    " ": "..... ..... ..... ..... ..... ..... .....",
    "A": ".###. #...# #...# ##### #...# #...# #...#",
    "B": "####. #...# #...# ####. #...# #...# ####.",
    "C": ".###. #...# #.... #.... #.... #...# .###.",
    "D": "####. #...# #...# #...# #...# #...# ####.",
    "E": "##### #.... #.... ####. #.... #.... #####",
    "F": "##### #.... #.... ####. #.... #.... #....",
    "G": ".###. #...# #.... #.### #...# #...# .###.",
    "H": "#...# #...# #...# ##### #...# #...# #...#",
    "I": "##### ..#.. ..#.. ..#.. ..#.. ..#.. #####",
    "J": "..### ...#. ...#. ...#. ...#. #..#. .##..",
    "K": "#...# #..#. #.#.. ##... #.#.. #..#. #...#",
    "L": "#.... #.... #.... #.... #.... #.... #####",
    "M": "#...# ##.## #.#.# #.#.# #...# #...# #...#",
    "N": "#...# ##..# ##..# #.#.# #..## #..## #...#",
    "O": ".###. #...# #...# #...# #...# #...# .###.",
    "P": "####. #...# #...# ####. #.... #.... #....",
    "Q": ".###. #...# #...# #...# #.#.# #..#. .##.#",
    "R": "####. #...# #...# ####. #.#.. #..#. #...#",
    "S": ".#### #.... #.... .###. ....# ....# ####.",
    "T": "##### ..#.. ..#.. ..#.. ..#.. ..#.. ..#..",
    "U": "#...# #...# #...# #...# #...# #...# .###.",
    "V": "#...# #...# #...# #...# #...# .#.#. ..#..",
    "W": "#...# #...# #...# #.#.# #.#.# ##.## #...#",
    "X": "#...# #...# .#.#. ..#.. .#.#. #...# #...#",
    "Y": "#...# #...# .#.#. ..#.. ..#.. ..#.. ..#..",
    "Z": "##### ....# ...#. ..#.. .#... #.... #####",
    "0": ".###. #...# #..## #.#.# ##..# #...# .###.",
    "1": "..#.. .##.. ..#.. ..#.. ..#.. ..#.. .###.",
    "2": ".###. #...# ....# ...#. ..#.. .#... #####",
    "3": "##### ...#. ..#.. ...#. ....# #...# .###.",
    "4": "...#. ..##. .#.#. #..#. ##### ...#. ...#.",
    "5": "##### #.... ####. ....# ....# #...# .###.",
    "6": "..##. .#... #.... ####. #...# #...# .###.",
    "7": "##### ....# ...#. ..#.. .#... .#... .#...",
    "8": ".###. #...# #...# .###. #...# #...# .###.",
    "9": ".###. #...# #...# .#### ....# ...#. .##..",
    ".": "..... ..... ..... ..... ..... .##.. .##..",
    ",": "..... ..... ..... ..... .##.. ..#.. .#...",
    "-": "..... ..... ..... ##### ..... ..... .....",
    "+": "..... ..#.. ..#.. ##### ..#.. ..#.. .....",
    "=": "..... ..... ##### ..... ##### ..... .....",
    "?": ".###. #...# ....# ...#. ..#.. ..... ..#..",
    "(": "...#. ..#.. .#... .#... .#... ..#.. ...#.",
    ")": ".#... ..#.. ...#. ...#. ...#. ..#.. .#...",
}
FONT: dict[str, Glyph] = {character: tuple(rows.split()) for character, rows in _FONT_ROWS.items()}
"""Capital letters, digits and a few marks, five dots wide and seven high."""
