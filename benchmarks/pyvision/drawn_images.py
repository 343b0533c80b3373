"""Puzzles that a crop or a measurement answers and a glance does not, drawn from a seed, each with its exact gold."""

import random
from collections.abc import Callable
from fractions import Fraction

from PIL import Image, ImageDraw

from benchmarks.pyvision.clues import ImageClue, Question
from gym_core.datasets.images import PreparedImage, png_of

SOURCE = "drawn_images"
COLORS = {
    "red": (208, 48, 48),
    "green": (48, 150, 70),
    "blue": (52, 84, 204),
    "orange": (236, 140, 40),
    "purple": (132, 60, 160),
}
"""At least 60 apart in some channel."""
_PAPER, _LINE, _INK = (246, 246, 242), (200, 200, 200), (20, 20, 20)


def draw_image_questions(seed: int, per_kind: int) -> list[Question]:
    return [
        kind(f"{seed}-{name}-{index}", random.Random(f"pyvision_image/{seed}/{name}/{index}"))
        for name, kind in KINDS.items()
        for index in range(per_kind)
    ]


def _tiny_mark(id_: str, rng: random.Random) -> Question:
    """A dot of 3x3 pixels in one cell of a large grid: it is gone where the picture is shown small."""
    rows, columns, cell = rng.randint(7, 9), rng.randint(10, 12), 170
    picture, draw = _paper(columns * cell + 1, rows * cell + 1)
    for row in range(rows + 1):
        draw.line((0, row * cell, columns * cell, row * cell), fill=_LINE)
    for column in range(columns + 1):
        draw.line((column * cell, 0, column * cell, rows * cell), fill=_LINE)
    row, column = rng.randrange(rows), rng.randrange(columns)
    x, y = column * cell + rng.randint(10, cell - 12), row * cell + rng.randint(10, cell - 12)
    draw.rectangle((x, y, x + 2, y + 2), fill=_INK)
    asked = (
        f"The picture is a grid of {rows} rows and {columns} columns. One cell holds a tiny dark dot. Which one? "
        "Answer as (row,column), both counted from 1 starting at the top left."
    )
    return _question(id_, asked, f"({row + 1},{column + 1})", "fine detail", "coord", picture)


def _two_pictures(id_: str, rng: random.Random) -> Question:
    """Two grids of squares that are the same but for the colour of one."""
    rows, columns, cell = rng.randint(6, 9), rng.randint(8, 12), 40
    names = list(COLORS)
    cells = {(row, column): rng.choice(names) for row in range(rows) for column in range(columns)}
    changed = (rng.randrange(rows), rng.randrange(columns))
    others = cells | {changed: rng.choice([name for name in names if name != cells[changed]])}
    pictures = []
    for painted in (cells, others):
        picture, draw = _paper(columns * cell, rows * cell)
        for (row, column), name in painted.items():
            left, top = column * cell, row * cell
            draw.rectangle((left + 4, top + 4, left + cell - 5, top + cell - 5), fill=COLORS[name])
        pictures.append(picture)
    asked = (
        f"Both pictures are grids of {rows} rows and {columns} columns of coloured squares. They are the same but for "
        "one square. Which one? Answer as (row,column), both counted from 1 starting at the top left."
    )
    return _question(id_, asked, f"({changed[0] + 1},{changed[1] + 1})", "comparison", "coord", *pictures)


def _count_discs(id_: str, rng: random.Random) -> Question:
    """Discs that do not touch, in several colours; those of one are to be counted."""
    places = [(x, y) for x in range(24, 640, 46) for y in range(24, 480, 46)]
    rng.shuffle(places)
    wanted = rng.choice(list(COLORS))
    count = rng.randint(9, 25)
    others = [name for name in COLORS if name != wanted]
    picture, draw = _paper(640, 480)
    for index, (x, y) in enumerate(places[: count + rng.randint(30, 60)]):
        name = wanted if index < count else rng.choice(others)
        x, y, radius = x + rng.randint(-4, 4), y + rng.randint(-4, 4), rng.randint(9, 16)
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=COLORS[name])
    asked = f"How many {wanted} discs are in the picture? Answer with a number."
    return _question(id_, asked, str(count), "counting", "int", picture)


def _filled_part(id_: str, rng: random.Random) -> Question:
    """A bar, a part of it filled; its length is a multiple of the parts."""
    parts = rng.choice([5, 7, 8, 9, 11, 12])
    filled = Fraction(rng.randint(1, parts - 1), parts)
    unit, left, top = rng.randint(3, 4) * 12, rng.randint(10, 40), rng.randint(20, 80)
    length = unit * parts
    picture, draw = _paper(700, 160)
    draw.rectangle((left, top, left + length - 1, top + 39), fill=COLORS["orange"])
    end = left + length * filled.numerator // filled.denominator
    draw.rectangle((left, top, end - 1, top + 39), fill=COLORS["blue"])
    asked = "What part of the bar is blue? Answer with a fraction in lowest terms."
    gold = f"\\frac{{{filled.numerator}}}{{{filled.denominator}}}"
    return _question(id_, asked, gold, "measurement", None, picture)


KINDS: dict[str, Callable[[str, random.Random], Question]] = {
    "tiny_mark": _tiny_mark,
    "two_pictures": _two_pictures,
    "count_discs": _count_discs,
    "filled_part": _filled_part,
}


def _paper(width: int, height: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    picture = Image.new("RGB", (width, height), _PAPER)
    return picture, ImageDraw.Draw(picture)


def _question(id_: str, asked: str, gold: str, ability: str, kind: str | None, *pictures: Image.Image) -> Question:
    clues = tuple(ImageClue(PreparedImage.from_bytes(png_of(picture), row=id_)) for picture in pictures)
    return Question(
        id_, asked, gold, ability, SOURCE, clues, grader="math" if kind is None else "match", answer_kind=kind
    )
