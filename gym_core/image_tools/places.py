"""Places on an image, in pixels, and the three ways in which a model may name them."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Point:
    """In pixels from the top left corner: 0 to width, 0 to height."""

    x: float
    y: float


@dataclass(frozen=True)
class Size:
    width: int
    height: int


@dataclass(frozen=True)
class Box:
    """Corners in pixels, at least one pixel apart: 0 <= x0 < x1 <= width."""

    x0: float
    y0: float
    x1: float
    y1: float

    def pixels(self, size: Size) -> tuple[int, int, int, int]:
        """(left, top, right, bottom) of all pixels that it touches to more than a thousandth; at least one."""
        left, top = min(int(self.x0 + 1e-3), size.width - 1), min(int(self.y0 + 1e-3), size.height - 1)
        right, bottom = -int(-(self.x1 - 1e-3) // 1), -int(-(self.y1 - 1e-3) // 1)
        return left, top, min(max(right, left + 1), size.width), min(max(bottom, top + 1), size.height)


class Coordinates(StrEnum):
    """How a model says where something is. Tools work in pixels; arguments and replies are in one of these."""

    FRACTION = "fraction"
    """0 to 1 over width and height."""
    THOUSANDTHS = "thousandths"
    """Whole numbers 0 to 1000 over width and height."""
    PIXELS = "pixels"

    @property
    def words(self) -> str:
        """For descriptions: "... coordinates are <words>"."""
        return _WORDS[self]

    @property
    def far_edge(self) -> float | None:
        """The number that means the right or lower edge of any image; None for pixels."""
        return _FAR_EDGE[self]

    def to_pixels(self, value: float, extent: int) -> float:
        """Clamped to the image: 0 to extent."""
        scaled = value if self.far_edge is None else value * extent / self.far_edge
        return min(max(scaled, 0.0), float(extent))

    def said(self, pixels: float, extent: int) -> float:
        """The number for a model, rounded to what it can use."""
        if self is Coordinates.FRACTION:
            return round(pixels / extent, 3)
        return round(pixels if self.far_edge is None else pixels * self.far_edge / extent)


_WORDS = {
    Coordinates.FRACTION: "fractions of the image's width and height, 0 to 1 from the top left corner",
    Coordinates.THOUSANDTHS: "whole numbers from 0 to 1000 over the image's width and height, from the top left corner",
    Coordinates.PIXELS: "pixels from the top left corner",
}
_FAR_EDGE: dict[Coordinates, float | None] = {
    Coordinates.FRACTION: 1.0,
    Coordinates.THOUSANDTHS: 1000.0,
    Coordinates.PIXELS: None,
}
