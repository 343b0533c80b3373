"""Rebuild a metro map from its pixels: rings are stations, coloured ink between two rings is a ride, names are read."""

import re
from collections import defaultdict, deque

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

QUESTION = r"(?i)\bmetro map\b.*\bfrom station (\w+) to station (\w+)"
PICTURE = ""

Pixel = tuple[int, int]
Place = tuple[float, float]

GLYPHS = {
    "A": ".###.#...##...#######...##...##...#",
    "B": "####.#...##...#####.#...##...#####.",
    "C": ".###.#...##....#....#....#...#.###.",
    "D": "####.#...##...##...##...##...#####.",
    "E": "######....#....####.#....#....#####",
    "F": "######....#....####.#....#....#....",
    "G": ".###.#...##....#.####...##...#.###.",
    "H": "#...##...##...#######...##...##...#",
    "J": "..###...#....#....#....#.#..#..##..",
    "K": "#...##..#.#.#..##...#.#..#..#.#...#",
    "L": "#....#....#....#....#....#....#####",
    "M": "#...###.###.#.##.#.##...##...##...#",
    "N": "#...###..###..##.#.##..###..###...#",
    "O": ".###.#...##...##...##...##...#.###.",
    "P": "####.#...##...#####.#....#....#....",
    "Q": ".###.#...##...##...##.#.##..#..##.#",
    "R": "####.#...##...#####.#.#..#..#.#...#",
    "S": ".#####....#.....###.....#....#####.",
    "T": "#####..#....#....#....#....#....#..",
    "U": "#...##...##...##...##...##...#.###.",
    "V": "#...##...##...##...##...#.#.#...#..",
    "W": "#...##...##...##.#.##.#.###.###...#",
    "X": "#...##...#.#.#...#...#.#.#...##...#",
    "Y": "#...##...#.#.#...#....#....#....#..",
    "Z": "#####....#...#...#...#...#....#####",
    "0": ".###.#...##..###.#.###..##...#.###.",
    "2": ".###.#...#....#...#...#...#...#####",
    "3": "#####...#...#.....#.....##...#.###.",
    "4": "...#...##..#.#.#..#.#####...#....#.",
    "5": "######....####.....#....##...#.###.",
    "6": "..##..#...#....####.#...##...#.###.",
    "7": "#####....#...#...#...#....#....#...",
    "8": ".###.#...##...#.###.#...##...#.###.",
    "9": ".###.#...##...#.####....#...#..##..",
}
"""Five columns by seven rows, row after row. Without I and 1, which do not fill their frame."""


def solve(path: str, question: str) -> str:
    asked = re.search(QUESTION, question)
    if asked is None:
        raise ValueError("the question names no two stations")
    image = Image.open(path).convert("RGB")
    pixels = np.asarray(image).astype(np.int64)
    shapes = [Shape(part) for part in _parts(pixels.max(axis=2) < 80)]
    rings = [shape for shape in shapes if shape.is_ring(pixels)]
    names = _names(rings, [shape for shape in shapes if shape not in rings and shape.height >= 10])
    rides = _rides(pixels, rings)
    start, end = (rings[names.index(name)] for name in asked.groups())
    way = _shortest_way(rides, start, end)
    if PICTURE:
        show(image, way)
    return str(len(way) - 2 if "neither" in question else len(way))


class Shape:
    """A connected part of the ink."""

    def __init__(self, part: list[Pixel]) -> None:
        rows, columns = [row for row, _ in part], [column for _, column in part]
        self.pixels = set(part)
        self.top, self.left = min(rows), min(columns)
        self.height, self.width = max(rows) - self.top + 1, max(columns) - self.left + 1
        self.center: Place = (self.top + (self.height - 1) / 2, self.left + (self.width - 1) / 2)

    def is_ring(self, pixels: NDArray[np.int64]) -> bool:
        """As wide as high, paper in the middle, and less paper than a square would leave in the corners."""
        row, column = round(self.center[0]), round(self.center[1])
        is_round = (self.top, self.left) not in self.pixels
        return bool(self.height == self.width >= 13 and is_round and pixels[row, column].min() > 240)

    def read(self) -> str:
        samples = [
            (self.top + int((r + 0.5) * self.height / 7), self.left + int((c + 0.5) * self.width / 5)) in self.pixels
            for r in range(7)
            for c in range(5)
        ]
        return max(GLYPHS, key=lambda name: sum((a == "#") == b for a, b in zip(GLYPHS[name], samples, strict=True)))

    def distance(self, place: Place) -> float:
        return float(np.hypot(self.center[0] - place[0], self.center[1] - place[1]))


def show(image: Image.Image, way: list[Shape]) -> None:
    """The map with the stations of the way filled."""
    draw = ImageDraw.Draw(image)
    for ring in way:
        draw.ellipse((ring.left, ring.top, ring.left + ring.width - 1, ring.top + ring.height - 1), fill=(230, 0, 0))
    image.save(PICTURE)


def _parts(mask: NDArray[np.bool_]) -> list[list[Pixel]]:
    """Connected parts of a mask, corners counted as touching."""
    free = {(int(row), int(column)) for row, column in zip(*np.nonzero(mask), strict=True)}
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
        found.append(part)
    return found


def _names(rings: list[Shape], glyphs: list[Shape]) -> list[str]:
    """The name beside each ring: glyphs in a row make a word, a word belongs to the nearest ring."""
    words: list[list[Shape]] = []
    for glyph in sorted(glyphs, key=lambda shape: shape.left):
        for word in words:
            if abs(word[-1].top - glyph.top) <= 2 and 0 < glyph.left - word[-1].left <= 1.5 * word[-1].width:
                word.append(glyph)
                break
        else:
            words.append([glyph])
    names = [""] * len(rings)
    for word in words:
        middle = (word[0].center[0], (word[0].center[1] + word[-1].center[1]) / 2)
        nearest = min(range(len(rings)), key=lambda index: rings[index].distance(middle))
        names[nearest] = "".join(glyph.read() for glyph in word)
    return names


def _rides(pixels: NDArray[np.int64], rings: list[Shape]) -> dict[Shape, set[Shape]]:
    """Rings joined by a part of one colour that touches both."""
    code = (pixels[..., 0] << 16) | (pixels[..., 1] << 8) | pixels[..., 2]
    is_colored = pixels.max(axis=2) - pixels.min(axis=2) > 40
    rides: dict[Shape, set[Shape]] = defaultdict(set)
    for color in np.unique(code[is_colored]):
        for part in _parts(code == color):
            ink = np.array(part)
            touched = [ring for ring in rings if _is_touching(ink, ring)]
            for ring in touched:
                rides[ring].update(other for other in touched if other is not ring)
    return rides


def _is_touching(ink: NDArray[np.int64], ring: Shape) -> bool:
    distances = np.hypot(ink[:, 0] - ring.center[0], ink[:, 1] - ring.center[1])
    return bool(distances.min() <= ring.width / 2 + 2)


def _shortest_way(rides: dict[Shape, set[Shape]], start: Shape, end: Shape) -> list[Shape]:
    before: dict[Shape, Shape | None] = {start: None}
    queue = deque([start])
    while queue:
        ring = queue.popleft()
        for other in rides[ring]:
            if other not in before:
                before[other] = ring
                queue.append(other)
    if end not in before:
        raise ValueError("no ride leads to the second station")
    way = [end]
    while (ring_before := before[way[-1]]) is not None:
        way.append(ring_before)
    return way
