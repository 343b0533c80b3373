"""Count the connected patches of colour: discs that touch are one patch."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUESTION = r"How many separate clusters of discs are there in the picture\?"

SMALLEST_DISC_PX = 40  # area; smaller patches are specks


def solve(path: str, question: str) -> str:
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(np.int64)
    colored = pixels.max(axis=2) - pixels.min(axis=2) > 40  # paper and frame are grey
    return str(sum(area >= SMALLEST_DISC_PX for area in patch_areas(colored)))


def patch_areas(mask: NDArray[np.bool_]) -> list[int]:
    """Pixel counts of the connected patches: the runs of each row are joined with the runs they touch above."""
    parents: list[int] = []
    areas: list[int] = []

    def root(run: int) -> int:
        while parents[run] != run:
            run = parents[run]
        return run

    above: list[tuple[int, int, int]] = []
    for row in mask:
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0])))).tolist()
        current: list[tuple[int, int, int]] = []
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            run = len(parents)
            parents.append(run)
            areas.append(stop - start)
            for other_start, other_stop, other in above:
                if other_start <= stop and start <= other_stop and root(other) != root(run):
                    joined = root(other)
                    areas[root(run)] += areas[joined]
                    parents[joined] = root(run)
            current.append((start, stop, run))
        above = current
    return [areas[run] for run, parent in enumerate(parents) if parent == run]
