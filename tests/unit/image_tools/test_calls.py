"""How image tools are called: schemas, the three conventions for places, bounds, and what a model is told."""

import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gym_core.image_tools import Coordinates, ImageTool, ImageToolError, Made, all_tools, chosen_tools, run
from gym_core.image_tools.archive import package_archive
from gym_core.image_tools.arguments import Argument, AsPoint, AsPoints, Choice, Color, Number, Whole, Words
from gym_core.image_tools.contract import MAX_OUTPUT_PIXELS, MAX_SIDE
from tests.unit.image_tools.pictures import LEFT_SQUARE, disc, two_squares

NUMBERS = st.one_of(
    st.integers(-10, 1100),
    st.floats(allow_nan=True, allow_infinity=True, width=32),
    st.floats(0, 1),
    st.sampled_from([0, 1, 10**400, -(10**30), True]),
)
VALUES = st.one_of(
    NUMBERS,
    st.none(),
    st.text(max_size=20),
    st.sampled_from(["red", "#12345", "hsl(999,1%,1%)", "dark", "global", "left_right", "open", "hue"]),
    st.lists(NUMBERS, max_size=5),
    st.lists(st.lists(NUMBERS, min_size=2, max_size=2), max_size=5),
)


@pytest.mark.parametrize("coordinates", list(Coordinates))
@pytest.mark.parametrize("tool", all_tools().values(), ids=lambda tool: tool.name)
def test_a_schema_is_valid_closed_and_describes_every_argument(tool: ImageTool, coordinates: Coordinates) -> None:
    schema = tool.schema(coordinates)
    jsonschema_rs.validator_for(schema)
    assert schema["additionalProperties"] is False
    assert isinstance(schema["properties"], dict)
    assert all(spec["description"] for spec in schema["properties"].values())
    assert tool.description.endswith(".")
    assert len(tool.description) < 300


@pytest.mark.parametrize(
    ("coordinates", "box", "said"),
    [
        (Coordinates.FRACTION, [0.1, 0.3, 0.3, 0.7], "[0.1, 0.3, 0.3, 0.7]"),
        (Coordinates.THOUSANDTHS, [100, 300, 300, 700], "[100, 300, 300, 700]"),
        (Coordinates.PIXELS, [20, 30, 60, 70], "[20, 30, 60, 70]"),
        (Coordinates.FRACTION, [-5, -1, 0.3, 0.7], "[0, 0, 0.3, 0.7]"),
        (Coordinates.PIXELS, [150, 0, 9999, 50], "[150, 0, 200, 50]"),
    ],
)
def test_the_same_place_in_each_convention_clamped_to_the_image(
    coordinates: Coordinates, box: list[float], said: str
) -> None:
    assert said in run("crop", [two_squares()], {"box": box}, coordinates=coordinates).text


@pytest.mark.parametrize("coordinates", list(Coordinates))
def test_places_in_replies_are_in_the_convention_of_the_call(coordinates: Coordinates) -> None:
    text = run("find_color", [two_squares()], {"color": "red"}, coordinates=coordinates).text
    left, top, right, bottom = LEFT_SQUARE
    expected = {
        Coordinates.FRACTION: "[0.1, 0.3, 0.3, 0.7]",
        Coordinates.THOUSANDTHS: "[100, 300, 300, 700]",
        Coordinates.PIXELS: f"[{left}, {top}, {right}, {bottom}]",
    }
    assert expected[coordinates] in text


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("magnify", {}, "there is no image tool 'magnify'"),
        ("crop", {}, "crop needs box"),
        ("crop", {"box": [0.5, 0, 0.5, 1]}, "covers no pixel of image 0, which has 200x100"),
        ("crop", {"box": [0.9, 0, 0.1, 1]}, "x0 < x1"),
        ("crop", {"box": [0, 0, 1]}, "is no list of 4: give [x0, y0, x1, y1]"),
        ("crop", {"box": [10**5000, 0, 1]}, "list is no list of 4: give [x0, y0, x1, y1]"),
        ("crop", {"box": [[10**5000], 0, 1, 1]}, "list is no number"),
        ("crop", {"box": [10**5000, 0, 1, 1]}, "a very large number is no number"),
        ("crop", {"box": [0, 0, 1, "1"]}, "'1' is no number"),
        ("crop", {"box": [0, 0, 1, float("nan")]}, "nan is no number"),
        ("crop", {"box": [0, 0, 1, 1], "image": 1}, "there is no image 1: there are 1"),
        ("crop", {"box": [0, 0, 1, 1], "image": -1}, "there is no image -1"),
        ("crop", {"box": [0, 0, 1, 1], "image": True}, "there is no image True"),
        ("crop", {"bbox": [0, 0, 1, 1]}, "has no argument 'bbox'; it has: image, box"),
        ("resize", {"factor": 17}, "17 is not within 0.05 to 16"),
        ("pad", {"pixels": 1.5}, "no whole number from 1 to 1000"),
        ("draw_text", {"text": "x" * 201, "point": [0, 0]}, "no text of 1 to 200 characters"),
        ("draw_point", {"points": [[0, 0]] * 65}, "no list of 1 to 64"),
        ("find_color", {"color": "reddish"}, "is no colour"),
        ("flip", {"direction": "up"}, "'up' is none of left_right, top_bottom"),
        ("measure_angle", {"vertex": [0, 0], "first": [0, 0], "second": [1, 1]}, "where the sides meet"),
        ("straighten", {"corners": [[0, 0], [1, 1], [1, 0], [0, 1]]}, "must enclose an area"),
        ("find_template", {"box": [0, 0, 0.1, 0.1]}, "all of one colour"),
        ("circles", {"min_radius": 50, "max_radius": 40}, "max_radius must be more"),
        ("compare", {"image": 0}, "needs two images"),
        ("side_by_side", {"images": [0]}, "a list of 2 to 6"),
    ],
)
def test_a_call_that_cannot_be_done_says_what_would_be(tool: str, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ImageToolError) as told:
        run(tool, [two_squares()], arguments)
    assert message in str(told.value)
    assert len(str(told.value)) < 1500


