"""Twelve ways to focus on parts of a figure: columns, rows, x values or y values, by mask, box or highlight.

A file of its own that needs Pillow alone: it is put into sandboxes as it is, where the code of a model calls it. Each
function takes an image, the names to focus on, and the boxes of all names (`{name: {"x1", "y1", "x2", "y2"}}`, pixels,
in the order of the figure), and gives a new image; the one that it was given stays as it is.

- mask: every other box is filled with white. The first row, a table's header, never is. If nothing would be left, or
  there is nothing to focus on, the copy is unchanged.
- draw: a red outline, 5 px wide, around each box.
- highlight: red over each box, with an alpha of 50 in 255.

A box is taken 2 px smaller on each side. A name that has no box is an error, but for masks, which leave it out; a name
of a y value also stands for the first one that holds it, or that it holds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from PIL import Image, ImageDraw

MARGIN_PX = 2
OUTLINE_PX = 5
HIGHLIGHT = (255, 0, 0, 50)

Boxes = Mapping[str, Mapping[str, float]]
Focus = Callable[[Image.Image, Sequence[str], Boxes], Image.Image]


def focus_on_columns_with_mask(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    return _masked(image, _given(names), boxes)


def focus_on_rows_with_mask(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    return _masked(image, _given(names), boxes, header=next(iter(boxes), None))


def focus_on_x_values_with_mask(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    return _masked(image, _given(names), boxes)


def focus_on_y_values_with_mask(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    return _masked(image, [find_alike(name, boxes) or name for name in _given(names)], boxes)


def focus_on_columns_with_draw(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    return _outlined(image, _known(names, boxes, "column"), boxes)


def focus_on_rows_with_draw(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    return _outlined(image, _known(names, boxes, "row"), boxes)


def focus_on_x_values_with_draw(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    return _outlined(image, _known(names, boxes, "x value"), boxes)


def focus_on_y_values_with_draw(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    return _outlined(image, _known_alike(names, boxes), boxes)


def focus_on_columns_with_highlight(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    return _highlighted(image, _known(names, boxes, "column"), boxes)


def focus_on_rows_with_highlight(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    return _highlighted(image, _known(names, boxes, "row"), boxes)


def focus_on_x_values_with_highlight(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    return _highlighted(image, _known(names, boxes, "x value"), boxes)


def focus_on_y_values_with_highlight(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    return _highlighted(image, _known_alike(names, boxes), boxes)


FOCUS_TOOLS: dict[str, Focus] = {
    tool.__name__: tool
    for tool in (
        focus_on_columns_with_mask,
        focus_on_columns_with_draw,
        focus_on_columns_with_highlight,
        focus_on_rows_with_mask,
        focus_on_rows_with_draw,
        focus_on_rows_with_highlight,
        focus_on_x_values_with_mask,
        focus_on_x_values_with_draw,
        focus_on_x_values_with_highlight,
        focus_on_y_values_with_mask,
        focus_on_y_values_with_draw,
        focus_on_y_values_with_highlight,
    )
}


# -- names ------------------------------------------------------------------


def find_alike(name: str, boxes: Iterable[str]) -> str | None:
    """The name itself; else the first that holds it or is held by it; None when there is none."""
    known = list(boxes)
    if name in known:
        return name
    return next((other for other in known if other and name and (name in other or other in name)), None)


def _given(names: Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else [str(name) for name in names]


def _known(names: Sequence[str], boxes: Boxes, what: str) -> list[str]:
    """The names to focus on; none where there are no boxes. Raises KeyError for a name without one."""
    given = _given(names) if boxes else []
    if missing := [name for name in given if name not in boxes]:
        raise KeyError(f"there is no {what} {missing[0]!r}; there are: {list(boxes)}")
    return given


def _known_alike(names: Sequence[str], boxes: Boxes) -> list[str]:
    return _known([find_alike(name, boxes) or name for name in _given(names)], boxes, "y value")


# -- pictures ---------------------------------------------------------------


def _canvas(image: Image.Image) -> Image.Image:
    """A copy in colour."""
    mode = "RGBA" if "A" in image.getbands() or "transparency" in image.info else "RGB"
    return image.convert(mode) if image.mode != mode else image.copy()


def _shrunk(box: Mapping[str, float]) -> tuple[int, int, int, int] | None:
    """Corners in pixels, both within; None where nothing is left."""
    x1, y1 = int(box["x1"] + MARGIN_PX), int(box["y1"] + MARGIN_PX)
    x2, y2 = int(box["x2"] - MARGIN_PX), int(box["y2"] - MARGIN_PX)
    return (x1, y1, x2, y2) if x1 <= x2 and y1 <= y2 else None


def _corners(names: Iterable[str], boxes: Boxes) -> list[tuple[int, int, int, int]]:
    return [corners for name in dict.fromkeys(names) if (corners := _shrunk(boxes[name]))]


def _masked(image: Image.Image, names: Sequence[str], boxes: Boxes, *, header: str | None = None) -> Image.Image:
    made = _canvas(image)
    may_go = [name for name in boxes if name != header]
    to_mask = [name for name in may_go if name not in names]
    if not names or len(to_mask) == len(may_go):
        return made
    draw = ImageDraw.Draw(made)
    for corners in _corners(to_mask, boxes):
        draw.rectangle(corners, fill="white")
    return made


def _outlined(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    made = _canvas(image)
    draw = ImageDraw.Draw(made)
    for corners in _corners(names, boxes):
        draw.rectangle(corners, outline="red", width=OUTLINE_PX)
    return made


def _highlighted(image: Image.Image, names: Sequence[str], boxes: Boxes) -> Image.Image:
    made = _canvas(image)
    film = Image.new("RGBA", made.size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(film)
    for corners in _corners(names, boxes):
        draw.rectangle(corners, fill=HIGHLIGHT)
    return Image.alpha_composite(made.convert("RGBA"), film).convert(made.mode)
