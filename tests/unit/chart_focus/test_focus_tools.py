"""The twelve functions, pixel by pixel, and that they need nothing but Pillow."""

import ast
import inspect
import itertools

import pytest
from PIL import Image

from resources_servers.chart_focus import focus_tools
from resources_servers.chart_focus.focus_tools import FOCUS_TOOLS, Boxes, find_alike

WHITE, RED, GREY = (255, 255, 255), (255, 0, 0), (90, 120, 150)
SIDE = 60
UPRIGHT = {name: {"x1": 20 * i, "y1": 0, "x2": 20 * i + 20, "y2": SIDE} for i, name in enumerate("ABC")}
"""Three boxes side by side."""
LYING = {name: {"x1": 0, "y1": 20 * i, "x2": SIDE, "y2": 20 * i + 20} for i, name in enumerate("ABC")}
AXES = ("columns", "rows", "x_values", "y_values")
WAYS = ("mask", "draw", "highlight")


def boxes_of(axis: str) -> Boxes:
    return UPRIGHT if axis in ("columns", "x_values") else LYING


def figure(mode: str = "RGB") -> Image.Image:
    return Image.new("RGB", (SIDE, SIDE), GREY).convert(mode)


def focus(axis: str, way: str, names: list[str], boxes: Boxes | None = None) -> Image.Image:
    return FOCUS_TOOLS[f"focus_on_{axis}_with_{way}"](figure(), names, boxes_of(axis) if boxes is None else boxes)


def pixel(image: Image.Image, axis: str, along: int, across: int = 30) -> object:
    """`along` counts over the three boxes."""
    return image.getpixel((along, across) if axis in ("columns", "x_values") else (across, along))


def test_there_are_twelve_and_each_has_the_name_it_is_kept_under() -> None:
    assert set(FOCUS_TOOLS) == {f"focus_on_{a}_with_{w}" for a, w in itertools.product(AXES, WAYS)}
    assert all(name == tool.__name__ for name, tool in FOCUS_TOOLS.items())


def test_the_file_needs_pillow_alone() -> None:
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name)
        for node in ast.walk(ast.parse(inspect.getsource(focus_tools)))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert imported == {"collections.abc", "PIL"}


@pytest.mark.parametrize("tool", FOCUS_TOOLS.values(), ids=FOCUS_TOOLS)
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P"])
def test_the_image_that_was_given_stays_as_it_is(tool: focus_tools.Focus, mode: str) -> None:
    image = figure(mode)
    before = image.tobytes()
    made = tool(image, ["B"], LYING)
    assert made is not image
    assert (image.tobytes(), image.mode) == (before, mode)
    assert made.tobytes() != image.convert(made.mode).tobytes()
    assert made.mode == ("RGBA" if mode == "RGBA" else "RGB")


@pytest.mark.parametrize("tool", FOCUS_TOOLS.values(), ids=FOCUS_TOOLS)
@pytest.mark.parametrize(("names", "boxes"), [([], LYING), (["A"], {}), ([], {})])
def test_without_names_or_boxes_a_copy_is_unchanged(tool: focus_tools.Focus, names: list[str], boxes: Boxes) -> None:
    image = figure()
    made = tool(image, names, boxes)
    assert made is not image
    assert made.tobytes() == image.tobytes()


@pytest.mark.parametrize("axis", ["columns", "x_values", "y_values"])
def test_a_mask_whitens_the_other_boxes_but_for_two_pixels_at_their_edges(axis: str) -> None:
    made = focus(axis, "mask", ["B"])
    expected = {0: GREY, 1: GREY, 2: WHITE, 18: WHITE, 19: GREY, 20: GREY, 30: GREY, 41: GREY, 42: WHITE, 58: WHITE}
    assert {along: pixel(made, axis, along) for along in expected} == expected
    assert [pixel(made, axis, 10, across) for across in (1, 2, 58, 59)] == [GREY, WHITE, WHITE, GREY]


def test_the_first_row_is_never_masked() -> None:
    made = focus("rows", "mask", ["C"])
    assert [pixel(made, "rows", along) for along in (10, 30, 50)] == [GREY, WHITE, GREY]


@pytest.mark.parametrize("axis", AXES)
def test_a_mask_that_would_leave_nothing_changes_nothing(axis: str) -> None:
    assert focus(axis, "mask", ["none of them"]).tobytes() == figure().tobytes()


def test_neither_does_a_mask_of_all_rows_but_the_header() -> None:
    assert focus("rows", "mask", ["A"]).tobytes() == figure().tobytes()


@pytest.mark.parametrize("axis", AXES)
def test_a_mask_leaves_out_names_without_a_box(axis: str) -> None:
    assert focus(axis, "mask", ["B", "Z"]).tobytes() == focus(axis, "mask", ["B"]).tobytes()


@pytest.mark.parametrize("axis", AXES)
def test_a_box_is_a_red_outline_of_five_pixels_two_within(axis: str) -> None:
    made = focus(axis, "draw", ["B"])
    expected = {21: GREY, 22: RED, 26: RED, 27: GREY, 33: GREY, 34: RED, 38: RED, 39: GREY, 10: GREY, 50: GREY}
    assert {along: pixel(made, axis, along) for along in expected} == expected
    assert [pixel(made, axis, 30, across) for across in (1, 2, 6, 7)] == [GREY, RED, RED, GREY]


@pytest.mark.parametrize("axis", AXES)
def test_a_highlight_is_red_at_50_of_255(axis: str) -> None:
    made = focus(axis, "highlight", ["A", "A", "C"])  # twice is once
    alpha = 50 / 255
    red = tuple(round(part * alpha + ground * (1 - alpha)) for part, ground in zip(RED, GREY, strict=True))
    for along in (2, 10, 18, 42, 58):
        found = pixel(made, axis, along)
        assert isinstance(found, tuple)
        assert all(abs(a - b) <= 1 for a, b in zip(found, red, strict=True))
    assert [pixel(made, axis, along) for along in (1, 19, 30, 59)] == [GREY] * 4


@pytest.mark.parametrize("way", ["draw", "highlight"])
@pytest.mark.parametrize("axis", ["columns", "rows", "x_values"])
def test_a_name_without_a_box_is_an_error_that_names_those_there_are(axis: str, way: str) -> None:
    with pytest.raises(KeyError, match=r"no \w+( \w+)? 'Z'; there are: \['A', 'B', 'C'\]"):
        focus(axis, way, ["A", "Z"])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("said", ["North", "in the North Sea"])
def test_a_y_value_is_found_by_a_part_of_its_name(way: str, said: str) -> None:
    boxes = {"The South": LYING["A"], "North Sea": LYING["B"], "Northern Lights": LYING["C"]}
    assert focus("y_values", way, [said], boxes).tobytes() == focus("y_values", way, ["North Sea"], boxes).tobytes()
    with pytest.raises(KeyError):
        focus("x_values", "draw", [said], boxes)


def test_the_very_name_goes_before_one_that_holds_it() -> None:
    assert [find_alike(name, ["15", "5", ""]) for name in ("5", "1", "9", "")] == ["5", "15", None, ""]


def test_one_name_may_stand_without_a_list() -> None:
    assert FOCUS_TOOLS["focus_on_columns_with_draw"](figure(), "B", UPRIGHT).tobytes() == (
        focus("columns", "draw", ["B"]).tobytes()
    )


def test_a_box_with_nothing_left_is_not_drawn() -> None:
    tiny = {"A": {"x1": 10, "y1": 10, "x2": 13, "y2": 40}, "B": UPRIGHT["B"]}
    assert focus("x_values", "draw", ["A"], tiny).tobytes() == figure().tobytes()
