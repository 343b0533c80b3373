"""Features: edges, outlines, lines, circles, connected parts, corners and look-alikes, found and drawn.

Large images are searched at a smaller size, so that a call takes about a second; places are told for the image itself.
"""

from dataclasses import dataclass
from typing import Annotated

import cv2
import numpy as np
from PIL import Image, ImageDraw

from .arguments import AsBox, Choice, Number, Whole
from .contract import MAX_LISTED, ImageToolError, Made, Pixels, View, listed, made
from .drawing import RED
from .places import Box, Point

_SEARCHED_SIDE = 1600
_CIRCLES_SIDE = 800
"""Circles are searched by far more work than anything else here."""
_MAX_EDGES_FOR_CIRCLES = 0.12
"""Share of the pixels: past it there is nothing but noise, and the search would take minutes."""
_LINE_WIDTH = 2

_Ink = Annotated[str, Choice(("dark", "bright"), "Whether things are darker or brighter than what is behind them")]


@dataclass(frozen=True)
class _Searched:
    """A view at the size at which it is searched."""

    view: View
    pixels: Pixels
    scale: float
    """Of the image to this."""

    @classmethod
    def of(cls, view: View, *, side: int = _SEARCHED_SIDE) -> "_Searched":
        scale = min(1.0, side / max(view.image.size))
        if scale == 1.0:
            return cls(view, view.pixels, 1.0)
        size = (max(1, round(view.image.width * scale)), max(1, round(view.image.height * scale)))
        return cls(view, np.asarray(view.image.resize(size, Image.Resampling.BOX), dtype=np.uint8), scale)

    @property
    def gray(self) -> Pixels:
        gray: Pixels = cv2.cvtColor(self.pixels, cv2.COLOR_RGB2GRAY)
        return gray

    def things(self, ink: str) -> Pixels:
        """255 where something is, by the best split of the brightness; all 0 where all is alike."""
        if self.gray.min() == self.gray.max():
            return np.zeros_like(self.gray)
        kind = cv2.THRESH_BINARY_INV if ink == "dark" else cv2.THRESH_BINARY
        found: Pixels = cv2.threshold(self.gray, 0, 255, kind + cv2.THRESH_OTSU)[1]
        return found

    def point(self, x: float, y: float) -> Point:
        return Point(x / self.scale, y / self.scale)

    def box(self, x: float, y: float, width: float, height: float) -> Box:
        start, end = self.point(x, y), self.point(x + width, y + height)
        return Box(start.x, start.y, end.x, end.y)


def edges(
    view: View,
    low: Annotated[int, Whole(0, 500, "Weaker edges than this are dropped")] = 80,
    high: Annotated[int, Whole(1, 500, "Stronger edges than this are kept")] = 160,
) -> Made:
    """The edges of an image, white on black (Canny)."""
    picture: Pixels = cv2.Canny(view.gray, low, max(low, high))
    return made(f"Edges of {view.name}: {float((picture > 0).mean()):.1%} of the pixels.", picture)


