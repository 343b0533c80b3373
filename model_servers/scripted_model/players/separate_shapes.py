"""Count the shapes of a colour by the tool that counts them, and answer with what it said."""

import re

from model_servers.scripted_model.chat import ToolCall, Turn
from model_servers.scripted_model.players.contract import Player, View

_TOOL = "count_color"
_COLOR = re.compile(r"How many separate ([a-z]+) shapes")
_COUNT = re.compile(r"^(\d+) connected parts", re.MULTILINE)


def _play(view: View) -> Turn:
    color = _COLOR.search(view.question)
    if color and _TOOL in view.tools and not view.results:
        return Turn(f"I count what is {color[1]}.", (ToolCall(_TOOL, {"color": color[1]}),))
    counted = _COUNT.search(view.results[0]) if view.results else None
    return Turn(f"The tool counted them. \\boxed{{{counted[1]}}}") if counted else _guess(view)


def _guess(view: View) -> Turn:
    return Turn("I did not count. \\boxed{1}")


SEPARATE_SHAPES = Player("separate_shapes", " shapes are in the picture?", _play, _guess)
