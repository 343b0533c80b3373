"""Where a trajectory looked with image tools: parts of the prompt's first image, told from the calls alone.

Which argument of a tool is a place to look at, and what its picture shows of the image it was made of, are what the
tool itself declares (`AsBox`, `ImageTool.keeps_places`). A crop of a crop is found again on the first image; a part of
an image that was turned, bent or put together is not, and counts for nothing.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gym_core.image_tools import Coordinates, ImageTool, all_tools
from gym_core.image_tools.arguments import AsBox
from gym_core.image_tools.places import Size
from gym_core.servers.answered_calls import AnsweredCall, answered_calls
from gym_core.statistics.regions import Looks, Region, score_looks
from gym_core.types.responses import FunctionCallOutput, InputText, OutputItem
from gym_core.types.wire import JsonObject

WHOLE = Region(0.0, 0.0, 1.0, 1.0)
_NUMBERED = re.compile(r"^It is image (\d{1,6})\.$", re.MULTILINE)
_SIZED = re.compile(r"The result has (\d{1,5})x(\d{1,5}) pixels\.")
"""As every tool that makes a picture ends (`gym_core.image_tools.contract.made`)."""
_UNIT = Size(1, 1)
_FAR = 1e12
"""No tool takes a number beyond it, or one that is none."""


def told_number(number: int) -> str:
    """What a session tells of a picture that a tool made, so that it can be named later, and found here."""
    return f"It is image {number}."


def looked_regions(
    output: Iterable[OutputItem], coordinates: Coordinates, *, image_size: Size | None = None
) -> list[Region]:
    """As fractions of the first image's width and height, in the order in which the looks gave a picture.

    Its size is needed where `coordinates` are pixels: without it nothing is found there.
    """
    follower = _Follower(coordinates, {0: image_size} if image_size else {})
    for answered in answered_calls(output):
        follower.follow(answered)
    return follower.regions


def look_columns(regions: Sequence[Region], evidence: Sequence[Region] | None) -> JsonObject:
    """Columns of a row. Both in fractions; None for a task that does not say where its evidence is."""
    looks: Looks = score_looks(regions, evidence or ())
    columns: JsonObject = {
        "look_regions": [[round(edge, 4) for edge in (r.x0, r.y0, r.x1, r.y1)] for r in regions],
        "look_calls": looks.calls,
        "look_distinct": looks.distinct,
        "look_duplicates": looks.duplicates,
    }
    return columns if evidence is None else columns | {"roi_recall": looks.recall, "roi_iou": looks.best_iou}


@dataclass
class _Follower:
    coordinates: Coordinates
    sizes: dict[int, Size]
    """Of images by number, as far as they are known."""
    regions: list[Region] = field(default_factory=list)
    frames: dict[int, Region] = field(default_factory=lambda: {0: WHOLE})
    """By number of an image, the part of the first one that it shows."""

    def follow(self, answered: AnsweredCall) -> None:
        tool = all_tools().get(answered.call.name)
        # A call that was refused gave words alone.
        if tool and answered.has_picture:
            self._follow_call(tool, answered.arguments(), answered.result)

    def _follow_call(self, tool: ImageTool, arguments: JsonObject, result: FunctionCallOutput) -> None:
        index = arguments.get("image", 0)
        frame = self.frames.get(index) if tool.takes != "several" and type(index) is int else None
        if frame is None:
            return
        kept = frame if tool.keeps_places else None
        for name, argument in tool.arguments.items():
            part = self._part(arguments.get(name), index) if isinstance(argument, AsBox) else None
            if isinstance(argument, AsBox) and part is not None:
                place = _inside(frame, part)
                if argument.looks:
                    self.regions.append(place)
                if argument.becomes_image:
                    kept = place
        number = _number_of(result)
        if kept is not None and number is not None:
            self.frames[number] = kept
            if sized := _SIZED.search(_told(result)):
                self.sizes[number] = Size(int(sized[1]), int(sized[2]))

    def _part(self, value: object, index: int) -> Region | None:
        """A box as fractions of the image that it is on."""
        size = _UNIT if self.coordinates.far_edge is not None else self.sizes.get(index)
        corners = _corners(value)
        if size is None or len(corners) != 4:
            return None
        extents = (size.width, size.height, size.width, size.height)
        to_pixels = self.coordinates.to_pixels
        x0, y0, x1, y1 = (to_pixels(edge, extent) / extent for edge, extent in zip(corners, extents, strict=True))
        return Region(x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None


def _inside(frame: Region, part: Region) -> Region:
    """A part, in fractions of the frame, as a part of what the frame is in."""
    width, height = frame.x1 - frame.x0, frame.y1 - frame.y0
    return Region(
        frame.x0 + part.x0 * width, frame.y0 + part.y0 * height, frame.x0 + part.x1 * width, frame.y0 + part.y1 * height
    )


def _number_of(result: FunctionCallOutput) -> int | None:
    numbers = _NUMBERED.findall(_told(result))
    return int(numbers[-1]) if numbers else None


def _told(result: FunctionCallOutput) -> str:
    """The tool's own words."""
    texts = [part.text for part in result.output if isinstance(part, InputText)]
    return texts[-1] if texts else ""


def _corners(value: object) -> list[float]:
    """The numbers of a box, as its tool read them; [] for anything else."""
    numbers = [edge for edge in value if isinstance(edge, (int, float))] if isinstance(value, list) else []
    return [float(edge) for edge in numbers if abs(edge) <= _FAR]
