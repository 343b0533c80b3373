"""What the puzzles of cubes in space promise: what counts is seen, and letters on a cube are not mirrored."""

import pytest

from benchmarks.visual_puzzles_opencode.puzzles import (
    count_3d_blocks,
    cube_unfold_3d,
    paper_folding,
    pattern_completion_3d,
    views_3d,
)
from benchmarks.visual_puzzles_opencode.puzzles.contract import LEVELS, Puzzle, Subtype, puzzle_rng
from benchmarks.visual_puzzles_opencode.puzzles.drawing import PALETTE, PAPER, new_canvas
from benchmarks.visual_puzzles_opencode.puzzles.isometric import (
    Projection,
    draw_cubes,
    seen_tops,
    shaded,
    with_all_tops_seen,
)

every_level = pytest.mark.parametrize("level", LEVELS)


def some(subtype: Subtype, level: int) -> list[Puzzle]:
    return [subtype.generate(puzzle_rng(subtype.SUBTYPE, seed, level), level) for seed in range(3)]


def test_a_cube_shows_three_faces_in_three_shades() -> None:
    projection = Projection().at((5, 5), (1, 1, 1))
    img = new_canvas(80, 90)
    draw_cubes(img, projection, [(0, 0, 0)], PALETTE["orange"])
    x, y = projection.place((1, 1, 1))
    places = ((x + 14, y + 12), (x - 14, y + 12), (x, y - 12))
    assert [img.getpixel(place) for place in places] == [shaded(PALETTE["orange"], axis) for axis in range(3)]
    assert img.getpixel((2, 2)) == PAPER


def test_a_stack_behind_a_high_one_is_not_seen_until_it_is_raised() -> None:
    assert seen_tops(((0, 0), (0, 0)))[0, 0] == 1
    assert seen_tops(((1, 3), (3, 3)))[0, 0] == 0
    raised = with_all_tops_seen(((1, 3), (3, 3)), most_high=3)
    assert raised[0][0] > 1
    assert min(seen_tops(raised).values()) >= 0.5


@every_level
def test_blocks_to_be_counted_all_show_the_tops_of_their_stacks(level: int) -> None:
    for puzzle in some(count_3d_blocks, level):
        assert min(seen_tops(tuple(map(tuple, puzzle.structure["heights"]))).values()) >= 0.5


@every_level
@pytest.mark.parametrize("subtype", [views_3d, paper_folding, cube_unfold_3d, pattern_completion_3d])
def test_options_all_differ(subtype: Subtype, level: int) -> None:
    for puzzle in some(subtype, level):
        candidates = [str(candidate) for candidate in puzzle.structure["candidates"]]
        assert len(set(candidates)) == len(candidates) == len(puzzle.options)


@every_level
def test_letters_on_cubes_are_turned_but_never_mirrored(level: int) -> None:
    for puzzle in some(cube_unfold_3d, level):
        for cube in puzzle.structure["candidates"]:
            assert len(cube) == 3
            for _letter, *corners in cube:
                top_left, top_right, bottom_right, _ = (
                    Projection().place((name & 1, name >> 1 & 1, name >> 2)) for name in corners
                )
                right = (top_right[0] - top_left[0], top_right[1] - top_left[1])
                down = (bottom_right[0] - top_right[0], bottom_right[1] - top_right[1])
                assert right[0] * down[1] - right[1] * down[0] > 0


@every_level
def test_opened_sheets_of_all_options_have_as_many_holes(level: int) -> None:
    for puzzle in some(paper_folding, level):
        assert {len(candidate) for candidate in puzzle.structure["candidates"]} == {2 * 2**level}


@pytest.mark.parametrize("is_mirrored", [False, True])
def test_a_mirrored_piece_is_another_piece(is_mirrored: bool) -> None:
    screw = frozenset({(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)})
    other = frozenset({(z, x, y) for x, y, z in screw})
    if is_mirrored:
        other = frozenset({(1 - x, y, z) for x, y, z in other})
    assert (other in pattern_completion_3d.positions(screw)) is not is_mirrored


@every_level
def test_pieces_have_as_many_cubes_as_are_missing(level: int) -> None:
    for puzzle in some(pattern_completion_3d, level):
        x, y, z = puzzle.structure["extent"]
        missing = x * y * z - len(puzzle.structure["remaining"])
        assert {len(piece) for piece in puzzle.structure["candidates"]} == {missing}
