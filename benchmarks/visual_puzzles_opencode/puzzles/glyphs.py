"""Small dot figures, and the changes that make near-copies of them."""

import random

from benchmarks.visual_puzzles_opencode.puzzles.drawing import Glyph

ICON_SIZE = 9
"""Dots along each side of an icon."""

_ICON_ROWS = {
    "flag": "##....... #######.. ######### ########. ####..... ##....... ##....... ##....... ##.......",
    "cup": "......... #######.. ######### #######.# #######.# ########. #######.. .#####... .........",
    "boat": "...#..... ...##.... ...###... ...####.. ...#..... ######### .#######. ..#####.. .........",
    "fish": "......... #...###.. ##.#####. ######.## .######## ######### ##.#####. #...###.. .........",
    "key": ".####.... ##..##... #....#... #....#### ##..##### .####.#.# ......#.# ......#.. .........",
    "duck": "..###.... .##.#.... #####.... ...##...# ...###### ..######. ..#####.. ...#.#... ..##.##..",
    "arrow": ".....#... .....##.. #######.. ######### #######.. ##...##.. ##...#... ##....... ##.......",
    "truck": "......... .....###. ####.#.## ####.#### ######### ######### .##...##. .##...##. .........",
}
ICONS: dict[str, Glyph] = {name: tuple(rows.split()) for name, rows in _ICON_ROWS.items()}
"""Pictures by name, none of which equals any other or itself when mirrored."""


def mirrored(glyph: Glyph) -> Glyph:
    """Left and right exchanged."""
    return tuple(row[::-1] for row in glyph)


def upside_down(glyph: Glyph) -> Glyph:
    """Top and bottom exchanged."""
    return glyph[::-1]


def with_one_dot_moved(rng: random.Random, glyph: Glyph) -> Glyph:
    """One dot goes to a free place beside it."""
    height, width = len(glyph), len(glyph[0])
    moves = [
        ((r, c), (to_r, to_c))
        for r in range(height)
        for c in range(width)
        for to_r, to_c in ((r, c - 1), (r, c + 1), (r - 1, c), (r + 1, c))
        if 0 <= to_r < height and 0 <= to_c < width and glyph[r][c] == "#" and glyph[to_r][to_c] == "."
    ]
    source, target = rng.choice(moves)
    dots = [list(row) for row in glyph]
    dots[source[0]][source[1]], dots[target[0]][target[1]] = ".", "#"
    return tuple("".join(row) for row in dots)
