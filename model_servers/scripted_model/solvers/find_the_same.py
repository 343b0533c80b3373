"""Cut out the figure of every panel and pair those that differ in the fewest pixels."""

import re
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

QUESTION = r"Of the (\d+) numbered figures, \d+ form (\d+) pairs of figures that are exactly the same"
PICTURE = ""

Box = tuple[int, int, int, int]
SMALLEST_PANEL_PX = 60


def solve(path: str, question: str) -> str:
    [(count, wanted)] = [(int(a), int(b)) for a, b in re.findall(QUESTION, question)]
    image = Image.open(path).convert("RGB")
    pixels = np.asarray(image).astype(np.int64)
    boxes = panel_boxes(pixels)[:count]
    masks = [figure_mask(pixels, box) for box in boxes]
    likeness = sorted(
        (int((masks[one] != masks[other]).sum()), one, other) for one, other in combinations(range(len(masks)), 2)
    )
    pairs: list[tuple[int, int]] = []
    for _, one, other in likeness:
        if len(pairs) < wanted and not {one, other} & {index for pair in pairs for index in pair}:
            pairs.append((one, other))
    if PICTURE:
        show(image, [(boxes[one], boxes[other]) for one, other in pairs])
    return ",".join(f"{one + 1}-{other + 1}" for one, other in sorted(pairs))


def panel_boxes(pixels: NDArray[np.int64]) -> list[Box]:
    """Boxes framed in grey, row by row."""
    grey = (pixels.max(axis=2) - pixels.min(axis=2) < 12) & (abs(pixels.max(axis=2) - 194) < 25)
    found: list[Box] = []
    for y, row in enumerate(grey):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0])))).tolist()
        for left, right in zip(edges[::2], edges[1::2], strict=True):
            is_known = any(box[0] <= left <= box[2] and box[1] <= y <= box[3] for box in found)
            if right - left >= SMALLEST_PANEL_PX and not is_known:
                found.append((left, y, right, y + right - left))
    return found


def figure_mask(pixels: NDArray[np.int64], box: Box) -> NDArray[np.bool_]:
    """The figure's ink inside the frame."""
    left, top, right, bottom = box
    inside = pixels[top + 3 : bottom - 3, left + 3 : right - 3]
    return np.asarray(inside.min(axis=2) < 200, dtype=bool)


def show(image: Image.Image, pairs: list[tuple[Box, Box]]) -> None:
    """The picture with a line from each figure to its like."""
    marked = image.copy()
    draw = ImageDraw.Draw(marked)
    for pair in pairs:
        middles = [((left + right) // 2, (top + bottom) // 2) for left, top, right, bottom in pair]
        draw.line(middles, fill=(255, 0, 255), width=4)
    marked.save(PICTURE)
