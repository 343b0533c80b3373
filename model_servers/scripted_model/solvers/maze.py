"""Read a maze off its pixels: find the wall raster, flood from the red star, see which opening the flood reaches."""

from collections import deque

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

QUESTION = r"(?i)\bmaze\b.*\bstar\b"
PICTURE = ""

Mask = NDArray[np.bool_]
Cell = tuple[int, int]

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
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))


def solve(path: str, question: str) -> str:
    image = Image.open(path).convert("RGB")
    pixels = np.asarray(image).astype(int)
    red, green, blue = pixels[..., 0], pixels[..., 1], pixels[..., 2]
    walls = (red < 80) & (green < 80) & (blue < 80)
    raster = Raster(walls)
    goal = raster.cell_at(_center((red > 150) & (green < 100) & (blue < 100)))
    before: dict[Cell, Cell | None] = {goal: None}
    openings: list[tuple[Cell, Cell]] = []
    queue = deque([goal])
    while queue:
        cell = queue.popleft()
        for step in STEPS:
            if raster.is_blocked(cell, step):
                continue
            other = (cell[0] + step[0], cell[1] + step[1])
            if not raster.holds(other):
                openings.append((cell, step))
            elif other not in before:
                before[other] = cell
                queue.append(other)
    if not openings:
        raise ValueError("no opening is reached from the star")
    cell, step = openings[0]
    way = [cell]
    while (inner := before[way[-1]]) is not None:
        way.append(inner)
    if PICTURE:
        show(image, [raster.center(passed) for passed in way])
    if "how many" in question.lower():
        return str(len(way))
    return _read_letter((blue > 150) & (red < 100) & (green < 130), raster.outside(cell, step))


class Raster:
    """Cells between the walls: a square block of `count` by `count`, `pitch` pixels each."""

    def __init__(self, walls: Mask) -> None:
        rows, columns = np.nonzero(walls)
        self.walls = walls
        self.top, self.left = int(rows.min()), int(columns.min())
        self.side = int(columns.max()) - self.left + 1
        self.thickness = _thickness(walls[:, self.left :])
        self.count = max(range(4, 41), key=self._fit)
        self.pitch = (self.side - self.thickness) / self.count

    def _fit(self, count: int) -> float:
        """How much darker the borders of so many cells would be than their middles."""
        darkness = self.walls[:, self.left : self.left + self.side].mean(axis=0)
        pitch = (self.side - self.thickness) / count
        borders = [darkness[round(index * pitch + self.thickness / 2)] for index in range(count)]
        middles = [darkness[int((index + 0.5) * pitch + self.thickness / 2)] for index in range(count)]
        return float(np.mean(borders) - 2 * np.mean(middles)) * min(1.0, pitch / (3 * self.thickness))

    def center(self, cell: Cell) -> tuple[int, int]:
        half = self.thickness / 2
        return (
            round(self.top + half + (cell[0] + 0.5) * self.pitch),
            round(self.left + half + (cell[1] + 0.5) * self.pitch),
        )

    def cell_at(self, point: tuple[float, float]) -> Cell:
        return int((point[0] - self.top) / self.pitch), int((point[1] - self.left) / self.pitch)

    def holds(self, cell: Cell) -> bool:
        return 0 <= cell[0] < self.count and 0 <= cell[1] < self.count

    def is_blocked(self, cell: Cell, step: Cell) -> bool:
        row, column = self.center(cell)
        reach = round(self.pitch / 2)
        edge = self.walls[
            row + step[0] * reach - 2 : row + step[0] * reach + 3,
            column + step[1] * reach - 2 : column + step[1] * reach + 3,
        ]
        return bool(edge.any())

    def outside(self, cell: Cell, step: Cell) -> tuple[slice, slice]:
        """The paper before an opening: three cells outwards, one to either side."""
        row, column = self.center((cell[0] + 2 * step[0], cell[1] + 2 * step[1]))
        reach = round(1.5 * self.pitch)
        return slice(max(0, row - reach), row + reach), slice(max(0, column - reach), column + reach)


def show(image: Image.Image, way: list[tuple[int, int]]) -> None:
    """The way from the opening to the star over the maze, twice as large; points are (row, column)."""
    ImageDraw.Draw(image).line([(column, row) for row, column in way], fill=(230, 90, 0), width=5)
    image.resize((image.width * 2, image.height * 2), Image.Resampling.NEAREST).save(PICTURE)


def _thickness(walls: Mask) -> int:
    """The commonest run of wall pixels in a row: vertical walls outnumber horizontal ones there."""
    runs: list[int] = []
    for row in walls:
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(int), [0]))))
        runs += (edges[1::2] - edges[::2]).tolist()
    return int(np.bincount(runs).argmax())


def _center(mask: Mask) -> tuple[float, float]:
    rows, columns = np.nonzero(mask)
    return float(rows.mean()), float(columns.mean())


def _read_letter(ink: Mask, window: tuple[slice, slice]) -> str:
    patch = ink[window]
    rows, columns = np.nonzero(patch)
    letter = patch[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    high, wide = letter.shape
    samples = [letter[int((r + 0.5) * high / 7), int((c + 0.5) * wide / 5)] for r in range(7) for c in range(5)]
    return max(
        LETTERS,
        key=lambda name: sum((mark == "#") == bool(on) for mark, on in zip(LETTERS[name], samples, strict=True)),
    )
