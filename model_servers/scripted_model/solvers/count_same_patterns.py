"""Cut out every figure below the line and compare it, dot by dot, with the framed one."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

QUESTION = r"How many of the figures below the line are exactly the same as it"
PICTURE = ""

Box = tuple[int, int, int, int]
Mask = NDArray[np.bool_]


def solve(path: str, question: str) -> str:
    image = Image.open(path).convert("RGB")
    pixels = np.asarray(image).astype(np.int64)
    ink = pixels.min(axis=2) < 200
    line = np.flatnonzero(ink.mean(axis=1) > 0.75)
    target = framed_figure(ink[: line[0]])
    below = int(line[-1]) + 1
    boxes = figure_boxes(ink[below:], reach=(dot_size(target) + 1) // 2)
    same = [box for box in boxes if looks_like(target, ink[below + box[1] : below + box[3], box[0] : box[2]])]
    if PICTURE:
        show(image, [(left, top + below, right, bottom + below) for left, top, right, bottom in same])
    return str(len(same))


def trimmed(mask: Mask) -> Mask:
    ys, xs = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return mask[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1]


def framed_figure(head: Mask) -> Mask:
    """The figure inside the frame: the frame is the outermost ink, a few pixels thick."""
    frame = trimmed(head)
    thickness = int(np.argmin(frame[frame.shape[0] // 2]))
    return trimmed(frame[thickness:-thickness, thickness:-thickness])


def dot_size(mask: Mask) -> int:
    """Side of one dot in pixels: the shortest run of ink in any row."""
    padded = np.pad(mask.astype(np.int8), ((0, 0), (1, 1)))
    edges = [np.flatnonzero(np.diff(row)) for row in padded]
    return int(min((row[1::2] - row[::2]).min() for row in edges if len(row)))


def figure_boxes(ink: Mask, *, reach: int) -> list[Box]:
    """Boxes of the figures: ink whose gaps are at most twice `reach` belongs together."""
    grown = ink
    for axis in (0, 1):
        padded = np.pad(grown, [(reach, reach) if axis == side else (0, 0) for side in (0, 1)])
        shifted = [np.take(padded, range(shift, shift + grown.shape[axis]), axis) for shift in range(2 * reach + 1)]
        grown = np.any(shifted, axis=0)
    found = []
    for left, top, right, bottom in patch_boxes(grown):
        ys, xs = np.nonzero(ink[top:bottom, left:right])
        box = (left + xs.min(), top + ys.min(), left + xs.max() + 1, top + ys.max() + 1)
        found.append((int(box[0]), int(box[1]), int(box[2]), int(box[3])))
    return found


def patch_boxes(mask: Mask) -> list[Box]:
    """Boxes of the connected patches: the runs of each row are joined with the runs they touch above."""
    parents: list[int] = []
    boxes: list[Box] = []

    def root(run: int) -> int:
        while parents[run] != run:
            run = parents[run]
        return run

    above: list[tuple[int, int, int]] = []
    for y, row in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0])))).tolist()
        current: list[tuple[int, int, int]] = []
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            run = len(parents)
            parents.append(run)
            boxes.append((start, y, stop, y + 1))
            for other_start, other_stop, other in above:
                if other_start <= stop and start <= other_stop and root(other) != root(run):
                    a, b = boxes[root(other)], boxes[root(run)]
                    boxes[root(run)] = (min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]))
                    parents[root(other)] = root(run)
            current.append((start, stop, run))
        above = current
    return [boxes[run] for run, parent in enumerate(parents) if parent == run]


def looks_like(target: Mask, figure: Mask) -> bool:
    """Same size, and fewer pixels differ than half a dot has."""
    return figure.shape == target.shape and int((figure != target).sum()) < dot_size(target) ** 2 / 2


def show(image: Image.Image, boxes: list[Box]) -> None:
    """The picture with the counted figures boxed."""
    marked = image.copy()
    for left, top, right, bottom in boxes:
        ImageDraw.Draw(marked).rectangle((left - 4, top - 4, right + 3, bottom + 3), outline=(255, 0, 255), width=2)
    marked.save(PICTURE)
