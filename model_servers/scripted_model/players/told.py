"""What image tools tell in words, read: boxes with their areas, numbers of pictures, colours, shares. Fractions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_BOX = re.compile(r"^\[([\d.]+), ([\d.]+), ([\d.]+), ([\d.]+)\](?:: area (\d+) px)?", re.MULTILINE)
_PICTURE = re.compile(r"It is image (\d+)\.")
_COUNT = re.compile(r"^(\d+) ")
_COLOUR = re.compile(r"#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})")
_SHARE = re.compile(r"([\d.]+)% of the pixels differ")


@dataclass(frozen=True)
class Found:
    """A box that a tool told of, as fractions of its image."""

    x0: float
    y0: float
    x1: float
    y1: float
    area_px: int = 0

    @property
    def centre(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2

    @property
    def size(self) -> tuple[float, float]:
        return self.x1 - self.x0, self.y1 - self.y0

    def holds(self, point: tuple[float, float]) -> bool:
        return self.x0 <= point[0] <= self.x1 and self.y0 <= point[1] <= self.y1

    def within(self, margin: float) -> list[float]:
        """Corners of the box without a margin on each side, a share of its width and height."""
        width, height = self.size
        across, down = width * margin, height * margin
        corners = (self.x0 + across, self.y0 + down, self.x1 - across, self.y1 - down)
        return [round(edge, 4) for edge in corners]


def boxes_in(text: str) -> list[Found]:
    return [Found(float(m[1]), float(m[2]), float(m[3]), float(m[4]), int(m[5] or 0)) for m in _BOX.finditer(text)]


def count_in(text: str) -> int:
    return int(_one(_COUNT, text)[1])


def picture_in(text: str) -> int:
    """Number of the picture that a call made."""
    return int(_one(_PICTURE, text)[1])


def colour_in(text: str) -> tuple[int, int, int]:
    red, green, blue = (int(channel, 16) for channel in _one(_COLOUR, text).groups())
    return red, green, blue


def share_in(text: str) -> float:
    return float(_one(_SHARE, text)[1])


def in_reading_order(boxes: Sequence[Found]) -> list[Found]:
    """Row by row from the top, each from the left; boxes whose centres are on one height are a row."""
    rows: list[list[Found]] = []
    for box in sorted(boxes, key=lambda b: b.centre[1]):
        if rows and abs(rows[-1][0].centre[1] - box.centre[1]) < box.size[1] / 2:
            rows[-1].append(box)
        else:
            rows.append([box])
    return [box for row in rows for box in sorted(row, key=lambda b: b.x0)]


def _one(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.search(text)
    if found is None:
        raise ValueError(f"no {pattern.pattern!r} in {text[:60]!r}")
    return found
