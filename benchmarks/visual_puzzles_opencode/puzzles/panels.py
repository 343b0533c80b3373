"""Panels of one size in rows, each with a caption below: options of a choice, or numbered figures."""

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.drawing import Box, Point, draw_text_centered

GAP_PX = 28
CAPTION_PX = 44
MARGIN_PX = 24


@dataclass(frozen=True)
class Panels:
    count: int
    width: int
    height: int
    per_row: int = 4

    @property
    def size(self) -> Point:
        """Width and height in pixels of all of them with their captions, without a margin."""
        columns, rows = min(self.count, self.per_row), -(-self.count // self.per_row)
        return columns * (self.width + GAP_PX) - GAP_PX, rows * (self.height + CAPTION_PX)

    def boxes(self, corner: Point) -> list[Box]:
        """Where each panel lies, in reading order, when the first has its top left corner there."""
        boxes = []
        for index in range(self.count):
            left = corner[0] + index % self.per_row * (self.width + GAP_PX)
            top = corner[1] + index // self.per_row * (self.height + CAPTION_PX)
            boxes.append((left, top, left + self.width, top + self.height))
        return boxes


def draw_captions(img: Image.Image, boxes: Sequence[Box], captions: Sequence[str]) -> None:
    for (left, _, right, bottom), caption in zip(boxes, captions, strict=True):
        draw_text_centered(img, ((left + right) // 2, bottom + 18), caption, 3)


def numbers(count: int) -> list[str]:
    """Captions from 1."""
    return [str(index + 1) for index in range(count)]


def letters(count: int) -> list[str]:
    """Captions from A; also the letters of a choice's options."""
    return [chr(ord("A") + index) for index in range(count)]