def test_nothing_is_made_that_is_too_large() -> None:
    wide = Image.new("RGB", (4000, 100))
    with pytest.raises(ImageToolError, match="at most"):
        run("resize", [wide], {"factor": 16})
    with pytest.raises(ImageToolError, match="at most"):
        run("side_by_side", [wide], {"images": [0, 0, 0]})
    (enlarged,) = run("zoom", [Image.new("RGB", (9000, 50))], {"box": [0, 0, 0.005, 1]}).images
    assert enlarged.width * enlarged.height <= MAX_OUTPUT_PIXELS
    assert max(enlarged.size) <= MAX_SIDE


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16", "F"])
def test_images_of_every_kind_are_read(mode: str) -> None:
    made = run("crop", [Image.new(mode, (10, 10))], {"box": [0, 0, 0.5, 0.5]})
    assert made.images[0].mode == "RGB"
    assert made.images[0].size == (5, 5)


def test_what_is_transparent_is_shown_on_white() -> None:
    assert "#ffffff" in run("color_at", [Image.new("RGBA", (4, 4), (0, 0, 0, 0))], {"point": [0, 0]}).text


def fitting(argument: Argument) -> st.SearchStrategy[object]:
    """Values that a tool takes."""
    numbers = st.lists(st.floats(0, 1), min_size=2, max_size=2)
    match argument:
        case Number(low, high):
            return st.floats(low, min(high, 20.0))
        case Whole(low, high):
            return st.integers(low, high)
        case Choice(words):
            return st.sampled_from(words)
        case Words(max_chars):
            return st.text(min_size=1, max_size=max_chars)
        case Color():
            return st.sampled_from(["red", "#12345f", "hsl(99, 1%, 1%)", "white"])
        case AsPoint():
            return numbers
        case AsPoints(low, high):
            return st.lists(numbers, min_size=low, max_size=min(high, low + 4))
    return st.tuples(numbers, numbers).map(lambda corners: [*map(min, *corners), *map(max, *corners)])


@settings(deadline=None)
@given(data=st.data())
def test_whatever_the_arguments_a_result_is_bounded_and_no_image_is_changed(data: st.DataObject) -> None:
    tool = all_tools()[data.draw(st.sampled_from(list(all_tools())))]
    strange = data.draw(st.sampled_from(["", "", "", *tool.arguments]))
    arguments = {
        name: data.draw(VALUES if name == strange else fitting(argument)) for name, argument in tool.arguments.items()
    }
    pictures = [two_squares(), disc()]
    before = [picture.tobytes() for picture in pictures]
    try:
        made = run(tool.name, pictures, arguments | _images_for(tool))
    except ImageToolError as mistake:
        told = str(mistake)
    else:
        told = made.text
        _check_sizes(made)
    assert 0 < len(told) < 5000
    assert [picture.tobytes() for picture in pictures] == before


def _images_for(tool: ImageTool) -> dict[str, object]:
    return {"one": {"image": 1}, "two": {"image": 0, "other_image": 1}, "several": {"images": [0, 1]}}[tool.takes]


def _check_sizes(made: Made) -> None:
    for image in made.images:
        assert max(image.size) <= MAX_SIDE
        assert image.width * image.height <= MAX_OUTPUT_PIXELS


def test_tools_are_chosen_by_name_and_by_family() -> None:
    assert [tool.name for tool in chosen_tools(["measurement", "zoom", "measure_area"])] == [
        "measure_distance",
        "measure_angle",
        "measure_area",
        "zoom",
    ]
    with pytest.raises(ValueError, match="no image tool or family 'zooom'"):
        chosen_tools(["zooom"])


@pytest.mark.slow
def test_a_python_without_the_gym_uses_them_from_one_file(tmp_path: Path) -> None:
    (tmp_path / "image_tools.zip").write_bytes(package_archive())
    two_squares().save(tmp_path / "picture.png")
    program = """
import sys
sys.path.insert(0, "image_tools.zip")
from PIL import Image
import image_tools
from image_tools import *
made = image_tools.run("count_color", [Image.open("picture.png")], {"color": "blue"}, coordinates="pixels")
print(made.text)
assert not any(name.split(".")[0] in ("gym_core", "pydantic") for name in sys.modules)
"""
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert found.stderr == ""
    assert "[130, 30, 150, 50]: area 400 px" in found.stdout


def test_the_archive_is_the_same_every_time() -> None:
    assert package_archive() == package_archive()
