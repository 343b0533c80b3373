"""The pictures: 8x8 tiles, 35 of the 64 in one colour of the palette, the others in the rest of it, each shade a
little off. The same seed gives the same pixels in every process and on every machine."""

import random
from dataclasses import dataclass

from PIL import Image, ImageDraw

PALETTE = {
    "red": (210, 40, 40),
    "green": (40, 160, 60),
    "blue": (45, 75, 210),
    "yellow": (235, 210, 50),
    "orange": (240, 135, 30),
    "purple": (130, 50, 160),
    "black": (30, 30, 30),
    "white": (230, 230, 230),
}
"""At least 75 apart in some channel: a shade never reaches the next colour."""
SIDE_PX, TILES = 128, 8
DOMINANT_TILES = 35
"""55 % of 64."""
SHADE = 18
"""How far each channel of a tile may be off."""
PICTURES = 3


@dataclass(frozen=True)
class Recall:
    """One task: pictures in the order in which they are shown, and the most frequent colour of each."""

    pictures: tuple[Image.Image, ...]
    colors: tuple[str, ...]


def draw_recall(seed: int, index: int) -> Recall:
    # A string seed is hashed by SHA-512, so it is the same everywhere.
    rng = random.Random(f"dominant_color/{seed}/{index}")
    colors = tuple(rng.choice(list(PALETTE)) for _ in range(PICTURES))
    return Recall(tuple(_picture(color, rng) for color in colors), colors)


def _picture(color: str, rng: random.Random) -> Image.Image:
    others = [name for name in PALETTE if name != color]
    names = [color] * DOMINANT_TILES + [rng.choice(others) for _ in range(TILES * TILES - DOMINANT_TILES)]
    rng.shuffle(names)
    picture = Image.new("RGB", (SIDE_PX, SIDE_PX))
    draw = ImageDraw.Draw(picture)
    side = SIDE_PX // TILES
    for index, name in enumerate(names):
        x, y = index % TILES * side, index // TILES * side
        shade = tuple(channel + rng.randint(-SHADE, SHADE) for channel in PALETTE[name])
        draw.rectangle((x, y, x + side - 1, y + side - 1), fill=shade)
    return picture
