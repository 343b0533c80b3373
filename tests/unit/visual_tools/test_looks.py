"""Where a trajectory looked with image tools, worked out by hand; and by real tools over a real picture."""

import json
from collections.abc import Sequence

import pytest
from PIL import Image

from gym_core.datasets.images import png_of
from gym_core.image_tools import Coordinates
from gym_core.image_tools.places import Size
from gym_core.servers.image_looks import look_columns, looked_regions, told_number
from gym_core.statistics.regions import Region
from gym_core.types.responses import FunctionCall, FunctionCallOutput, InputImage, InputText, OutputItem
from gym_core.types.tool import ToolRequest
from tests.unit.visual_tools.playing import make_server, seeded

QUARTER = [0.5, 0.5, 1, 1]
"""The lower right one."""


def call(
    name: str,
    *,
    makes: int | None,
    call_id: str = "c",
    arguments: str | None = None,
    told: str = "Done.",
    **named: object,
) -> list[OutputItem]:
    """A call, and its picture of that number; None for a refused one."""
    asked = FunctionCall(call_id=call_id, name=name, arguments=json.dumps(named) if arguments is None else arguments)
    picture = [InputImage(image_url="sha256:" + "0" * 64), InputText(text=f"{told}\n{told_number(makes or 0)}")]
    return [asked, FunctionCallOutput(call_id=call_id, output="Error: no" if makes is None else picture)]


def looked(*calls: Sequence[OutputItem], coordinates: str = "fraction", size: Size | None = None) -> list[list[float]]:
    items = [item for each in calls for item in each]
    found = looked_regions(items, Coordinates(coordinates), image_size=size)
    return [[r.x0, r.y0, r.x1, r.y1] for r in found]


@pytest.mark.parametrize("tool", ["zoom", "crop", "draw_box", "highlight", "spotlight", "histogram", "find_template"])
def test_a_box_that_a_tool_shows_or_marks_is_a_look(tool: str) -> None:
    assert looked(call(tool, makes=1, box=QUARTER)) == [QUARTER]


@pytest.mark.parametrize("tool", ["mask", "blur_region", "rotate", "no_such_tool"])
def test_what_a_tool_may_hide_or_takes_no_box_for_is_none(tool: str) -> None:
    assert looked(call(tool, makes=1, box=QUARTER)) == []


def test_a_refused_call_is_no_look() -> None:
    assert looked(call("zoom", makes=None, box=[0.5, 0.5, 0.5, 1])) == []


@pytest.mark.parametrize(
    ("coordinates", "box", "size", "region"),
    [
        ("fraction", [-1, 0.25, 0.5, 7], None, [0, 0.25, 0.5, 1]),
        ("thousandths", [250, 0, 750, 1000], None, [0.25, 0, 0.75, 1]),
        ("pixels", [50, 0, 100, 25], Size(200, 100), [0.25, 0, 0.5, 0.25]),
    ],
)
def test_places_are_read_as_the_config_says(
    coordinates: str, box: list[float], size: Size | None, region: list[float]
) -> None:
    assert looked(call("zoom", makes=1, box=box), coordinates=coordinates, size=size) == [region]


def test_pixels_of_an_image_of_unknown_size_are_not_placed() -> None:
    assert looked(call("zoom", makes=1, box=[0, 0, 50, 50]), coordinates="pixels") == []


def test_pixels_of_a_picture_that_a_tool_made_are_placed_by_the_size_that_it_told() -> None:
    calls = [
        call("zoom", makes=1, box=[0, 0, 100, 50], told="The result has 200x100 pixels."),
        call("crop", makes=2, image=1, box=[100, 50, 200, 100], told="The result has 100x50 pixels."),
        call("zoom", makes=3, image=2, box=[0, 0, 50, 50]),
    ]
    found = looked(*calls, coordinates="pixels", size=Size(200, 100))
    assert found == [[0, 0, 0.5, 0.5], [0.25, 0.25, 0.5, 0.5], [0.25, 0.25, 0.375, 0.5]]


def test_a_part_of_a_part_is_found_on_the_first_image() -> None:
    calls = [
        call("crop", makes=1, box=QUARTER),
        call("contrast", makes=2, image=1, factor=2),
        call("zoom", makes=3, image=2, box=[0, 0, 0.5, 1]),
        call("draw_box", makes=4, image=3, box=[0, 0.5, 1, 1]),
    ]
    assert looked(*calls) == [QUARTER, [0.5, 0.5, 0.75, 1.0], [0.5, 0.75, 0.75, 1.0]]


@pytest.mark.parametrize("turning", ["rotate", "flip", "pad", "side_by_side", "straighten"])
def test_a_part_of_an_image_that_was_turned_or_put_together_is_not_placed(turning: str) -> None:
    calls = [call(turning, makes=1, images=[0, 0], degrees=90), call("zoom", makes=2, image=1, box=QUARTER)]
    assert looked(*calls) == []


