"""Follow crossing lines on the pixels: cut the ink into pieces at the gaps, then join pieces that go on straight."""

from collections import deque

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

QUESTION = r"(?i)\blines starts at a number on the left and ends at a letter\b"
PICTURE = ""

SHOWN_COLORS = ((220, 0, 0), (0, 0, 230), (0, 150, 0), (240, 140, 0), (150, 0, 190), (0, 180, 210), (110, 70, 30))
LONGEST_GAP = 48
"""Pixels from left to right that a line may be hidden behind another."""
LAP = 8
"""Columns that two slanted ends may share although the line is broken between them."""
CUT = 4
"""Columns at either end of a piece where the cut is slanted and the middle of the ink is not the middle of the line."""
STUB = 18
"""Columns from which the direction of an end is taken."""


class Piece:
    """One stretch of unbroken ink; runs from left to right without turning back."""

    def __init__(self, rows: NDArray[np.intp], columns: NDArray[np.intp], color: int) -> None:
        self.color = color
        self.left, self.right = int(columns.min()), int(columns.max())
        width = self.right - self.left + 1
        counts = np.bincount(columns - self.left, minlength=width)
        self.middles = np.bincount(columns - self.left, weights=rows, minlength=width) / np.maximum(counts, 1)
        self.cut = min(CUT, max(0, (width - 6) // 2))

    def start(self, x: float) -> tuple[float, float]:
        """Height at `x` and slope, going on straight from the left end."""
        return self._straight(range(self.cut, min(self.cut + STUB, len(self.middles) - self.cut)), x)

    def end(self, x: float) -> tuple[float, float]:
        stop = len(self.middles) - self.cut
        return self._straight(range(max(self.cut, stop - STUB), stop), x)

    def _straight(self, span: range, x: float) -> tuple[float, float]:
        slope, height = np.polyfit(np.array(span), self.middles[span.start : span.stop], 1)
        return float(height + slope * (x - self.left)), float(slope)


def solve(path: str, question: str) -> str:
    del question  # one question is asked of these pictures
    image = Image.open(path).convert("RGB")
    pixels = np.asarray(image).astype(np.int64)
    code = (pixels[..., 0] << 16) | (pixels[..., 1] << 8) | pixels[..., 2]
    left, right = _widest_band((code != 0xFFFFFF).any(axis=0))
    code[:, :left] = code[:, right:] = 0xFFFFFF
    pieces = [piece for color in np.unique(code) if color != 0xFFFFFF for piece in _pieces(code == color, int(color))]
    onward = _join(pieces)
    starts = sorted((piece for piece in pieces if piece.left < left + 6), key=lambda piece: piece.middles[0])
    ends = sorted((piece for piece in pieces if piece.right > right - 7), key=lambda piece: piece.middles[-1])
    lines = [_follow(onward, start, ends) for start in starts]
    if PICTURE:
        show(image, lines)
    return ",".join(f"{index + 1}-{chr(ord('A') + ends.index(line[-1]))}" for index, line in enumerate(lines))


def show(image: Image.Image, lines: list[list[Piece]]) -> None:
    """Every line in a colour of its own, its pieces joined over the gaps."""
    draw = ImageDraw.Draw(image)
    for index, line in enumerate(lines):
        points = [(piece.left + at, round(float(y))) for piece in line for at, y in enumerate(piece.middles)]
        draw.line(points, fill=SHOWN_COLORS[index % len(SHOWN_COLORS)], width=7)
    image.save(PICTURE)


def _follow(onward: dict[Piece, Piece], start: Piece, ends: list[Piece]) -> list[Piece]:
    line = [start]
    while line[-1] not in ends:
        if line[-1] not in onward:
            raise ValueError(f"the line is lost at column {line[-1].right}")
        line.append(onward[line[-1]])
    return line


def _widest_band(is_inked: NDArray[np.bool_]) -> tuple[int, int]:
    """The lines, between the numbers on the left and the letters on the right."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], is_inked.astype(int), [0]))))
    bands = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
    left, right = max(bands, key=lambda band: band[1] - band[0])
    return int(left), int(right)


def _pieces(ink: NDArray[np.bool_], color: int) -> list[Piece]:
    """Connected parts of one colour, specks left out."""
    free = {(int(row), int(column)) for row, column in zip(*np.nonzero(ink), strict=True)}
    found = []
    while free:
        queue = deque([free.pop()])
        part = []
        while queue:
            row, column = queue.popleft()
            part.append((row, column))
            for near in [(row + down, column + across) for down in (-1, 0, 1) for across in (-1, 0, 1)]:
                if near in free:
                    free.remove(near)
                    queue.append(near)
        places = np.array(part)
        if np.ptp(places[:, 1]) >= 4:
            found.append(Piece(places[:, 0], places[:, 1], color))
    return found


def _join(pieces: list[Piece]) -> dict[Piece, Piece]:
    """Each piece with the one it goes on as: the straightest joints first, no end used twice."""
    joints = sorted(
        (_bend(before, after), i, j)
        for i, before in enumerate(pieces)
        for j, after in enumerate(pieces)
        if before is not after and before.color == after.color and -LAP < after.left - before.right < LONGEST_GAP
    )
    onward: dict[Piece, Piece] = {}
    taken: set[int] = set()
    for _, i, j in joints:
        if pieces[i] not in onward and j not in taken:
            onward[pieces[i]] = pieces[j]
            taken.add(j)
    return onward


def _bend(before: Piece, after: Piece) -> float:
    """How badly two pieces agree on height and slope half-way over the gap, in pixels."""
    x = (before.right + after.left) / 2
    height, slope = before.end(x)
    height_after, slope_after = after.start(x)
    return abs(height - height_after) + 12 * abs(slope - slope_after)
