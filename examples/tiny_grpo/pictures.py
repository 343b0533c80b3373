"""The task: pictures of one colour with a little noise, and the rows that ask for its name."""

import io
import random
from dataclasses import dataclass

from PIL import Image

from gym_core.capture.images import make_data_url
from gym_core.types.wire import JsonObject

COLOURS = {"red": (220, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 220), "yellow": (230, 220, 20)}
"""Name to RGB. With four of them a policy that does not look is right a quarter of the time."""
QUESTION = "What colour is the image? Answer in \\boxed{}."
SIDE_PX = 56
_NOISE = 12


@dataclass(frozen=True)
class Task:
    colour: str
    png: bytes

    def row(self) -> JsonObject:
        """A flat row, as POST /v1/rollouts takes it."""
        url = make_data_url(self.png)
        content = [
            {"type": "input_image", "image_url": url, "detail": "auto"},
            {"type": "input_text", "text": QUESTION},
        ]
        body = {"input": [{"type": "message", "role": "user", "content": content}]}
        return {"responses_create_params": body, "colour": self.colour}


def draw_task(rng: random.Random, *, is_blind: bool = False) -> Task:
    """A task of a random colour. Blind: its picture is black, so that nothing in it tells the answer."""
    colour = rng.choice(list(COLOURS))
    shade = tuple(min(255, max(0, value + rng.randint(-_NOISE, _NOISE))) for value in COLOURS[colour])
    picture = Image.new("RGB", (SIDE_PX, SIDE_PX), (0, 0, 0) if is_blind else shade)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return Task(colour, file.getvalue())
