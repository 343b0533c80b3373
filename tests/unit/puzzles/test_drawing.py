"""Drawing keeps to the colours and places it was given."""

from itertools import combinations

import pytest

from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    FONT,
    INK,
    PALETTE,
    PAPER,
    RULE,
    draw_disc,
    draw_frame,
    draw_line,
    draw_polygon,
    draw_rect,
    draw_ring,
    draw_text,
    line_points,
    new_canvas,
    text_size,
)


def test_no_shape_brings_in_a_colour_of_its_own() -> None:
    img = new_canvas(200, 200)
    red = PALETTE["red"]
    draw_disc(img, (50, 50), 20, red)
    draw_line(img, (3, 7), (190, 133), 5, red)
    draw_polygon(img, [(100, 20), (180, 60), (120, 90)], red)
    draw_ring(img, (50, 150), 20, 3, red)
    draw_text(img, (100, 150), "A9?", 3, red)
    colors = img.getcolors()
    assert colors is not None
    assert {color for _, color in colors} == {PAPER, red}


@pytest.mark.parametrize(("a", "b"), list(combinations([*PALETTE, "ink", "rule", "paper"], 2)))
def test_any_two_colours_can_be_told_apart(a: str, b: str) -> None:
    colors = PALETTE | {"ink": INK, "rule": RULE, "paper": PAPER}
    assert max(abs(x - y) for x, y in zip(colors[a], colors[b], strict=True)) >= 60


@pytest.mark.parametrize("end", [(9, 4), (-9, 4), (4, 9), (-4, -9), (0, 7), (7, 0), (5, 5), (0, 0)])
def test_a_line_has_no_gap_and_both_its_ends(end: tuple[int, int]) -> None:
    points = line_points((0, 0), end)
    assert (points[0], points[-1]) == ((0, 0), end)
    assert all(max(abs(x1 - x2), abs(y1 - y2)) == 1 for (x1, y1), (x2, y2) in zip(points, points[1:], strict=False))


@pytest.mark.parametrize("radius", [0, 1, 2, 5, 16])
def test_a_disc_is_as_wide_as_high_and_round(radius: int) -> None:
    img = new_canvas(51, 51)
    draw_disc(img, (25, 25), radius, INK)
    marked = [(x, y) for x in range(51) for y in range(51) if img.getpixel((x, y)) == INK]
    assert {(y, x) for x, y in marked} == set(marked)
    assert max(x for x, _ in marked) == 25 + radius
    assert all((x - 25) ** 2 + (y - 25) ** 2 <= radius * (radius + 1) for x, y in marked)


def test_boxes_end_before_their_right_and_bottom() -> None:
    img = new_canvas(10, 10)
    draw_rect(img, (2, 3, 5, 7), INK)
    marked = {(x, y) for x in range(10) for y in range(10) if img.getpixel((x, y)) == INK}
    assert marked == {(x, y) for x in range(2, 5) for y in range(3, 7)}
    draw_rect(img, (8, 8, 8, 9), INK)
    assert img.getpixel((8, 8)) == PAPER


def test_a_frame_leaves_its_inside_free() -> None:
    img = new_canvas(10, 10)
    draw_frame(img, (1, 1, 9, 9), INK, width=2)
    assert [img.getpixel((x, 5)) == INK for x in range(10)] == [False, *[True] * 2, *[False] * 4, *[True] * 2, False]


def test_characters_fill_the_box_that_text_size_promises() -> None:
    img = new_canvas(60, 40)
    draw_text(img, (4, 5), "EB", 3)
    marked = [(x, y) for x in range(60) for y in range(40) if img.getpixel((x, y)) == INK]
    xs, ys = [x for x, _ in marked], [y for _, y in marked]
    assert (max(xs) - min(xs) + 1, max(ys) - min(ys) + 1) == text_size("EB", 3) == (33, 21)
    assert (min(xs), min(ys)) == (4, 5)


def test_characters_of_the_font_all_differ() -> None:
    assert len(set(FONT.values())) == len(FONT)
    assert {(len(glyph), *map(len, glyph)) for glyph in FONT.values()} == {(7, 5, 5, 5, 5, 5, 5, 5)}
