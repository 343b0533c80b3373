"""What a player sees of a conversation: the question, the pictures shown since, and the tools it may call.

A player is for tasks whose tools bring pictures into the conversation, where a solver's program would have no file to
open. It looks at the very pixels that a model is sent.
"""

import io
import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from PIL import Image

from gym_core.capture.images import parse_data_url
from gym_core.datasets.images import PreparedImage
from model_servers.scripted_model.chat import Turn

MAX_PIXELS = 4_000_000
_OPTION = re.compile(r"^\(([A-Z])\)\s", re.MULTILINE)


@dataclass(frozen=True)
class View:
    question: str
    """Text of the user's last message."""
    image_urls: tuple[str, ...]
    """Of the pictures since that message, its own first, in the order in which they were shown."""
    results: tuple[str, ...]
    """Outputs of the tool calls since."""
    tools: Set[str]

    def pictures(self) -> list[Image.Image]:
        """The pictures decoded, as RGB. Raises ValueError for what is none."""
        return [_decoded(url) for url in self.image_urls]


@dataclass(frozen=True)
class Player:
    name: str
    question: str
    """A text that occurs in every question it knows."""
    play: Callable[[View], Turn]
    guess: Callable[[View], Turn]
    """The turn of one that looks at no picture: what an answer is worth without seeing."""
    needs: frozenset[str] = frozenset()
    """Tools without all of which it does not play."""


def player_for(players: Sequence[Player], question: str, tools: Set[str]) -> Player | None:
    return next((player for player in players if player.question in question and player.needs <= tools), None)


def guess(question: str, *, reason: str) -> Turn:
    """The first option; 1 where there are none."""
    options = _OPTION.findall(question)
    return Turn(f"{reason} This is a guess.\n\n{boxed(options[0] if options else '1', question)}")


def boxed(answer: str, question: str) -> str:
    """The answer in its box, between tags where the question asks for them."""
    box = f"\\boxed{{{answer}}}"
    return f"<answer>{box}</answer>" if "<answer>" in question else box


def _decoded(url: str) -> Image.Image:
    content = PreparedImage.from_bytes(parse_data_url(url), row="picture", max_pixels=MAX_PIXELS).content
    with Image.open(io.BytesIO(content)) as image:
        return image.convert("RGB")
