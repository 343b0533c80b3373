"""Read the target and the parts as cells, and search for the parts that cover the target exactly."""

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUESTION = r"figure at the top can be put together from (\d+) of the (\d+) numbered parts"

Box = tuple[int, int, int, int]
Cells = frozenset[tuple[int, int]]
SMALLEST_PANEL_PX = 60


def solve(path: str, question: str) -> str:
    [(used, shown)] = [(int(a), int(b)) for a, b in re.findall(QUESTION, question)]
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(np.int64)
    boxes = panel_boxes(pixels)[: shown + 1]
    cell = cell_px(pixels, boxes[0])
    target, *parts = (figure_cells(figure_mask(pixels, box), cell) for box in boxes)
    for cover in covers(target, parts, frozenset()):
        if len(cover) == used:
            return ",".join(str(index + 1) for index in sorted(cover))
    raise ValueError("no set of parts covers the figure")


def panel_boxes(pixels: NDArray[np.int64]) -> list[Box]:
    """Boxes framed in grey, row by row; the line below the target is as wide as the picture."""
    grey = (pixels.max(axis=2) - pixels.min(axis=2) < 12) & (abs(pixels.max(axis=2) - 194) < 25)
    found: list[Box] = []
    for y, row in enumerate(grey):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0])))).tolist()
        for left, right in zip(edges[::2], edges[1::2], strict=True):
            side = right - left
            is_known = any(box[0] <= left <= box[2] and box[1] <= y <= box[3] for box in found)
            if side >= SMALLEST_PANEL_PX and not is_known and y + side <= len(grey) and grey[y : y + side, left].all():
                found.append((left, y, right, y + side))
    return found


def cell_px(pixels: NDArray[np.int64], box: Box) -> int:
    """From one cell of the black target to the next: the shortest run of black, and the grey line of two pixels."""
    left, top, right, bottom = box
    black = pixels[top:bottom, left:right].max(axis=2) < 90
    edges = (np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0])))) for row in black)
    return min(int((row[1::2] - row[::2]).min()) for row in edges if len(row)) + 2


def figure_mask(pixels: NDArray[np.int64], box: Box) -> NDArray[np.bool_]:
    """The figure inside the frame, trimmed; the lines between its cells belong to it."""
    left, top, right, bottom = box
    inked = pixels[top + 3 : bottom - 3, left + 3 : right - 3].min(axis=2) < 240
    ys, xs = np.flatnonzero(inked.any(axis=1)), np.flatnonzero(inked.any(axis=0))
    return np.asarray(inked[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1], dtype=bool)


def figure_cells(figure: NDArray[np.bool_], cell: int) -> Cells:
    middles = figure[cell // 2 :: cell, cell // 2 :: cell]
    return frozenset((int(r), int(c)) for r, c in np.argwhere(middles))


def covers(target: Cells, parts: list[Cells], used: frozenset[int]) -> Iterator[frozenset[int]]:
    """Sets of parts that fill the target: the part that fills the first free cell is tried next."""
    if not target:
        yield used
        return
    row, column = min(target)
    for index, part in enumerate(parts):
        if index not in used:
            top, left = min(part)
            moved = frozenset((r - top + row, c - left + column) for r, c in part)
            if moved <= target:
                yield from covers(target - moved, parts, used | {index})
