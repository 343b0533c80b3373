"""Count dots on lines: find the lattice, test the ink between its points, walk from each lettered disc."""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

QUESTION = r"(?i)\blines begins at a disc with its letter\b.*\bblack dots\b"
PICTURE = ""

Point = tuple[int, int]

LETTERS = {
    "A": ".###.#...##...#######...##...##...#",
    "B": "####.#...##...#####.#...##...#####.",
    "C": ".###.#...##....#....#....#...#.###.",
    "D": "####.#...##...##...##...##...#####.",
    "E": "######....#....####.#....#....#####",
    "F": "######....#....####.#....#....#....",
    "G": ".###.#...##....#.####...##...#.###.",
    "H": "#...##...##...#######...##...##...#",
}
"""Five columns by seven rows, row after row."""
SHOWN_COLORS = ((230, 0, 0), (0, 0, 230), (0, 150, 0), (240, 140, 0), (150, 0, 190), (0, 180, 210))
STEPS = ((1, 0), (0, 1), (1, 1), (1, -1), (2, 1), (1, 2), (2, -1), (1, -2))
"""One of every two opposite steps from a lattice point to another."""


def solve(path: str, question: str) -> str:
    image = Image.open(path).convert("RGB")
    sheet = Sheet(np.asarray(image).astype(np.int64))
    dots = {name: sheet.dots_on_line(start) for start, name in sheet.letters().items()}
    if PICTURE:
        show(image, dots)
    numbers = [len(dots[name]) for name in sorted(dots)]
    if "largest" in question:
        numbers.sort(reverse=True)
    return ",".join(map(str, numbers))


def show(image: Image.Image, dots: dict[str, list[Point]]) -> None:
    """Each counted dot in a ring, one colour of rings for each line."""
    draw = ImageDraw.Draw(image)
    for color, places in zip(SHOWN_COLORS, dots.values(), strict=False):
        for x, y in places:
            draw.ellipse((x - 11, y - 11, x + 11, y + 11), outline=color, width=3)
    image.save(PICTURE)


class Sheet:
    """The picture with the lattice found in it; lattice points are (column, row)."""

    def __init__(self, pixels: NDArray[np.int64]) -> None:
        self.pixels = pixels
        self.is_dark: NDArray[np.bool_] = pixels.max(axis=2) < 80
        self.is_paper: NDArray[np.bool_] = pixels.min(axis=2) > 240
        columns, rows = _centers(self.is_dark, axis=0), _centers(self.is_dark, axis=1)
        self.pitch = int(np.median(np.concatenate((np.diff(columns), np.diff(rows)))))
        self.left, self.top = columns[0] % self.pitch, rows[0] % self.pitch
        height, width = self.is_dark.shape
        self.points = [
            (column, row)
            for column in range((width - self.left) // self.pitch + 1)
            for row in range((height - self.top) // self.pitch + 1)
            if self.left + column * self.pitch < width and self.top + row * self.pitch < height
        ]
        self.colors = {point: self._label_color(point) for point in self.points}
        self.neighbours: dict[int, dict[Point, set[Point]]] = defaultdict(lambda: defaultdict(set))
        for point in self.points:
            for dx, dy in STEPS:
                self._note(point, (point[0] + dx, point[1] + dy))

    def pixel(self, point: Point) -> Point:
        return self.left + point[0] * self.pitch, self.top + point[1] * self.pitch

    def letters(self) -> dict[Point, str]:
        return {point: self._read(point) for point, color in self.colors.items() if color}

    def dots_on_line(self, start: Point) -> list[Point]:
        """Pixels of the dots on the line that leaves a lettered disc, walked to its other end."""
        ways = self.neighbours[self.colors[start]]
        line = [start]
        while ahead := [point for point in ways[line[-1]] if point not in line]:
            line.append(ahead[0])
        return [(x, y) for x, y in map(self.pixel, line) if self.is_dark[y, x]]

    def _label_color(self, point: Point) -> int:
        """The colour of a disc wide enough to hold a letter; 0 where there is none."""
        x, y = self.pixel(point)
        reach = self.pitch // 4 - 1
        ring = [(x - reach, y), (x + reach, y), (x, y - reach), (x, y + reach)]
        height, width = self.is_dark.shape
        if any(not (0 <= x < width and 0 <= y < height) for x, y in ring):
            return 0
        codes = {self._code(x, y) for x, y in ring}
        return codes.pop() if len(codes) == 1 else 0

    def _code(self, x: int, y: int) -> int:
        """A colour as a number; 0 for paper and for dots."""
        if self.is_paper[y, x] or self.is_dark[y, x]:
            return 0
        red, green, blue = self.pixels[y, x].tolist()
        return int(red << 16 | green << 8 | blue)

    def _note(self, point: Point, other: Point) -> None:
        """Join two points where one colour covers nearly all of the way between them, discs and dots left out."""
        (x0, y0), (x1, y1) = self.pixel(point), self.pixel(other)
        height, width = self.is_dark.shape
        if not (0 <= x1 < width and 0 <= y1 < height):
            return
        length = float(np.hypot(x1 - x0, y1 - y0))
        bare = 0.3 * self.pitch / length
        parts = np.linspace(bare, 1 - bare, 24)
        codes = [self._code(round(x0 + part * (x1 - x0)), round(y0 + part * (y1 - y0))) for part in parts]
        color = max(set(codes), key=codes.count)
        if color and codes.count(color) >= 0.7 * len(codes) and 0 not in codes:
            self.neighbours[color][point].add(other)
            self.neighbours[color][other].add(point)

    def _read(self, point: Point) -> str:
        x, y = self.pixel(point)
        reach = self.pitch // 4
        patch = self.is_paper[y - reach : y + reach + 1, x - reach : x + reach + 1].copy()
        across = np.arange(-reach, reach + 1)
        patch[across[:, None] ** 2 + across**2 > (reach - 1) ** 2] = False  # the paper around the disc
        rows, columns = np.nonzero(patch)
        letter = patch[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        high, wide = letter.shape
        samples = [
            bool(letter[int((r + 0.5) * high / 7), int((c + 0.5) * wide / 5)]) for r in range(7) for c in range(5)
        ]
        return max(LETTERS, key=lambda name: sum((a == "#") == b for a, b in zip(LETTERS[name], samples, strict=True)))


def _centers(mask: NDArray[np.bool_], axis: int) -> list[int]:
    """Middles of the bands that the dots throw on one side of the picture."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.any(axis=axis).astype(int), [0]))))
    return [(int(start) + int(stop) - 1) // 2 for start, stop in zip(edges[::2], edges[1::2], strict=True)]
