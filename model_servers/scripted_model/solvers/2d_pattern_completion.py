"""Find how far the texture must be shifted to lie on itself, and which patch agrees with the parts that land on it."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUESTION = r"The texture at the top repeats the same tile again and again"
PICTURE = ""

Box = tuple[int, int, int, int]
Values = NDArray[np.int64]
BORDER_PX = 3


def solve(path: str, question: str) -> str:
    image = Image.open(path).convert("RGB")
    pixels = np.asarray(image).astype(np.int64)
    boxes = framed_boxes(pixels)
    whole = boxes[0]
    hole, *patches = boxes[1:]
    dot = dot_px(pixels, patches[0])
    texture = dot_colors(pixels, whole, dot)
    row, column = (hole[1] - whole[1]) // dot, (hole[0] - whole[0]) // dot
    size = (hole[2] - hole[0] - 2 * BORDER_PX) // dot
    is_seen = np.ones(texture.shape, dtype=bool)
    is_seen[row : row + size, column : column + size] = False
    shifts = repeats(texture, is_seen)
    scores = []
    for patch in patches:
        filled = texture.copy()
        filled[row : row + size, column : column + size] = dot_colors(pixels, patch, dot)
        scores.append(sum(mismatch(filled, np.ones_like(is_seen), *shift) for shift in shifts))
    best = int(np.argmin(scores))
    if PICTURE:
        shown = image.crop(whole)
        shown.paste(image.crop(patches[best]), (hole[0] - whole[0], hole[1] - whole[1]))
        shown.save(PICTURE)
    return chr(ord("A") + best)


def framed_boxes(pixels: Values) -> list[Box]:
    """Boxes framed in dark lines, by their top lines: the texture, the hole inside it, the patches."""
    dark = pixels.max(axis=2) < 90
    found: list[Box] = []
    for y, row in enumerate(dark):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0])))).tolist()
        for left, right in zip(edges[::2], edges[1::2], strict=True):
            is_known = any(box[0] <= left <= box[2] and abs(y - edge) < 8 for box in found for edge in box[1::2])
            if right - left >= 60 and not is_known:
                column = dark[y:, left]
                found.append((left, y, right, y + int(np.argmin(np.append(column, False)))))
    return found


def dot_px(pixels: Values, box: Box) -> int:
    """Side of a dot: the greatest common divisor of the places where the colour changes along a row or column."""
    left, top, right, bottom = box
    inside = pixels[top + BORDER_PX : bottom - BORDER_PX, left + BORDER_PX : right - BORDER_PX]
    rows = np.flatnonzero((np.diff(inside, axis=0) != 0).any(axis=(1, 2))) + 1
    columns = np.flatnonzero((np.diff(inside, axis=1) != 0).any(axis=(0, 2))) + 1
    return int(np.gcd.reduce(np.concatenate((rows, columns, [inside.shape[0]]))))


def dot_colors(pixels: Values, box: Box, dot: int) -> Values:
    """The colour in the middle of each dot, as one number; shape rows, columns."""
    left, top, right, bottom = box
    xs = range(left + BORDER_PX + dot // 2, right - BORDER_PX, dot)
    ys = range(top + BORDER_PX + dot // 2, bottom - BORDER_PX, dot)
    return np.asarray(pixels[np.ix_(ys, xs)] @ np.array([65536, 256, 1]), dtype=np.int64)


def repeats(texture: Values, is_seen: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Shifts (down, across) under which every seen dot falls on a like one."""
    rows, columns = texture.shape
    return [
        (down, across)
        for down in range(rows // 2)
        for across in range(-(columns // 2), columns // 2 + 1)
        if (down, across) > (0, 0) and mismatch(texture, is_seen, down, across) == 0
    ]


def mismatch(texture: Values, is_seen: NDArray[np.bool_], down: int, across: int) -> int:
    rows, columns = texture.shape
    start, stop = max(0, -across), columns - max(0, across)
    before = (slice(0, rows - down), slice(start, stop))
    after = (slice(down, rows), slice(start + across, stop + across))
    return int(((texture[before] != texture[after]) & is_seen[before] & is_seen[after]).sum())
