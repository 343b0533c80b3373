"""Find the lattice of the lines, list every character that fits into them, and look for those that use all."""

import re
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

QUESTION = r"The outlines of (\d+) different characters, each (a digit|a digit or a capital letter) built of"

Edge = tuple[int, int, bool]  # upper or left end on the lattice, and whether it goes down

GLYPHS = {
    "0": ".###. #...# #..## #.#.# ##..# #...# .###.",
    "1": "..#.. .##.. ..#.. ..#.. ..#.. ..#.. .###.",
    "2": ".###. #...# ....# ...#. ..#.. .#... #####",
    "3": "##### ...#. ..#.. ...#. ....# #...# .###.",
    "4": "...#. ..##. .#.#. #..#. ##### ...#. ...#.",
    "5": "##### #.... ####. ....# ....# #...# .###.",
    "6": "..##. .#... #.... ####. #...# #...# .###.",
    "7": "##### ....# ...#. ..#.. .#... .#... .#...",
    "8": ".###. #...# #...# .###. #...# #...# .###.",
    "9": ".###. #...# #...# .#### ....# ...#. .##..",
    "A": ".###. #...# #...# ##### #...# #...# #...#",
    "C": ".###. #...# #.... #.... #.... #...# .###.",
    "E": "##### #.... #.... ####. #.... #.... #####",
    "H": "#...# #...# #...# ##### #...# #...# #...#",
    "K": "#...# #..#. #.#.. ##... #.#.. #..#. #...#",
    "L": "#.... #.... #.... #.... #.... #.... #####",
    "P": "####. #...# #...# ####. #.... #.... #....",
    "T": "##### ..#.. ..#.. ..#.. ..#.. ..#.. ..#..",
    "X": "#...# #...# .#.#. ..#.. .#.#. #...# #...#",
    "Z": "##### ....# ...#. ..#.. .#... #.... #####",
}
"""Characters of five by seven dots, as a matrix printer draws them."""


def solve(path: str, question: str) -> str:
    [(count, kind)] = re.findall(QUESTION, question)
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(np.int64)
    drawn = lattice_edges(pixels.max(axis=2) < 90)
    right, bottom = (max(edge[axis] for edge in drawn) for axis in (0, 1))
    fitting = [
        (name, moved)
        for name, glyph in GLYPHS.items()
        if name.isdigit() or kind != "a digit"
        for column in range(-1, right)  # a narrow character leaves its first column free
        for row in range(bottom)
        if (moved := outline(glyph.split(), column, row)) <= drawn
    ]
    for group in combinations(fitting, int(count)):
        names = {name for name, _ in group}
        if len(names) == int(count) and frozenset().union(*(edges for _, edges in group)) == drawn:
            return ",".join(sorted(names))
    raise ValueError("no set of characters has these outlines")


def lattice_edges(ink: NDArray[np.bool_]) -> frozenset[Edge]:
    """The drawn edges. Strokes are the shortest runs of ink; all longer ones are whole dots and a stroke."""
    ys, xs = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    ink = ink[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1]
    lengths = np.concatenate([run_lengths(line) for lines in (ink, ink.T) for line in lines])
    stroke = int(lengths.min())
    dot = int(np.gcd.reduce(lengths[lengths > 2 * stroke] - stroke))
    half = stroke // 2
    columns, rows = (ink.shape[1] - stroke) // dot + 1, (ink.shape[0] - stroke) // dot + 1
    found = set()
    for y in range(rows):
        for x in range(columns):
            if x + 1 < columns and ink[y * dot + half, x * dot + half + dot // 2]:
                found.add((x, y, False))
            if y + 1 < rows and ink[y * dot + half + dot // 2, x * dot + half]:
                found.add((x, y, True))
    return frozenset(found)


def run_lengths(line: NDArray[np.bool_]) -> NDArray[np.int64]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], line.astype(np.int8), [0]))))
    return np.asarray(edges[1::2] - edges[::2], dtype=np.int64)


def outline(glyph: list[str], column: int, row: int) -> frozenset[Edge]:
    """Edges between set and free dots of the glyph, moved by columns and rows."""
    dots = np.pad(np.array([[dot == "#" for dot in line] for line in glyph]), 1)
    flat = np.argwhere(dots[1:, 1:] != dots[:-1, 1:]).tolist()
    steep = np.argwhere(dots[1:, 1:] != dots[1:, :-1]).tolist()
    return frozenset(
        (x + column, y + row, is_steep) for edges, is_steep in ((flat, False), (steep, True)) for y, x in edges
    )
