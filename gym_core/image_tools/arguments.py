"""The arguments of image tools: each says its JSON schema, and reads a model's value within its bounds.

A tool's parameter is `Annotated[type, one of these]`. Values come from models: nothing is trusted, nothing unbounded.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from PIL import ImageColor

from .contract import ImageToolError, View
from .places import Box, Coordinates, Point

Schema = dict[str, object]

_COLOR_CHARS = 32


class Argument(Protocol):
    """How one argument is told and read."""

    @property
    def about(self) -> str: ...

    def schema(self, coordinates: Coordinates) -> Schema:
        """JSON schema of the value, with a description."""
        ...

    def read(self, value: object, view: View) -> object:
        """The value for the tool's function. Raises ImageToolError saying what would fit."""
        ...


@dataclass(frozen=True)
class Number:
    low: float
    high: float
    about: str

    def schema(self, coordinates: Coordinates) -> Schema:
        return {"type": "number", "minimum": self.low, "maximum": self.high, "description": self.about}

    def read(self, value: object, view: View) -> float:
        number = _number(value)
        if not self.low <= number <= self.high:
            raise ImageToolError(f"{number:g} is not within {self.low:g} to {self.high:g}")
        return number


@dataclass(frozen=True)
class Whole:
    low: int
    high: int
    about: str

    def schema(self, coordinates: Coordinates) -> Schema:
        return {"type": "integer", "minimum": self.low, "maximum": self.high, "description": self.about}

    def read(self, value: object, view: View) -> int:
        number = _number(value)
        if number != int(number) or not self.low <= number <= self.high:
            raise ImageToolError(f"{number:g} is no whole number from {self.low} to {self.high}")
        return int(number)


@dataclass(frozen=True)
class Choice:
    words: tuple[str, ...]
    about: str

    def schema(self, coordinates: Coordinates) -> Schema:
        return {"type": "string", "enum": list(self.words), "description": self.about}

    def read(self, value: object, view: View) -> str:
        if not isinstance(value, str) or value not in self.words:
            raise ImageToolError(f"{shown(value)} is none of {', '.join(self.words)}")
        return value


@dataclass(frozen=True)
class Words:
    max_chars: int
    about: str

    def schema(self, coordinates: Coordinates) -> Schema:
        return {"type": "string", "minLength": 1, "maxLength": self.max_chars, "description": self.about}

    def read(self, value: object, view: View) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= self.max_chars:
            raise ImageToolError(f"{shown(value)} is no text of 1 to {self.max_chars} characters")
        return value


@dataclass(frozen=True)
class Color:
    """Read as (red, green, blue), each 0 to 255."""

    about: str

    def schema(self, coordinates: Coordinates) -> Schema:
        description = f"{self.about}: a name such as red, or #rrggbb"
        return {"type": "string", "minLength": 1, "maxLength": _COLOR_CHARS, "description": description}

    def read(self, value: object, view: View) -> tuple[int, int, int]:
        try:
            if not isinstance(value, str) or len(value) > _COLOR_CHARS:
                raise ValueError("no short text")
            red, green, blue = ImageColor.getrgb(value)[:3]
        except (ValueError, OverflowError) as error:
            raise ImageToolError(f"{shown(value)} is no colour: give a name such as red, or #rrggbb") from error
        return min(red, 255), min(green, 255), min(blue, 255)


@dataclass(frozen=True)
class AsPoint:
    about: str

    def schema(self, coordinates: Coordinates) -> Schema:
        return _numbers(2, coordinates) | {"description": f"{self.about}: [x, y], {coordinates.words}"}

    def read(self, value: object, view: View) -> Point:
        return _point(_list(value, 2, 2, "[x, y]"), view)


@dataclass(frozen=True)
class AsPoints:
    low: int
    high: int
    about: str

    def schema(self, coordinates: Coordinates) -> Schema:
        description = f"{self.about}: [[x, y], ...], {coordinates.words}"
        points: Schema = {"type": "array", "items": _numbers(2, coordinates), "description": description}
        return points | {"minItems": self.low, "maxItems": self.high}

    def read(self, value: object, view: View) -> tuple[Point, ...]:
        points = _list(value, self.low, self.high, "[[x, y], ...]")
        return tuple(_point(_list(point, 2, 2, "[x, y]"), view) for point in points)


@dataclass(frozen=True)
class AsBox:
    about: str
    looks: bool = True
    """It is what the caller attends to; false where the tool may hide it."""
    becomes_image: bool = False
    """The picture that is made shows what is in it, and nothing else."""

    def schema(self, coordinates: Coordinates) -> Schema:
        description = f"{self.about}: [x0, y0, x1, y1], left, top, right, bottom, {coordinates.words}"
        return _numbers(4, coordinates) | {"description": description}

    def read(self, value: object, view: View) -> Box:
        corners = _list(value, 4, 4, "[x0, y0, x1, y1]")
        start, end = _point(corners[:2], view), _point(corners[2:], view)
        if end.x - start.x < 1 or end.y - start.y < 1:
            raise ImageToolError(
                f"{shown(value)} covers no pixel of {view.name}, which has {view.image.width}x{view.image.height}:"
                f" x0 < x1 and y0 < y1 are needed, {view.coordinates.words}"
            )
        return Box(start.x, start.y, end.x, end.y)


def shown(value: object) -> str:
    """A stranger's value in a message, short."""
    if isinstance(value, int) and value.bit_length() > 64:
        return "a very large number"
    try:
        text = repr(value)[:80]
    except (ValueError, RecursionError):  # an integer of thousands of digits, or depth, somewhere in it
        return type(value).__name__
    return text if isinstance(value, (str, int, float, list, bool, type(None))) else type(value).__name__


def _numbers(count: int, coordinates: Coordinates) -> Schema:
    kind = "integer" if coordinates is Coordinates.THOUSANDTHS else "number"
    item: Schema = {"type": kind, "minimum": 0}
    if coordinates.far_edge is not None:
        item["maximum"] = int(coordinates.far_edge)
    return {"type": "array", "items": item, "minItems": count, "maxItems": count}


def _number(value: object) -> float:
    """A finite number that is no bool."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or abs(value) > 1e12 or not math.isfinite(value):  # type: ignore[arg-type]  # a number by now
        raise ImageToolError(f"{shown(value)} is no number")
    return float(value)  # type: ignore[arg-type]  # as above


def _list(value: object, low: int, high: int, form: str) -> list[object]:
    if not isinstance(value, (list, tuple)) or not low <= len(value) <= high:
        count = f"{low}" if low == high else f"{low} to {high}"
        raise ImageToolError(f"{shown(value)} is no list of {count}: give {form}")
    return list(value)


def _point(pair: list[object], view: View) -> Point:
    x, y = _number(pair[0]), _number(pair[1])
    to_pixels = view.coordinates.to_pixels
    return Point(to_pixels(x, view.image.width), to_pixels(y, view.image.height))


def check_names(given: Mapping[str, object], known: Mapping[str, object], tool: str) -> None:
    """Raises ImageToolError naming arguments that the tool does not have."""
    strange = [name for name in given if name not in known]
    if strange:
        raise ImageToolError(f"{tool} has no argument {shown(strange[0])}; it has: {', '.join(known)}")