def contours(
    view: View,
    ink: _Ink = "dark",
    min_area: Annotated[int, Whole(0, 1_000_000, "In pixels; smaller outlines are left out")] = 20,
) -> Made:
    """Find the outlines of things in an image: how many, where, and of how many corners; they are drawn in red."""
    searched = _Searched.of(view)
    found, _ = cv2.findContours(searched.things(ink), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    outlines = [(cv2.contourArea(outline) / searched.scale**2, outline) for outline in found]
    kept = sorted((pair for pair in outlines if pair[0] >= min_area), key=lambda pair: -pair[0])
    lines = []
    for area, outline in kept[:MAX_LISTED]:
        corners = len(cv2.approxPolyDP(outline, 0.02 * cv2.arcLength(outline, True), True))
        box = searched.box(*cv2.boundingRect(outline))
        lines.append(f"{view.said_box(box)}: area {area:.0f} px, {corners} corners")
    picture = searched.pixels.copy()
    cv2.drawContours(picture, [outline for _, outline in kept], -1, RED, _LINE_WIDTH)
    return made(f"{len(kept)} outlines in {view.name}, largest first.\n{listed(lines, count=len(kept))}\n", picture)


def components(
    view: View,
    ink: _Ink = "dark",
    min_area: Annotated[int, Whole(1, 1_000_000, "In pixels; smaller parts are left out")] = 10,
) -> Made:
    """Count the connected parts of an image, and tell where each one is; each gets a colour of its own."""
    searched = _Searched.of(view)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(searched.things(ink), connectivity=8)
    areas = stats[:, cv2.CC_STAT_AREA] / searched.scale**2
    ranked = np.argsort(-areas, kind="stable")
    kept = ranked[(ranked > 0) & (areas[ranked] >= min_area)]
    lines = [
        f"{view.said_box(searched.box(*map(float, stats[index][:4])))}: area {areas[index]:.0f} px"
        for index in kept[:MAX_LISTED]
    ]
    colors = np.zeros((count, 3), dtype=np.uint8)
    colors[kept] = _distinct_colors(len(kept))
    text = f"{len(kept)} connected {ink} parts in {view.name}, largest first."
    return made(f"{text}\n{listed(lines, count=len(kept))}\n", colors[labels])


def _distinct_colors(count: int) -> Pixels:
    """(count, 3): colours whose neighbours in the list are far apart."""
    if not count:
        return np.zeros((0, 3), dtype=np.uint8)
    order = np.arange(count)
    hues = np.stack([order * 67 % 180, np.full(count, 255), 255 - order % 3 * 60], axis=-1).astype(np.uint8)
    colors: Pixels = cv2.cvtColor(hues[:, None], cv2.COLOR_HSV2RGB)[:, 0]
    return colors


def lines(
    view: View,
    min_length: Annotated[int, Whole(5, 5000, "In pixels")] = 40,
    max_gap: Annotated[int, Whole(0, 200, "Gaps of so many pixels are bridged")] = 5,
) -> Made:
    """Find straight lines in an image; they are drawn in red."""
    searched = _Searched.of(view)
    found = cv2.HoughLinesP(
        cv2.Canny(searched.gray, 80, 160),
        rho=1,
        theta=np.pi / 180,
        threshold=max(10, int(min_length * searched.scale / 2)),
        minLineLength=max(1, int(min_length * searched.scale)),
        maxLineGap=int(max_gap * searched.scale),
    )
    segments = [] if found is None else [tuple(map(float, row)) for row in np.reshape(found, (-1, 4))]
    segments.sort(key=lambda s: -float(np.hypot(s[2] - s[0], s[3] - s[1])))
    picture = Image.fromarray(searched.pixels)
    draw = ImageDraw.Draw(picture)
    told = []
    for x0, y0, x1, y1 in segments:
        draw.line([x0, y0, x1, y1], fill=RED, width=_LINE_WIDTH)
        length, angle = np.hypot(x1 - x0, y1 - y0) / searched.scale, np.degrees(np.arctan2(y0 - y1, x1 - x0)) % 180
        ends = f"{view.said_point(searched.point(x0, y0))} to {view.said_point(searched.point(x1, y1))}"
        told.append(f"{ends}: {length:.0f} px, {angle:.0f} degrees")
    return made(f"{len(segments)} straight line segments in {view.name}, longest first.\n{listed(told)}\n", picture)


def circles(
    view: View,
    min_radius: Annotated[int, Whole(2, 2000, "In pixels")] = 8,
    max_radius: Annotated[int, Whole(3, 4000, "In pixels")] = 200,
    roundness: Annotated[
        float, Number(0.5, 0.98, "How perfect they must be; lower finds more, and more that are none")
    ] = 0.8,
) -> Made:
    """Find circles in an image; they are drawn in red."""
    if max_radius <= min_radius:
        raise ImageToolError("max_radius must be more than min_radius")
    searched = _Searched.of(view, side=_CIRCLES_SIDE)
    smooth = cv2.medianBlur(searched.gray, 3)
    if float((cv2.Canny(smooth, 150, 300) > 0).mean()) > _MAX_EDGES_FOR_CIRCLES:
        raise ImageToolError(f"{view.name} is too busy to look for circles: crop or denoise it first")
    low = max(1, int(min_radius * searched.scale))
    found = cv2.HoughCircles(
        smooth,
        cv2.HOUGH_GRADIENT_ALT,
        dp=1.5,
        minDist=max(4, low),
        param1=300,
        param2=roundness,
        minRadius=low,
        maxRadius=max(low + 1, int(max_radius * searched.scale)),
    )
    rounds = [] if found is None else [tuple(map(float, row[:3])) for row in np.reshape(found, (-1, found.shape[-1]))]
    picture = Image.fromarray(searched.pixels)
    draw = ImageDraw.Draw(picture)
    for x, y, radius in rounds:
        draw.ellipse([x - radius, y - radius, x + radius, y + radius], outline=RED, width=_LINE_WIDTH)
    told = [f"{view.said_point(searched.point(x, y))}: radius {r / searched.scale:.0f} px" for x, y, r in rounds]
    return made(f"{len(rounds)} circles in {view.name}, clearest first.\n{listed(told)}\n", picture)


def corners(view: View, count: Annotated[int, Whole(1, 200, "At most so many")] = 50) -> Made:
    """Find the corners in an image, clearest first; they are marked in red."""
    searched = _Searched.of(view)
    found = cv2.goodFeaturesToTrack(searched.gray, maxCorners=count, qualityLevel=0.05, minDistance=8)
    places = [] if found is None else [tuple(map(float, row)) for row in np.reshape(found, (-1, 2))]
    picture = Image.fromarray(searched.pixels)
    draw = ImageDraw.Draw(picture)
    for x, y in places:
        draw.ellipse([x - 3, y - 3, x + 3, y + 3], outline=RED, width=_LINE_WIDTH)
    told = [view.said_point(searched.point(x, y)) for x, y in places]
    return made(f"{len(places)} corners in {view.name}.\n{listed(told)}\n", picture)


def find_template(
    view: View,
    box: Annotated[Box, AsBox("The part to look for")],
    similarity: Annotated[float, Number(0.3, 1, "1 is the very same pixels")] = 0.8,
) -> Made:
    """Find all places of an image that look like one part of it; they are framed in red."""
    searched = _Searched.of(view)
    scaled = Box(*(value * searched.scale for value in (box.x0, box.y0, box.x1, box.y1)))
    height, width = searched.gray.shape
    left, top, right, bottom = (int(v) for v in (scaled.x0, scaled.y0, np.ceil(scaled.x1), np.ceil(scaled.y1)))
    template = searched.pixels[top:bottom, left:right]
    if template.shape[0] < 4 or template.shape[1] < 4:
        raise ImageToolError("the part to look for is too small: at least 4 pixels a side")
    if template.min() == template.max():
        raise ImageToolError("the part to look for is all of one colour: choose one with something in it")
    scores = cv2.matchTemplate(searched.pixels, template, cv2.TM_CCOEFF_NORMED)
    found = _peaks(np.nan_to_num(scores), similarity, (template.shape[1], template.shape[0]))
    picture = Image.fromarray(searched.pixels)
    draw = ImageDraw.Draw(picture)
    told = []
    for x, y, score in found:
        draw.rectangle([x, y, x + template.shape[1], y + template.shape[0]], outline=RED, width=_LINE_WIDTH)
        place = searched.box(x, y, min(template.shape[1], width - x), min(template.shape[0], height - y))
        told.append(f"{view.said_box(place)}: similarity {score:.2f}")
    return made(f"{len(found)} places of {view.name} look like {view.said_box(box)}.\n{listed(told)}\n", picture)


_MAX_PEAKS = 200


def _peaks(scores: np.ndarray, least: float, size: tuple[int, int]) -> list[tuple[int, int, float]]:
    """(x, y, score) of the best places, none of which is nearer to another than half the template's size."""
    left = scores.copy()
    peaks: list[tuple[int, int, float]] = []
    reach_x, reach_y = max(1, size[0] // 2), max(1, size[1] // 2)
    while len(peaks) < _MAX_PEAKS:
        y, x = (int(i) for i in np.unravel_index(int(np.argmax(left)), left.shape))
        score = float(left[y, x])
        if score < least:
            break
        peaks.append((x, y, score))
        left[max(0, y - reach_y) : y + reach_y + 1, max(0, x - reach_x) : x + reach_x + 1] = -1
    return peaks


TOOLS = (edges, contours, components, lines, circles, corners, find_template)
KEEPS_PLACES = TOOLS
