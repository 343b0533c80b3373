"""Look at each picture, count the cells that are dark in the middle, ask for the next; recall all numbers."""

import re

from PIL import Image

from model_servers.scripted_model.chat import ToolCall, Turn
from model_servers.scripted_model.players.contract import Player, View

_TOOL = "see_next_picture"
_HOW_MANY = re.compile(r"There are (\d+) pictures with black dots")
_CELLS = 4
_DARK = 100
"""Of 255."""


def _play(view: View) -> Turn:
    how_many = _HOW_MANY.search(view.question)
    wanted = int(how_many[1]) if how_many else 1
    if len(view.image_urls) < wanted and len(view.results) < wanted and _TOOL in view.tools:
        return Turn("I have counted the dots of this picture, and look at the next.", (ToolCall(_TOOL, {}),))
    counts = ", ".join(str(_count(picture)) for picture in view.pictures())
    return Turn(f"The dots of each picture, counted by its dark cells, give \\boxed{{{counts}}}")


def _guess(view: View) -> Turn:
    how_many = _HOW_MANY.search(view.question)
    return Turn(f"I did not look. \\boxed{{{', '.join(['8'] * int(how_many[1] if how_many else 1))}}}")


def _count(picture: Image.Image) -> int:
    side_x, side_y = picture.width / _CELLS, picture.height / _CELLS
    grey = picture.convert("L")
    centres = [(int((x + 0.5) * side_x), int((y + 0.5) * side_y)) for x in range(_CELLS) for y in range(_CELLS)]
    return sum(_level(grey, centre) < _DARK for centre in centres)


def _level(grey: Image.Image, at: tuple[int, int]) -> float:
    seen = grey.getpixel(at)
    assert isinstance(seen, int | float)  # of a picture with one channel
    return seen


DOT_MEMORY = Player("dot_memory", "Call see_next_picture for each of the others", _play, _guess)
