"""Read the colours of all grids, reflect the one at the top, and look for it among the numbered ones."""

import re

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUESTION = r"The (\d+) by \d+ grid of coloured cells at the top is reflected in the dashed line"
PICTURE = ""

Box = tuple[int, int, int, int]
SMALLEST_GRID_PX = 80


def solve(path: str, question: str) -> str:
    size = int(re.findall(QUESTION, question)[0])
    image = Image.open(path).convert("RGB")
    pixels = np.asarray(image).astype(np.int64)
    first, second, *options = in_reading_order(grid_boxes(pixels))
    source, unknown = (first, second) if is_colored(pixels, first) else (second, first)
    cells = cell_colors(pixels, source, size)
    is_beside = abs(source[1] - unknown[1]) < abs(source[0] - unknown[0])
    wanted = cells[:, ::-1] if is_beside else cells[::-1]
    differences = [int(np.abs(cell_colors(pixels, box, size) - wanted).sum()) for box in options]
    best = int(np.argmin(differences))
    if PICTURE:
        show(image, source, options[best])
    return chr(ord("A") + best)


def grid_boxes(pixels: NDArray[np.int64]) -> list[Box]:
    """Boxes of the large squares: each is framed in dark lines, so its outline is one long run of dark pixels."""
    dark = pixels.max(axis=2) < 90
    found: list[Box] = []
    for y in range(dark.shape[0]):
        for left, right in long_runs(dark[y]):
            is_known = any(box[0] - 2 <= left <= box[2] and box[1] <= y <= box[3] for box in found)
            if not is_known:
                side = right - left
                found.append((left, y, right, min(y + side, dark.shape[0])))
    return found


def long_runs(row: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0])))).tolist()
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= SMALLEST_GRID_PX]


def in_reading_order(boxes: list[Box]) -> list[Box]:
    """Row by row, left to right; boxes of a row begin at about the same height."""
    return sorted(boxes, key=lambda box: (round(box[1] / 20), box[0]))


def is_colored(pixels: NDArray[np.int64], box: Box) -> bool:
    inside = pixels[box[1] + 3 : box[3] - 3, box[0] + 3 : box[2] - 3]
    return bool((inside.max(axis=2) - inside.min(axis=2) > 40).mean() > 0.5)


def cell_colors(pixels: NDArray[np.int64], box: Box, size: int) -> NDArray[np.int64]:
    """Shape (size, size, 3): the colour in the middle of each cell."""
    left, top, right, bottom = box
    xs = [int(left + (c + 0.5) * (right - left) / size) for c in range(size)]
    ys = [int(top + (r + 0.5) * (bottom - top) / size) for r in range(size)]
    return pixels[np.ix_(ys, xs)]


def show(image: Image.Image, source: Box, option: Box) -> None:
    """The grid at the top and the chosen one, side by side, three times as large."""
    left, right = image.crop(source), image.crop(option)
    pair = Image.new("RGB", (left.width + right.width + 20, max(left.height, right.height)), "white")
    pair.paste(left, (0, 0))
    pair.paste(right, (left.width + 20, 0))
    pair.resize((pair.width * 3, pair.height * 3), Image.Resampling.NEAREST).save(PICTURE)
