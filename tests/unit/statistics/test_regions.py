"""Looks against evidence, and chains of tools against a reference, on cases worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_core.statistics.regions import (
    ChainScore,
    Looks,
    Region,
    covered_area,
    parts_of_image,
    score_chain,
    score_looks,
)

EVIDENCE = Region(10, 10, 20, 20)
HALF = Region(10, 10, 15, 20)
AROUND = Region(0, 0, 40, 40)
ELSEWHERE = Region(30, 30, 40, 40)


def test_boxes_become_fractions_of_the_image_cut_at_its_edges() -> None:
    assert parts_of_image([(0, 10, 50, 20)], width=100, height=20) == [Region(0, 0.5, 0.5, 1)]
    assert parts_of_image([(-1, 0, 101, 20)], width=100, height=20) == [Region(0, 0, 1, 1)]


@pytest.mark.parametrize(
    "box", [(0, 0, 102, 20), (-2, 0, 50, 20), (0, 0, 50, float("inf")), (0, float("nan"), 50, 20), (110, 0, 120, 20)]
)
def test_a_box_outside_of_the_image_is_refused(box: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="outside of the image, where x goes from 0 to 100 and y from 0 to 20"):
        parts_of_image([box], width=100, height=20)


@pytest.mark.parametrize(
    ("looks", "evidence", "expected"),
    [
        ([], [], Looks(0, 0, None, None, None)),
        ([HALF], [], Looks(1, 1, None, None, None)),
        ([], [EVIDENCE], Looks(0, 0, 0.0, None, 0.0)),
        ([EVIDENCE], [EVIDENCE], Looks(1, 1, 1.0, 1.0, 1.0)),
        ([HALF], [EVIDENCE], Looks(1, 1, 0.5, 1.0, 0.5)),
        ([AROUND], [EVIDENCE], Looks(1, 1, 1.0, 100 / 1600, 100 / 1600)),
        ([ELSEWHERE], [EVIDENCE], Looks(1, 1, 0.0, 0.0, 0.0)),
        ([HALF, HALF, HALF], [EVIDENCE], Looks(3, 1, 0.5, 1.0, 0.5)),
        ([HALF, Region(15, 10, 20, 20)], [EVIDENCE], Looks(2, 2, 1.0, 1.0, 0.5)),
        ([EVIDENCE], [EVIDENCE, ELSEWHERE], Looks(1, 1, 0.5, 1.0, 1.0)),
        ([Region(0, 0, 100, 100), Region(0, 0, 100, 96)], [], Looks(2, 1, None, None, None)),
    ],
)
def test_looks_are_worth_what_they_cover(looks: list[Region], evidence: list[Region], expected: Looks) -> None:
    found = score_looks(looks, evidence)
    assert (found.calls, found.distinct, found.duplicates) == (
        expected.calls,
        expected.distinct,
        expected.calls - expected.distinct,
    )
    for name in ("recall", "precision", "best_iou"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name))


def test_a_region_has_an_area() -> None:
    with pytest.raises(ValueError, match="no area"):
        Region(1, 0, 1, 5)


@given(st.lists(st.tuples(*[st.integers(0, 8)] * 4), max_size=5))
def test_the_area_of_a_union_is_the_count_of_its_cells(corners: list[tuple[int, int, int, int]]) -> None:
    regions = [Region(min(a, c), min(b, d), max(a, c) + 1, max(b, d) + 1) for a, b, c, d in corners]
    cells = {(x, y) for r in regions for x in range(int(r.x0), int(r.x1)) for y in range(int(r.y0), int(r.y1))}
    assert covered_area(regions) == len(cells)


@pytest.mark.parametrize(
    ("chain", "reference", "expected"),
    [
        ([], [], ChainScore(1.0, 1.0, 0)),
        (["crop"], [], ChainScore(0.0, 0.0, 1)),
        ([], ["crop"], ChainScore(0.0, 0.0, 0)),
        (["crop", "flip"], ["crop", "flip"], ChainScore(1.0, 1.0, 0)),
        (["flip", "crop"], ["crop", "flip"], ChainScore(1.0, 0.5, 0)),
        (["crop", "crop", "crop"], ["crop"], ChainScore(0.5, 0.5, 2)),
        (["zoom", "crop", "sharpen"], ["crop", "flip", "sharpen"], ChainScore(2 / 3, 2 / 3, 1)),
    ],
)
def test_a_chain_is_compared_by_which_tools_and_by_their_order(
    chain: list[str], reference: list[str], expected: ChainScore
) -> None:
    found = score_chain(chain, reference)
    assert (found.overlap, found.order, found.redundant) == pytest.approx(
        (expected.overlap, expected.order, expected.redundant)
    )
