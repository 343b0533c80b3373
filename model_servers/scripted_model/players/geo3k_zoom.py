"""Look at the left and the right half of what is drawn, enlarged, and guess: it reads no labels and knows no geometry.

It exercises the tool and is the floor of the benchmark.
"""

import re

from PIL import Image, ImageOps

from gym_core.types.wire import JsonObject
from model_servers.scripted_model.chat import ToolCall, Turn
from model_servers.scripted_model.players.contract import Player, View

_TOOL = "zoom"
_OPTION = re.compile(r"^\(([A-Z])\)\s", re.MULTILINE)
_HALVES = ("left", "right")


def _play(view: View) -> Turn:
    looks = len(view.results)
    if _TOOL in view.tools and looks < len(_HALVES):
        call = ToolCall(_TOOL, _half(view.pictures()[0], _HALVES[looks]))
        return Turn(f"I look closer at the {_HALVES[looks]} half of the figure.", (call,))
    return _guess(view)


def _guess(view: View) -> Turn:
    options = _OPTION.findall(view.question)
    return Turn(f"I know no geometry, so this is a guess. \\boxed{{{options[0] if options else 1}}}")


def _half(picture: Image.Image, side: str) -> JsonObject:
    """Arguments for a half of the box around everything that is not the paper's white."""
    ink = ImageOps.invert(picture.convert("L")).point(lambda level: 255 if level > 64 else 0)
    left, top, right, bottom = ink.getbbox() or (0, 0, picture.width, picture.height)
    middle = (left + right) / 2
    x0, x1 = (left, middle) if side == "left" else (middle, right)
    width, height = picture.size
    corners = {"x0": x0 / width, "y0": top / height, "x1": x1 / width, "y1": bottom / height}
    return {name: round(value, 3) for name, value in corners.items()}


GEO3K_ZOOM = Player("geo3k_zoom", "look closer with the tool zoom(x0, y0, x1, y1)", _play, _guess)
