"""Count Same Patterns: scattered figures, some of them the same as the framed one above the line."""

import random

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.contract import AnswerKind, Puzzle
from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PALETTE,
    Box,
    Glyph,
    draw_frame,
    draw_glyph,
    draw_rect,
    new_canvas,
)
from benchmarks.visual_puzzles_opencode.puzzles.glyphs import (
    ICON_SIZE,
    ICONS,
    mirrored,
    upside_down,
    with_one_dot_moved,
)

SUBTYPE = "Count Same Patterns"
CATEGORY = "Fine-grained Discrimination"

_SHAPE = {1: (5, 6), 2: (7, 9), 3: (9, 12)}
"""Rows and columns of the places over which the figures are scattered."""
_TOTAL = {1: (16, 24), 2: (36, 50), 3: (66, 88)}
_SAME = {1: (4, 12), 2: (9, 22), 3: (14, 36)}
_DOT_PX = {1: 6, 2: 5, 3: 5}
_MARGIN_PX = 20
_HEAD_DOTS = 17
"""Height of the part above the line, in dots."""


def generate(rng: random.Random, level: int) -> Puzzle:
    """Level 1 mixes other pictures in, level 2 mirror images too, level 3 only near-copies, from one dot on."""
    name = rng.choice(sorted(ICONS))
    target = ICONS[name]
    total, same = rng.randint(*_TOTAL[level]), rng.randint(*_SAME[level])
    others = _other_figures(rng, name, level)
    figures = [target] * same + [others[i % len(others)] for i in range(total - same)]
    rng.shuffle(figures)

    dot = _DOT_PX[level]
    rows, columns = _SHAPE[level]
    place, icon, head = (ICON_SIZE + 5) * dot, ICON_SIZE * dot, _HEAD_DOTS * dot
    width = columns * place + 2 * _MARGIN_PX
    img = new_canvas(width, head + rows * place + 2 * _MARGIN_PX)
    _draw_head(img, target, dot)
    colors = list(PALETTE.values()) if level > 1 else [INK]
    boxes: list[Box] = []
    for index, figure in zip(sorted(rng.sample(range(rows * columns), total)), figures, strict=True):
        x = _MARGIN_PX + index % columns * place + rng.randint(dot, 4 * dot)
        y = head + _MARGIN_PX + index // columns * place + rng.randint(dot, 4 * dot)
        draw_glyph(img, (x, y), figure, dot, rng.choice(colors))
        if figure == target:
            boxes.append((x, y, x + icon, y + icon))

    ignored = " Colour does not matter." if level > 1 else ""
    return Puzzle(
        image=img,
        question=(
            "The frame at the top holds one figure. How many of the figures below the line are exactly the same as it, "
            f"in the same orientation and not mirrored?{ignored} Do not count the framed one. Answer with one number."
        ),
        answer=str(same),
        answer_kind=AnswerKind.INT,
        roi=tuple(boxes),
        structure={"target": list(target), "figures": [list(figure) for figure in figures]},
    )


def solve(puzzle: Puzzle) -> str:
    target = puzzle.structure["target"]
    return str(sum(figure == target for figure in puzzle.structure["figures"]))


def _other_figures(rng: random.Random, name: str, level: int) -> list[Glyph]:
    target = ICONS[name]
    strangers = [ICONS[other] for other in rng.sample(sorted(set(ICONS) - {name}), 3)]
    if level == 1:
        return strangers
    turned = [mirrored(target), mirrored(upside_down(target))]
    if level == 2:
        return [*turned, *strangers[:2]]
    return [*turned, *(with_one_dot_moved(rng, target) for _ in range(4))]


def _draw_head(img: Image.Image, target: Glyph, dot: int) -> None:
    """The framed figure, and the line that parts it from the others."""
    side = (ICON_SIZE + 4) * dot
    left, top = (img.width - side) // 2, _MARGIN_PX
    draw_frame(img, (left, top, left + side, top + side), INK, width=3)
    draw_glyph(img, (left + 2 * dot, top + 2 * dot), target, dot, INK)
    line = _HEAD_DOTS * dot + _MARGIN_PX // 2
    draw_rect(img, (_MARGIN_PX, line, img.width - _MARGIN_PX, line + 3), INK)
