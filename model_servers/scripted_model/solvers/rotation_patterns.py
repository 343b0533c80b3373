"""Turn each picture until it lies on the next one, turn the last by that angle too, and look for it in the options."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUESTION = r"a figure is turned, from each panel to the next, by the same angle"
PICTURE = ""

Box = tuple[int, int, int, int]
SMALLEST_PANEL_PX = 100
STEP_DEG = 5


def solve(path: str, question: str) -> str:
    image = Image.open(path).convert("RGB")
    pixels = np.asarray(image).astype(np.int64)
    boxes = framed_boxes(pixels)
    top = boxes[0][1]
    shown = [box for box in boxes if box[1] == top][:-1]
    options = [box for box in boxes if box[1] != top]
    series = [figure(pixels, box) for box in shown]
    turned = {angle: [turn(mask, angle) for mask in series] for angle in range(0, 360, STEP_DEG)}
    step = min(
        turned,
        key=lambda angle: sum(
            difference(moved, after) for moved, after in zip(turned[angle], series[1:], strict=False)
        ),
    )
    best = int(np.argmin([difference(turned[step][-1], figure(pixels, box)) for box in options]))
    if PICTURE:
        crop = image.crop(options[best])
        crop.resize((crop.width * 3, crop.height * 3), Image.Resampling.NEAREST).save(PICTURE)
    return chr(ord("A") + best)


def framed_boxes(pixels: NDArray[np.int64]) -> list[Box]:
    """Boxes of the squares framed in dark lines, row by row."""
    dark = pixels.max(axis=2) < 90
    found: list[Box] = []
    for y, row in enumerate(dark):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0])))).tolist()
        for left, right in zip(edges[::2], edges[1::2], strict=True):
            is_known = any(box[0] <= left <= box[2] and box[1] <= y <= box[3] for box in found)
            if right - left >= SMALLEST_PANEL_PX and not is_known:
                found.append((left, y, right, y + right - left))
    return found


def figure(pixels: NDArray[np.int64], box: Box) -> Image.Image:
    """The coloured figure inside the frame, white on black."""
    left, top, right, bottom = box
    inside = pixels[top + 2 : bottom - 2, left + 2 : right - 2]
    colored = inside.max(axis=2) - inside.min(axis=2) > 40
    return Image.fromarray(colored.astype(np.uint8) * 255)


def turn(mask: Image.Image, angle: int) -> Image.Image:
    return mask.rotate(angle, Image.Resampling.NEAREST)


def difference(one: Image.Image, other: Image.Image) -> int:
    return int((np.asarray(one) != np.asarray(other)).sum())
