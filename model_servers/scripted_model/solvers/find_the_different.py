"""Cut the grid along its lines, trim each figure to its ink, and look for the one that differs from the rest."""

import re

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUESTION = r"grid of (\d+) rows and (\d+) columns\. Every cell shows the same figure, except one"
PICTURE = ""

Box = tuple[int, int, int, int]
MASK_SIZE = (35, 25)  # rows, columns: each figure is compared at this size


def solve(path: str, question: str) -> str:
    image = Image.open(path).convert("RGB")
    [(rows, columns)] = [(int(r), int(c)) for r, c in re.findall(QUESTION, question)]
    pixels = np.asarray(image).astype(np.int64)
    left, top, right, bottom = grid_box(pixels)
    width, height = (right - left) / columns, (bottom - top) / rows
    boxes = [
        (round(left + c * width), round(top + r * height), round(left + (c + 1) * width), round(top + (r + 1) * height))
        for r in range(rows)
        for c in range(columns)
    ]
    masks = np.array([figure_mask(pixels[y0 + 2 : y1 - 1, x0 + 2 : x1 - 1]) for x0, y0, x1, y1 in boxes])
    usual = np.median(masks, axis=0)
    odd = int(np.abs(masks - usual).sum(axis=(1, 2)).argmax())
    if PICTURE:
        show(image, boxes[odd])
    return f"({odd // columns + 1},{odd % columns + 1})"


def grid_box(pixels: NDArray[np.int64]) -> Box:
    """Outer box of the grid: from the first to the last pixel that is not paper."""
    marked = pixels.min(axis=2) < 245
    ys, xs = np.flatnonzero(marked.any(axis=1)), np.flatnonzero(marked.any(axis=0))
    return int(xs[0]), int(ys[0]), int(xs[-1]), int(ys[-1])


def figure_mask(cell: NDArray[np.int64]) -> NDArray[np.float64]:
    """The cell's ink, trimmed and scaled to one size. Grid lines are pale and grey, figures dark or coloured."""
    ink = (cell.max(axis=2) - cell.min(axis=2) > 60) | (cell.max(axis=2) < 90)
    ys, xs = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    if not len(ys):
        return np.zeros(MASK_SIZE)
    trimmed = Image.fromarray(ink[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1].astype(np.uint8) * 255)
    return np.asarray(trimmed.resize(MASK_SIZE[::-1], Image.Resampling.NEAREST)) / 255.0


def show(image: Image.Image, box: Box) -> None:
    """The found cell with its neighbours around it."""
    left, top, right, bottom = box
    wide, high = right - left, bottom - top
    crop = image.crop((left - wide, top - high, right + wide, bottom + high))
    crop.resize((crop.width * 2, crop.height * 2), Image.Resampling.NEAREST).save(PICTURE)