def test_another_image_of_the_prompt_is_not_the_first() -> None:
    assert looked(call("zoom", makes=2, image=1, box=QUARTER), call("zoom", makes=3, box=QUARTER)) == [QUARTER]


def test_one_call_id_in_two_turns_is_two_calls() -> None:
    first, second = [0, 0, 0.5, 0.5], [0.5, 0.5, 0.75, 0.75]
    assert looked(call("zoom", makes=1, box=first), call("zoom", makes=2, box=second)) == [first, second]


def test_parallel_calls_of_one_id_are_answered_in_their_order() -> None:
    first, second = [0, 0, 0.5, 0.5], [0.5, 0.5, 0.75, 0.75]
    (one, shown), (two, shown_too) = call("zoom", makes=1, box=first), call("zoom", makes=2, box=second)
    assert looked([one, two, shown, shown_too]) == [first, second]
    (_, refused) = call("zoom", makes=None)
    assert looked([one, two, refused, shown_too]) == [second]


@pytest.mark.parametrize(
    "arguments",
    [
        *("", "[1]", "nonsense", "[" * 20_000),
        *('{"box": 7}', '{"box": [0, 0, 1]}', '{"box": [0, 0, 1, "x"]}', '{"box": [0, 0, 1e999, 1]}'),
        *('{"box": [0, 0, 0, 0]}', '{"image": true, "box": [0, 0, 1, 1]}', '{"image": {}, "box": [0, 0, 1, 1]}'),
        *('{"image": "0", "box": [0, 0, 1, 1]}', '{"image": 99, "box": [0, 0, 1, 1]}'),
    ],
    ids=lambda text: text[:30],
)
def test_arguments_that_are_none_are_no_look(arguments: str) -> None:
    assert looked(call("zoom", makes=1, arguments=arguments)) == []


def test_the_columns_compare_the_looks_with_the_evidence() -> None:
    looks = [Region(0.5, 0.5, 1, 1), Region(0.5, 0.5, 1, 1), Region(0, 0, 0.5, 0.5)]
    columns = look_columns(looks, [Region(0.5, 0.5, 1, 0.75), Region(0, 0.5, 0.5, 0.75)])
    assert columns["look_regions"] == [[0.5, 0.5, 1, 1], [0.5, 0.5, 1, 1], [0, 0, 0.5, 0.5]]
    assert (columns["look_calls"], columns["look_distinct"], columns["look_duplicates"]) == (3, 2, 1)
    assert (columns["roi_recall"], columns["roi_iou"]) == (0.5, 0.5)  # half of the evidence; 0.125 / 0.25


@pytest.mark.parametrize(("evidence", "recall", "iou"), [([Region(0, 0, 1, 1)], 0.0, 0.0), ([], None, None)])
def test_without_a_look_nothing_is_found_and_without_evidence_nothing_is_to_be_found(
    evidence: list[Region], recall: float | None, iou: float | None
) -> None:
    columns = look_columns([], evidence)
    assert (columns["look_calls"], columns["roi_recall"], columns["roi_iou"]) == (0, recall, iou)
    assert "roi_recall" not in look_columns([], None)


@pytest.mark.parametrize("coordinates", ["fraction", "thousandths", "pixels"])
async def test_the_words_of_real_tools_lead_from_a_crop_of_a_crop_back_to_the_first_image(coordinates: str) -> None:
    server = make_server(image_tools=["crop", "zoom", "contrast"], coordinates=coordinates)
    session = seeded(server, {"expected_answer": "1"})
    session.shelf.put_prompt(0, png_of(Image.new("RGB", (200, 100), "white")))
    scale = {"fraction": 1.0, "thousandths": 1000.0, "pixels": None}[coordinates]
    items: list[OutputItem] = []
    # Each takes the lower right quarter; the second one of an image of 100x50 pixels, the last one of 200x100 again.
    for number, (tool, side) in enumerate([("crop", (200, 100)), ("zoom", (100, 50)), ("crop", (100, 50))]):
        across, down = (scale, scale) if scale else side
        named = {"image": number, "box": [across / 2, down / 2, across, down]}
        arguments = json.dumps(named)
        reply = await server.call_tool(session, ToolRequest(call_id=f"c{number}", name=tool, arguments=arguments))
        items += [FunctionCall(call_id="c", name=tool, arguments=arguments)]
        items += [FunctionCallOutput(call_id="c", output=list(reply.content))]
    found = looked(items, coordinates=coordinates, size=Size(200, 100))
    assert found == [[0.5, 0.5, 1, 1], [0.75, 0.75, 1, 1], [0.875, 0.875, 1, 1]]
