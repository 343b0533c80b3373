"""Unit cubes seen from above one corner: x runs to the lower right of the picture, y to the lower left, z up.

A point (x, y, z) and (x + k, y + k, z + m) never fall on the same pixel for the sizes that puzzles have, so the place
of a face in the picture says where it lies in space.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from PIL import Image, ImageDraw

from benchmarks.visual_puzzles_opencode.puzzles.drawing import (
    INK,
    PAPER,
    RULE,
    Color,
    Point,
    draw_line,
    draw_polygon,
    new_canvas,
)

Cell3 = tuple[int, int, int]
"""A unit cube by its corner nearest the origin, or a point."""
Heights = tuple[tuple[int, ...], ...]
"""Cubes on each floor cell: `heights[x][y]`."""

_AXES: tuple[Cell3, Cell3, Cell3] = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
_SHADES = (60, 78, 100)
"""Brightness in percent of the faces that look along x, y and z."""


@dataclass(frozen=True)
class Projection:
    """From space to pixels: steps of the picture per unit, and the picture's place of the origin."""

    across_px: int = 28
    """To the side, per unit of x or y."""
    down_px: int = 16
    """Per unit of x or y."""
    up_px: int = 36
    """Per unit of z; not twice `down_px`, or else cubes one behind the other would fit together like neighbours."""
    origin: Point = (0, 0)

    def place(self, point: Cell3) -> Point:
        x, y, z = point
        return (
            self.origin[0] + (x - y) * self.across_px,
            self.origin[1] + (x + y) * self.down_px - z * self.up_px,
        )

    def size(self, extent: Cell3) -> Point:
        """Width and height in pixels of a cuboid at the origin."""
        x, y, z = extent
        return ((x + y) * self.across_px + 1, (x + y) * self.down_px + z * self.up_px + 1)

    def at(self, corner: Point, extent: Cell3) -> "Projection":
        """The same, with the picture of the cuboid's top left corner there."""
        return replace(self, origin=(corner[0] + extent[1] * self.across_px, corner[1] + extent[2] * self.up_px))


def cubes_of(heights: Heights) -> frozenset[Cell3]:
    return frozenset((x, y, z) for x, row in enumerate(heights) for y, height in enumerate(row) for z in range(height))


def face_corners(cube: Cell3, axis: int) -> tuple[Cell3, ...]:
    """Of the face that looks along that axis (0 to 2), to the viewer's side."""
    a, b = (other for other in range(3) if other != axis)
    corners = []
    for on_a, on_b in ((0, 0), (1, 0), (1, 1), (0, 1)):
        point = list(cube)
        point[axis] += 1
        point[a] += on_a
        point[b] += on_b
        corners.append((point[0], point[1], point[2]))
    return tuple(corners)


def draw_cubes(img: Image.Image, projection: Projection, cubes: Iterable[Cell3], color: Color) -> None:
    """Faces in three shades of the colour, with dark edges; those in front hide those behind."""
    solid = set(cubes)
    for cube in sorted(solid, key=lambda cube: (sum(cube), cube)):
        for axis, step in enumerate(_AXES):
            if _moved(cube, step) not in solid:
                corners = [projection.place(corner) for corner in face_corners(cube, axis)]
                draw_polygon(img, corners, shaded(color, axis))
                draw_outline(img, corners, INK)


def shaded(color: Color, axis: int) -> Color:
    """The colour of a face that looks along that axis."""
    red, green, blue = (part * _SHADES[axis] // 100 for part in color)
    return (red, green, blue)


def draw_outline(img: Image.Image, corners: Sequence[Point], color: Color) -> None:
    for start, end in zip(corners, [*corners[1:], corners[0]], strict=True):
        draw_line(img, start, end, 1, color)


def draw_floor(img: Image.Image, projection: Projection, width: int, depth: int) -> None:
    """A grid of floor cells, `width` along x and `depth` along y."""
    for x, y in product(range(width), range(depth)):
        corners = [projection.place(corner) for corner in face_corners((x, y, -1), 2)]
        draw_polygon(img, corners, PAPER)
        draw_outline(img, corners, RULE)


def seen_tops(heights: Heights) -> dict[Point, float]:
    """For each floor cell (x, y) the fraction in [0, 1] of its top, or of the floor there, that is not hidden."""
    width, depth = len(heights), len(heights[0])
    extent = (width, depth, max(map(max, heights)))
    projection = Projection(across_px=14, down_px=8, up_px=18)
    canvas = new_canvas(*projection.size(extent))
    projection, cells = projection.at((0, 0), extent), list(product(range(width), range(depth)))
    # Painted as a puzzle is, each top in a grey of its own number, all sides in 255.
    numbers = Image.new("L", canvas.size, 255)
    draw = ImageDraw.Draw(numbers)
    for x, y in sorted(cells, key=sum):
        for z in range(heights[x][y]):
            for axis in (0, 1):
                draw.polygon([projection.place(corner) for corner in face_corners((x, y, z), axis)], fill=255)
        top = [projection.place(corner) for corner in face_corners((x, y, heights[x][y] - 1), 2)]
        draw.polygon(top, fill=cells.index((x, y)))
    seen = numbers.histogram()
    whole = projection.across_px * projection.down_px * 2
    return {cell: min(1.0, seen[index] / whole) for index, cell in enumerate(cells)}


def with_all_tops_seen(heights: Heights, *, least: float = 0.5, most_high: int) -> Heights:
    """Raises stacks, to `most_high` at the most, until each shows at least that fraction of its top."""
    grid = [list(row) for row in heights]
    while True:
        seen = seen_tops(tuple(map(tuple, grid)))
        hidden = [cell for cell, fraction in seen.items() if fraction < least]
        if not hidden:
            return tuple(map(tuple, grid))
        for x, y in hidden:
            if grid[x][y] >= most_high:
                raise ValueError(f"a stack of {most_high} at {(x, y)} is hidden: nothing may be higher")
            grid[x][y] += 1


def _moved(cube: Cell3, step: Cell3) -> Cell3:
    return (cube[0] + step[0], cube[1] + step[1], cube[2] + step[2])
