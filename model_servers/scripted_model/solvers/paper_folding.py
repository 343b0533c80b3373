"""Find creases and punched holes, mirror the holes in each crease from last to first, and compare the sheets."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUESTION = r"A square sheet of paper is folded along the dashed red lines"
PICTURE = ""

Box = tuple[int, int, int, int]
Points = NDArray[np.float64]
CELLS = 8
SMALLEST_SHEET_PX = 100
CREASE = (220, 38, 38)


def solve(path: str, question: str) -> str:
    image = Image.open(path).convert("RGB")
    pixels = np.asarray(image).astype(np.int64)
    boxes = sheet_boxes(pixels)
    steps = [box for box in boxes if abs(box[1] - boxes[0][1]) < 20]
    options = boxes[len(steps) :]
    holes = hole_middles(pixels, steps[-1])
    for box in reversed(steps[:-1]):
        holes = np.concatenate([holes, mirrored(holes, *crease(pixels, box))])
    side = boxes[0][2] - boxes[0][0]
    wanted = set(map(tuple, (holes * CELLS // side).astype(int).tolist()))
    differences = [
        len(wanted ^ set(map(tuple, (hole_middles(pixels, box) * CELLS // side).astype(int).tolist())))
        for box in options
    ]
    best = int(np.argmin(differences))
    if PICTURE:
        left, top, right, bottom = options[best]
        crop = image.crop((left, top, right, bottom + 40))
        crop.resize((crop.width * 3, crop.height * 3), Image.Resampling.NEAREST).save(PICTURE)
    return chr(ord("A") + best)


def sheet_boxes(pixels: NDArray[np.int64]) -> list[Box]:
    """Boxes of the squares, row by row: each has a straight outline, dark or grey, on its whole upper side."""
    marked = pixels.max(axis=2) < 230
    found: list[Box] = []
    for y, row in enumerate(marked):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0])))).tolist()
        for left, right in zip(edges[::2], edges[1::2], strict=True):
            is_known = any(box[0] - 4 <= left <= box[2] and box[1] <= y <= box[3] + 4 for box in found)
            is_square = is_line_down(marked, left, y, right - left)
            if right - left >= SMALLEST_SHEET_PX and is_square and not is_known:
                found.append((left, y, right, y + right - left))
    return found


def is_line_down(marked: NDArray[np.bool_], x: int, y: int, length: int) -> bool:
    """Near x: the end of a crease may stick out of its sheet's corner."""
    return bool(marked[y : y + length, x : x + 3].mean(axis=0).max(initial=0) > 0.9)


def hole_middles(pixels: NDArray[np.int64], box: Box) -> Points:
    """Shape (holes, 2): x and y from the box's corner, of the cells whose middle is dark all around."""
    left, top, right, _ = box
    middles = [(2 * index + 1) * (right - left) / (2 * CELLS) for index in range(CELLS)]
    # A dot of the middle alone may be the edge of a folded sheet.
    dark = [
        (x, y)
        for y in middles
        for x in middles
        if pixels[int(top + y) - 3 : int(top + y) + 4, int(left + x) - 3 : int(left + x) + 4].max() < 60
    ]
    return np.array(dark, dtype=np.float64).reshape(-1, 2)


def crease(pixels: NDArray[np.int64], box: Box) -> tuple[Points, Points]:
    """A point of the red line and its direction: upright, level, or along a diagonal."""
    left, top, right, bottom = box
    ys, xs = np.nonzero((pixels[top:bottom, left:right] == CREASE).all(axis=2))
    width, height = np.ptp(xs), np.ptp(ys)
    is_falling = ((xs - xs.mean()) * (ys - ys.mean())).sum() > 0
    step = (0, 1) if height > 4 * width else (1, 0) if width > 4 * height else (1, 1 if is_falling else -1)
    return np.array([xs.mean(), ys.mean()]), np.array(step, dtype=np.float64)


def mirrored(points: Points, middle: Points, step: Points) -> Points:
    """Shape (points, 2): mirror images in the line through `middle` along `step`."""
    across = np.array([-step[1], step[0]]) / np.hypot(step[0], step[1])
    offsets: Points = (points - middle) @ across
    return np.asarray(points - 2 * np.outer(offsets, across), dtype=np.float64)
