"""Cut out figures and shadows, turn the figures by quarters where allowed, and pair those that cover each other."""

import re

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

QUESTION = r"Above the line are (\d+) numbered figures, below it their black shadows in another order"
PICTURE = ""

Box = tuple[int, int, int, int]
SMALLEST_PANEL_PX = 100


def solve(path: str, question: str) -> str:
    count = int(re.findall(QUESTION, question)[0])
    turns = 4 if "may be turned" in question else 1
    image = Image.open(path).convert("RGB")
    pixels = np.asarray(image).astype(np.int64)
    boxes = panel_boxes(pixels)
    masks = [figure_mask(pixels, box) for box in boxes]
    likeness = sorted(
        (min(int((np.rot90(figure, turn) != shadow).sum()) for turn in range(turns)), number, letter)
        for number, figure in enumerate(masks[:count])
        for letter, shadow in enumerate(masks[count:])
    )
    found: dict[int, int] = {}
    for _, number, letter in likeness:
        if number not in found and letter not in found.values():
            found[number] = letter
    if PICTURE:
        show(image, [(boxes[number], boxes[count + letter]) for number, letter in found.items()])
    return ",".join(f"{number + 1}-{chr(ord('A') + found[number])}" for number in sorted(found))


def panel_boxes(pixels: NDArray[np.int64]) -> list[Box]:
    """Boxes framed in grey, row by row; the long grey line between figures and shadows is none."""
    grey = (pixels.max(axis=2) - pixels.min(axis=2) < 12) & (abs(pixels.max(axis=2) - 194) < 25)
    found: list[Box] = []
    for y, row in enumerate(grey):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0])))).tolist()
        for left, right in zip(edges[::2], edges[1::2], strict=True):
            is_known = any(box[0] <= left <= box[2] and box[1] <= y <= box[3] for box in found)
            if SMALLEST_PANEL_PX <= right - left < 0.8 * pixels.shape[1] and not is_known:
                found.append((left, y, right, y + right - left))
    return found


def figure_mask(pixels: NDArray[np.int64], box: Box) -> NDArray[np.bool_]:
    """What is not paper inside the frame."""
    left, top, right, bottom = box
    inside = pixels[top + 3 : bottom - 3, left + 3 : right - 3]
    return np.asarray(inside.min(axis=2) < 240, dtype=bool)


def show(image: Image.Image, pairs: list[tuple[Box, Box]]) -> None:
    """The picture with a line from each figure to its shadow."""
    marked = image.copy()
    for pair in pairs:
        middles = [((left + right) // 2, (top + bottom) // 2) for left, top, right, bottom in pair]
        ImageDraw.Draw(marked).line(middles, fill=(255, 0, 255), width=4)
    marked.save(PICTURE)
