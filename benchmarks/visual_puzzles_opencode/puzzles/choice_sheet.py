"""The page of a choice: a figure on top, a line below it, and numbered panels to choose from."""

from dataclasses import dataclass

from PIL import Image

from benchmarks.visual_puzzles_opencode.puzzles.drawing import RULE, Box, Point, draw_rect, new_canvas
from benchmarks.visual_puzzles_opencode.puzzles.panels import GAP_PX, MARGIN_PX, Panels, draw_captions, numbers


@dataclass(frozen=True)
class ChoiceSheet:
    image: Image.Image
    corner: Point
    """Top left of the figure, which the caller draws."""
    boxes: tuple[Box, ...]
    """Of the panels, which the caller fills; their captions are drawn."""


def new_choice_sheet(figure: Point, panels: Panels) -> ChoiceSheet:
    """A page for a figure of that width and height."""
    width = max(figure[0], panels.size[0]) + 2 * MARGIN_PX
    options_top = MARGIN_PX + figure[1] + 2 * GAP_PX
    img = new_canvas(width, options_top + panels.size[1])
    line_y = MARGIN_PX + figure[1] + GAP_PX
    draw_rect(img, (MARGIN_PX, line_y, width - MARGIN_PX, line_y + 2), RULE)
    boxes = panels.boxes(((width - panels.size[0]) // 2, options_top))
    draw_captions(img, boxes, numbers(panels.count))
    return ChoiceSheet(img, ((width - figure[0]) // 2, MARGIN_PX), tuple(boxes))
