"""Each image tool once or more on a picture whose content is known: what it says and what it makes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image

from gym_core.image_tools import Coordinates, all_tools, run
from tests.unit.image_tools.pictures import disc, one_square, speckles, stripes, two_squares

Look = Callable[[Image.Image], bool]


@dataclass(frozen=True)
class Case:
    tool: str
    arguments: dict[str, object]
    says: str
    size: tuple[int, int] | None
    """Of the picture that is made; None when none is."""
    shows: Look = lambda image: True
    pictures: tuple[Callable[[], Image.Image], ...] = (two_squares,)
    """The first ones of the session."""


def at(x: int, y: int, *color: int) -> Look:
    """The pixel is within 3 of a colour."""
    return lambda image: bool(np.abs(np.array(image.convert("RGB").getpixel((x, y))) - np.array(color)).max() <= 3)


def both(*looks: Look) -> Look:
    return lambda image: all(look(image) for look in looks)


RED, WHITE, BLACK, BLUE = (255, 0, 0), (255, 255, 255), (0, 0, 0), (0, 0, 255)
LEFT, RIGHT = [20, 30, 60, 70], [130, 30, 150, 50]
WHOLE = (200, 100)

CASES = [
    Case("zoom", {"box": LEFT}, "[20, 30, 60, 70]", (200, 200), at(100, 100, *RED)),
    Case("crop", {"box": RIGHT}, "20x20 pixels", (20, 20), both(at(0, 0, *BLUE), at(19, 19, *BLUE))),
    Case("resize", {"factor": 0.5}, "100x50", (100, 50), at(20, 25, *RED)),
    Case("rotate", {"degrees": 90}, "90 degrees", (100, 200), at(50, 160, *RED)),
    Case("rotate", {"degrees": -30, "fill": "black"}, "-30 degrees", (224, 188), at(0, 0, *BLACK)),
    Case("flip", {"direction": "left_right"}, "left_right", WHOLE, at(160, 50, *RED)),
    Case("flip", {"direction": "top_bottom"}, "top_bottom", WHOLE, at(140, 60, *BLUE)),
    Case(
        "pad",
        {"pixels": 10, "fill": "#00ff00"},
        "border of 10",
        (220, 120),
        both(at(0, 0, 0, 255, 0), at(50, 60, *RED)),
    ),
    Case(
        "straighten", {"corners": [[20, 30], [60, 30], [60, 70], [20, 70]]}, "straightened", (40, 40), at(20, 20, *RED)
    ),
    Case(
        "draw_box",
        {"box": RIGHT, "color": "lime"},
        "[130, 30, 150, 50]",
        WHOLE,
        both(at(130, 30, 0, 255, 0), at(140, 40, *BLUE)),
    ),
    Case("draw_line", {"start": [0, 90], "end": [199, 90]}, "(0, 90) to (199, 90)", WHOLE, at(100, 90, *RED)),
    Case(
        "draw_arrow",
        {"start": [0, 90], "end": [190, 90]},
        "an arrow",
        WHOLE,
        both(at(100, 90, *RED), at(177, 83, *RED)),
    ),
    Case(
        "draw_polygon",
        {"points": [[5, 5], [195, 5], [195, 95]]},
        "3 corners",
        WHOLE,
        both(at(100, 5, *RED), at(195, 50, *RED)),
    ),
    Case(
        "draw_circle",
        {"center": [100, 50], "radius": 30},
        "30 pixels",
        WHOLE,
        both(at(100, 21, *RED), at(100, 50, *WHITE)),
    ),
    Case(
        "draw_point",
        {"points": [[100, 10], [100, 90]]},
        "(100, 10), (100, 90)",
        WHOLE,
        both(at(100, 10, *RED), at(100, 90, *RED)),
    ),
    Case(
        "draw_text",
        {"text": "I", "point": [90, 2], "height": 40},
        "words",
        WHOLE,
        lambda i: not at(90, 2, 1, 1, 1)(i) and np.array(i)[2:45, 85:115, 1].min() == 0,
    ),
    Case(
        "grid_overlay",
        {"rows": 2, "columns": 4},
        "2 rows and 4 columns",
        WHOLE,
        both(at(100, 20, *RED), at(80, 50, *RED)),
    ),
    Case("mask", {"box": LEFT}, "inside of", WHOLE, both(at(40, 50, *WHITE), at(140, 40, *BLUE))),
    Case(
        "mask",
        {"box": LEFT, "side": "outside", "fill": "black"},
        "outside of",
        WHOLE,
        both(at(40, 50, *RED), at(140, 40, *BLACK)),
    ),
    Case(
        "blur_region",
        {"box": [10, 20, 70, 80], "radius": 10},
        "blurred",
        WHOLE,
        both(at(140, 40, *BLUE), lambda i: i.getpixel((22, 32))[1] > 60),
    ),
    Case(
        "highlight",
        {"box": [100, 0, 200, 100], "strength": 0.5},
        "highlighted",
        WHOLE,
        both(at(190, 90, 255, 127, 127), at(90, 90, *WHITE)),
    ),
    Case("spotlight", {"box": LEFT, "brightness": 0}, "darkened", WHOLE, both(at(40, 50, *RED), at(140, 40, *BLACK))),
    Case(
        "cut_out",
        {"points": [[20, 30], [60, 30], [60, 70], [20, 70]]},
        "4 corners",
        WHOLE,
        both(at(40, 50, *RED), at(140, 40, *WHITE)),
    ),
    Case("brightness", {"factor": 0.5}, "times 0.5", WHOLE, at(40, 50, 127, 0, 0)),
    Case("contrast", {"factor": 0}, "times 0", WHOLE, lambda i: len(i.getcolors()) == 1),
    Case("saturation", {"factor": 0}, "times 0", WHOLE, at(40, 50, 76, 76, 76)),
    Case("gamma", {"gamma": 2}, "gamma 2", WHOLE, both(at(0, 0, *WHITE), at(40, 50, *RED))),
    Case("sharpen", {}, "150 %", WHOLE, at(40, 50, *RED)),
    Case("blur", {"radius": 3}, "3 pixels", WHOLE, lambda i: 60 < i.getpixel((19, 50))[1] < 200),
    Case("denoise", {"size": 2}, "5 pixels", WHOLE, at(40, 50, *RED)),
    Case("equalize", {}, "equalized", WHOLE, at(0, 0, *WHITE)),
    Case("equalize", {"method": "local"}, "part by part", WHOLE),
    Case("autocontrast", {}, "stretched", WHOLE, at(0, 0, *WHITE)),
    Case("threshold", {}, "90.0% white", WHOLE, both(at(40, 50, *BLACK), at(0, 0, *WHITE))),
    Case("threshold", {"level": 50}, "level 50", WHOLE, both(at(40, 50, *WHITE), at(140, 40, *BLACK))),
    Case("adaptive_threshold", {"window": 14}, "15 pixels", WHOLE, at(100, 10, *WHITE)),
    Case("invert", {}, "inverted", WHOLE, at(40, 50, 0, 255, 255)),
    Case("grayscale", {}, "in grey", WHOLE, at(40, 50, 76, 76, 76)),
    Case("channel", {"channel": "blue"}, "blue channel", WHOLE, both(at(40, 50, *BLACK), at(140, 40, *WHITE))),
    Case("channel", {"channel": "saturation"}, "saturation", WHOLE, both(at(40, 50, *WHITE), at(0, 0, *BLACK))),
    Case("posterize", {"colors": 2}, "2 colours", WHOLE, lambda i: len(i.getcolors()) <= 2),
    Case("morphology", {"operation": "erode", "size": 5}, "erode", WHOLE, at(17, 50, *RED)),
    Case(
        "edges", {}, "Edges of image 0", WHOLE, both(lambda i: np.array(i)[50, 17:23].max() == 255, at(40, 50, *BLACK))
    ),
    Case("contours", {}, "2 outlines", WHOLE, at(20, 50, *RED)),
    Case(
        "contours",
        {"min_area": 1000},
        "1 outlines in image 0, largest first.\n[20, 30, 60, 70]: area 1521 px, 4 corners",
        WHOLE,
    ),
    Case(
        "components",
        {},
        "2 connected dark parts in image 0, largest first.\n"
        "[20, 30, 60, 70]: area 1600 px\n[130, 30, 150, 50]: area 400 px",
        WHOLE,
        at(0, 0, *BLACK),
    ),
    Case("lines", {}, "180 px, 0 degrees", WHOLE, at(100, 49, *RED), (stripes,)),
    Case("circles", {"min_radius": 20, "max_radius": 40}, "1 circles", (120, 120), lambda i: True, (disc,)),
    Case("corners", {"count": 8}, "8 corners", WHOLE),
    Case(
        "find_template",
        {"box": [15, 25, 40, 50]},
        "places of image 0 look like [15, 25, 40, 50].\n[15, 25, 40, 50]: similarity 1.00",
        WHOLE,
    ),
    Case("color_at", {"point": [40, 50]}, "#ff0000 (red 255, green 0, blue 0)", None),
    Case("color_at", {"point": [200, 100], "radius": 2}, "#ffffff", None),
    Case("find_color", {"color": "blue"}, "2.00% of image 0", WHOLE, both(at(140, 40, *BLUE), at(40, 50, *WHITE))),
    Case("find_color", {"color": "green"}, "nothing within", None),
    Case("count_color", {"color": "red"}, "1 connected parts", WHOLE),
    Case(
        "dominant_colors",
        {"count": 3},
        "#ffffff (red 255, green 255, blue 255): 90.0%\n#ff0000 (red 255, green 0, blue 0): 8.0%",
        None,
    ),
    Case("histogram", {}, "red: mean 250", (256, 200)),
    Case("histogram", {"box": LEFT}, "green: mean 0, deviation 0, median 0, from 0 to 0", (256, 200)),
    Case("measure_distance", {"start": [20, 30], "end": [60, 60]}, "50.0 px, 40.0 across and 30.0 down", WHOLE),
    Case("measure_angle", {"vertex": [50, 50], "first": [90, 50], "second": [50, 10]}, "90.0 degrees", WHOLE),
    Case("measure_angle", {"vertex": [50, 50], "first": [10, 51], "second": [10, 49]}, "2.9 degrees", WHOLE),
    Case(
        "measure_area",
        {"points": [[0, 0], [100, 0], [100, 100], [0, 100]]},
        "area 10000.0 square px (50.00% of the image), outline 400.0 px",
        WHOLE,
    ),
    Case(
        "compare",
        {"image": 0, "other_image": 1},
        "2.00% of the pixels differ, in 1 places",
        WHOLE,
        both(at(140, 40, *WHITE), at(40, 50, *BLACK)),
        (two_squares, one_square),
    ),
    Case("compare", {"image": 0, "other_image": 0}, "in 0 places", WHOLE),
    Case("side_by_side", {"images": [0, 1]}, "image 0, image 1", (328, 120), at(268, 60, *BLACK), (two_squares, disc)),
    Case(
        "side_by_side",
        {"images": [1, 0], "direction": "vertical"},
        "vertical",
        (200, 228),
        at(40, 178, *RED),
        (two_squares, disc),
    ),
    Case(
        "blend",
        {"image": 0, "other_image": 1},
        "50%",
        WHOLE,
        both(at(140, 40, 127, 127, 255), at(40, 50, *RED)),
        (two_squares, one_square),
    ),
    Case(
        "overlay",
        {"image": 1, "other_image": 0, "point": [10, 10]},
        "image 0 on image 1 at (10, 10)",
        (120, 120),
        at(50, 60, *RED),
        (two_squares, disc),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.tool)
def test_a_tool_says_and_shows_what_it_should(case: Case) -> None:
    pictures = [make() for make in case.pictures]
    before = [picture.tobytes() for picture in pictures]
    made = run(case.tool, pictures, case.arguments, coordinates=Coordinates.PIXELS)
    assert case.says in made.text
    assert [image.size for image in made.images] == ([case.size] if case.size else [])
    assert all(case.shows(image) for image in made.images)
    assert [picture.tobytes() for picture in pictures] == before
    assert not any(image is picture for image in made.images for picture in pictures)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("count_color", {"color": "white", "min_area": 1}),
        ("components", {"ink": "bright", "min_area": 1}),
        ("contours", {"ink": "bright", "min_area": 0}),
    ],
)
def test_of_thousands_of_findings_all_are_counted_and_the_first_are_told(
    tool: str, arguments: dict[str, object]
) -> None:
    told = run(tool, [speckles()], arguments).text
    assert told.startswith("22500 ")
    assert "\nand 22480 more\n" in told
    assert len(told.splitlines()) == 23


def test_of_thousands_of_parts_some_hundred_are_framed_and_the_text_says_so() -> None:
    made = run("count_color", [speckles()], {"color": "white", "min_area": 1})
    assert "The 300 largest are framed." in made.text
    picture = np.asarray(made.images[0])
    assert (picture[:4] != np.asarray(speckles())[:4]).any()
    assert (picture[40:] == np.asarray(speckles())[40:]).all()  # 150 dots a row
    assert "framed" not in run("count_color", [two_squares()], {"color": "red"}).text


KEEPING = [case for case in CASES if case.size and all_tools()[case.tool].keeps_places]


@pytest.mark.parametrize("case", KEEPING, ids=lambda case: case.tool)
def test_a_picture_that_keeps_places_has_the_shape_of_what_it_was_made_of(case: Case) -> None:
    pictures = [make() for make in case.pictures]
    (picture,) = run(case.tool, pictures, case.arguments, coordinates=Coordinates.PIXELS).images
    source = pictures[case.arguments.get("image", 0)]
    assert picture.width * source.height == picture.height * source.width


def test_pictures_that_show_a_part_or_a_plot_do_not_keep_places() -> None:
    moved = {name for name, tool in all_tools().items() if not tool.keeps_places}
    assert moved == {
        *("zoom", "crop", "rotate", "flip", "pad", "straighten"),
        *("color_at", "dominant_colors", "histogram", "side_by_side"),
    }


def test_every_tool_has_a_case() -> None:
    assert {case.tool for case in CASES} == set(all_tools())


def test_there_are_more_than_the_thirty_operations_that_benchmarks_of_tool_chains_ask_for() -> None:
    assert len(all_tools()) >= 45
