"""Read the colours of the grid, find which symmetry or shift it keeps, and try every piece in the hole."""

import re

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUESTION = r"The grid of (\d+) by \d+ cells at the top is coloured by a rule and has a white hole of (\d+) by"
PICTURE = ""

Box = tuple[int, int, int, int]
Cells = NDArray[np.int64]


def solve(path: str, question: str) -> str:
    [(size, hole)] = [(int(a), int(b)) for a, b in re.findall(QUESTION, question)]
    image = Image.open(path).convert("RGB")
    pixels = np.asarray(image).astype(np.int64)
    first, *options = framed_boxes(pixels)
    grid = cell_colors(pixels, first, size)
    row, column = hole_corner(pixels, first, size, hole)
    is_seen = np.ones((size, size), dtype=bool)
    is_seen[row : row + hole, column : column + hole] = False
    kept = [pairs for pairs in regularities(size) if broken(grid, is_seen, pairs) == 0]
    scores = []
    for box in options:
        filled = grid.copy()
        filled[row : row + hole, column : column + hole] = cell_colors(pixels, box, hole)
        scores.append(sum(broken(filled, np.ones_like(is_seen), pairs) for pairs in kept))
    best = int(np.argmin(scores))
    if PICTURE:
        show(image, first, options[best], corner=(row, column), size=size)
    return chr(ord("A") + best)


def framed_boxes(pixels: Cells) -> list[Box]:
    """Boxes of the grids: their dark outline is a long run of dark pixels."""
    dark = pixels.max(axis=2) < 90
    found: list[Box] = []
    for y, row in enumerate(dark):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0])))).tolist()
        for left, right in zip(edges[::2], edges[1::2], strict=True):
            is_known = any(box[0] <= left <= box[2] and box[1] <= y <= box[3] for box in found)
            if right - left >= 60 and not is_known:
                found.append((left, y, right, y + right - left))
    return found


def cell_colors(pixels: Cells, box: Box, size: int) -> Cells:
    """Shape (size, size): the colour near the corner of each cell, as one number."""
    left, top, right, bottom = box
    xs = [int(left + (c + 0.2) * (right - left) / size) for c in range(size)]
    ys = [int(top + (r + 0.2) * (bottom - top) / size) for r in range(size)]
    return np.asarray(pixels[np.ix_(ys, xs)] @ np.array([65536, 256, 1]), dtype=np.int64)


def hole_corner(pixels: Cells, box: Box, size: int, hole: int) -> tuple[int, int]:
    """Row and column of the hole's first cell: the square of cells with the most paper."""
    left, top, right, bottom = box
    paper = pixels[top:bottom, left:right].min(axis=2) > 245
    cell = (right - left) / size
    places = [(r, c) for r in range(size - hole + 1) for c in range(size - hole + 1)]
    return max(
        places,
        key=lambda place: paper[
            round(place[0] * cell) : round((place[0] + hole) * cell),
            round(place[1] * cell) : round((place[1] + hole) * cell),
        ].sum(),
    )


def regularities(size: int) -> list[tuple[Cells, Cells]]:
    """Pairs of cells, as places in the flattened grid, that a symmetry or a short shift lets agree."""
    places = np.arange(size * size).reshape(size, size)
    images = (places[:, ::-1], places[::-1], places[::-1, ::-1], places.T)
    found = [(places.ravel(), image.ravel()) for image in images]
    for down in range(size // 2):
        for across in range(-(size // 2), size // 2 + 1):
            if (down, across) > (0, 0):
                start, stop = max(0, -across), size - max(0, across)
                before = places[: size - down, start:stop]
                found.append((before.ravel(), (before + down * size + across).ravel()))
    return found


def broken(grid: Cells, is_seen: NDArray[np.bool_], pairs: tuple[Cells, Cells]) -> int:
    """Pairs of which both cells are seen and differ."""
    one, other = pairs
    flat, seen = grid.ravel(), is_seen.ravel()
    return int(((flat[one] != flat[other]) & seen[one] & seen[other]).sum())


def show(image: Image.Image, grid: Box, option: Box, *, corner: tuple[int, int], size: int) -> None:
    """The grid with the chosen piece in its hole."""
    filled = image.crop(grid)
    cell = (grid[2] - grid[0]) / size
    filled.paste(image.crop(option), (round(corner[1] * cell), round(corner[0] * cell)))
    filled.save(PICTURE)
