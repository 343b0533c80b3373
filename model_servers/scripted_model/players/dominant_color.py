"""Look at each picture, count its tiles by the nearest named colour, ask for the next; at last recall all of them."""

import re
from collections import Counter

from PIL import Image

from model_servers.scripted_model.chat import ToolCall, Turn
from model_servers.scripted_model.players.contract import Player, View

_TOOL = "see_next_image"
_HOW_MANY = re.compile(r"shown (\d+) pictures")
_NAMES = re.compile(r"The colours are: ([a-z, ]+)")
_TILES = 8
_NAMED = {
    "red": (220, 30, 30),
    "green": (30, 150, 50),
    "blue": (40, 60, 220),
    "yellow": (240, 220, 40),
    "orange": (250, 140, 20),
    "purple": (125, 40, 160),
    "black": (20, 20, 20),
    "white": (240, 240, 240),
}
"""What a person calls these colours: near the palette's, and not taken from it."""


def _play(view: View) -> Turn:
    how_many = _HOW_MANY.search(view.question)
    is_more = how_many is not None and len(view.image_urls) < int(how_many[1])
    if is_more and _TOOL in view.tools and len(view.results) < int(how_many[1] if how_many else 0):
        return Turn("I keep the colour of this picture in mind and look at the next.", (ToolCall(_TOOL, {}),))
    colors = ", ".join(_dominant(picture) for picture in view.pictures())
    return Turn(f"The tiles of each picture, counted by colour, give \\boxed{{{colors}}}")


def _guess(view: View) -> Turn:
    names = _NAMES.search(view.question)
    first = names[1].split(",")[0].strip() if names else "red"
    return Turn(f"I did not look. \\boxed{{{first}, {first}, {first}}}")


def _dominant(picture: Image.Image) -> str:
    side_x, side_y = picture.width / _TILES, picture.height / _TILES
    centres = [(int((x + 0.5) * side_x), int((y + 0.5) * side_y)) for x in range(_TILES) for y in range(_TILES)]
    return Counter(_nearest(picture, centre) for centre in centres).most_common(1)[0][0]


def _nearest(picture: Image.Image, at: tuple[int, int]) -> str:
    seen = picture.getpixel(at)
    assert isinstance(seen, tuple)  # of an RGB picture
    return min(_NAMED, key=lambda name: sum((a - b) ** 2 for a, b in zip(seen, _NAMED[name], strict=True)))


DOMINANT_COLOR = Player("dominant_color", "Call see_next_image to see the next picture", _play, _guess)
