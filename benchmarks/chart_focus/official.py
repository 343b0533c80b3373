"""Rows as VTool-R1 has them (charts of ChartQA, tables of TableVQA-Bench, boxes of ReFocus), from a local file.

JSON lines, a JSON list, or Parquet. Read from each: `query` (or `question`), `answer`, the picture (`images`: bytes or
`data:` URI; else `figure_path`, looked for from the file's folder upwards), and `metadata`, an object or JSON text:
`type`, with `x_values_bbox` and `y_values_bbox` in pixels for charts, and for tables `columns_bbox` and `row_starters`
(or `rows_bbox`), whose boxes are fractions of the picture. A list of boxes goes with the names in `column_headers` and
`row_starters`. What does not fit is a mistake that names the row.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from benchmarks.chart_focus.parts import AXES_OF, Axis, Box, FigureType
from benchmarks.chart_focus.rows import FigureQuestion
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.json_row import parse_row
from gym_core.datasets.parquet import read_parquet_rows

TASKSET = "chart_focus_official"
MAX_FILE_BYTES = 4 << 30
_COLUMNS = ("answer", "metadata")
_OPTIONAL_COLUMNS = ("figure_id", "query", "question", "images", "figure_path")
_NO_ANSWER = " \t\r\n*_`'\"|."
"""What golds are parted by, and what stands around one."""
_MAX_MISTAKES_SHOWN = 20
_MAX_NAMES = 200
_MOST_FRACTION = 1.5
"""A table whose boxes all end before it is in fractions; some overshoot 1 a little."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=300)]


class _Theirs(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Corners(_Theirs):
    x1: float
    y1: float
    x2: float
    y2: float


def _without_nulls(value: object) -> object:
    """Parquet gives every name of the whole column to each row, those of other rows as null."""
    return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value


_Mapped = Annotated[
    dict[Name, _Corners] | list[_Corners], BeforeValidator(_without_nulls), Field(max_length=_MAX_NAMES)
]
_Starters = Annotated[dict[Name, _Corners] | list[Name], BeforeValidator(_without_nulls), Field(max_length=_MAX_NAMES)]


class _Metadata(_Theirs):
    type: FigureType
    x_values_bbox: _Mapped = {}
    y_values_bbox: _Mapped = {}
    columns_bbox: _Mapped = {}
    rows_bbox: _Mapped = {}
    row_starters: _Starters = {}
    column_headers: Annotated[list[Name], Field(max_length=_MAX_NAMES)] = []

    def named(self, axis: Axis) -> dict[str, _Corners]:
        """Raises ValueError for a list of boxes without as many names."""
        found = getattr(self, f"{axis}_bbox")
        if axis == "rows" and not found and isinstance(self.row_starters, dict):
            found = self.row_starters
        if isinstance(found, dict):
            return found
        names = {"columns": self.column_headers, "rows": list(self.row_starters)}.get(axis, [])
        if len(names) != len(found):
            raise ValueError(f"{axis}: {len(found)} boxes and {len(names)} names")
        return dict(zip(names, found, strict=True))


def _parsed(value: object) -> object:
    return _without_nulls(parse_row(value.encode()) if isinstance(value, str) else value)


def _joined(value: object) -> object:
    return "|||".join(map(str, value)) if isinstance(value, list) else value if value is None else str(value)


def _with_a_gold(answer: str) -> str:
    if not answer.strip(_NO_ANSWER):
        raise ValueError("holds no answer")
    return answer


class _Picture(_Theirs):
    bytes: bytes


class _Row(_Theirs):
    figure_id: str | None = None
    query: Annotated[str, StringConstraints(min_length=1, max_length=10_000, strip_whitespace=True)]
    answer: Annotated[str, BeforeValidator(_joined), StringConstraints(max_length=5000), AfterValidator(_with_a_gold)]
    images: list[_Picture | str] | None = Field(default=None, max_length=1)
    figure_path: str | None = None
    metadata: Annotated[_Metadata, BeforeValidator(_parsed)]


def official_questions(path: Path) -> Iterator[FigureQuestion]:
    """In their order. Raises ValueError at the end, naming each bad row, and OSError for a file that cannot be read."""
    index, mistakes = -1, list[str]()
    try:
        for index, row in enumerate(_rows(path)):
            try:
                yield _question(str(index), _fields(row), path.parent)
            except ValueError as error:
                mistakes.append(f"row {index}: {_told(error)}")
    except ValueError as error:  # of the file: nothing after it can be read
        mistakes.append(str(error))
    if mistakes:
        shown = "\n  ".join(mistakes[:_MAX_MISTAKES_SHOWN])
        raise ValueError(f"chart_focus: {len(mistakes)} mistakes in {str(path)!r}:\n  {shown}")
    if index < 0:
        raise ValueError(f"chart_focus: no rows in {str(path)!r}")


def figure_files(path: Path) -> Iterator[Path]:
    """The pictures beside a file of rows that are named in it and there, each once, in their order. Rows that are wrong
    name none. Raises ValueError and OSError for a file that cannot be read."""
    seen = set[str]()
    for row in _rows_with_a_path(path):
        try:
            fields = _fields(row)
        except ValueError:
            continue
        named = fields.get("figure_path") if isinstance(fields, dict) else None
        if isinstance(named, str) and named not in seen:
            seen.add(named)
            with suppress(ValueError):
                yield _figure_file(named, path.parent)


def _told(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_input=False, include_url=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:3])


def _rows(path: Path) -> Iterator[object]:
    """Objects, and bytes for what is yet to be parsed. Raises ValueError for the file as a whole."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"{str(path)!r} is larger than {MAX_FILE_BYTES >> 30} GiB")
    if path.suffix == ".parquet":
        yield from read_parquet_rows(path, _COLUMNS, optional=_OPTIONAL_COLUMNS)
    elif path.suffix == ".json":
        try:
            found = parse_row(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{str(path)!r}: {error}") from error
        if not isinstance(found, list):
            raise ValueError(f"{str(path)!r}: a JSON file of rows is a list")
        yield from found
    else:
        with path.open("rb") as lines:
            yield from (line for line in lines if line.strip())


def _rows_with_a_path(path: Path) -> Iterator[object]:
    """Those that may name a picture: quick where the pictures are in the file."""
    if path.suffix == ".parquet":
        yield from read_parquet_rows(path, (), optional=("figure_path",))
    else:
        yield from (row for row in _rows(path) if not isinstance(row, bytes) or b"figure_path" in row)


def _fields(row: object) -> object:
    return parse_row(row) if isinstance(row, bytes) else row


def _question(name: str, fields: object, folder: Path) -> FigureQuestion:
    row = _Row.model_validate(_renamed(fields))
    image = PreparedImage.from_bytes(_picture(row, folder), row=f"figure {row.figure_id or name}")
    figure_type = row.metadata.type
    boxes = {axis: _pixel_boxes(row.metadata.named(axis), figure_type, image) for axis in AXES_OF[figure_type]}
    if not any(boxes.values()):
        raise ValueError(f"no boxes of {' or '.join(boxes)} for a figure of type {figure_type!r}")
    return FigureQuestion(
        source_id=name,
        taskset=TASKSET,
        figure_type=figure_type,
        kind="official",
        image=image,
        question=row.query,
        gold=row.answer,
        boxes=boxes,
    )


def _renamed(fields: object) -> object:
    if not isinstance(fields, dict) or fields.get("query") is not None:
        return fields
    return {**fields, "query": fields.get("question")}


def _pixel_boxes(named: Mapping[str, _Corners], figure_type: FigureType, image: PreparedImage) -> dict[str, Box]:
    """Within the picture, each a pixel wide and high at least."""
    corners = list(named.values())
    in_fractions = figure_type == "table" and max((max(c.x2, c.y2) for c in corners), default=0.0) <= _MOST_FRACTION
    x_scale, y_scale = (image.width, image.height) if in_fractions else (1, 1)
    boxes = {}
    for name, c in named.items():
        x1, x2 = (round(min(max(x * x_scale, 0), image.width)) for x in (c.x1, c.x2))
        y1, y2 = (round(min(max(y * y_scale, 0), image.height)) for y in (c.y1, c.y2))
        if x1 >= x2 or y1 >= y2:
            raise ValueError(f"the box of {name!r} has no area within the picture")
        boxes[name] = (x1, y1, x2, y2)
    return boxes


def _picture(row: _Row, folder: Path) -> bytes:
    if row.images:
        found = row.images[0]
        return found.bytes if isinstance(found, _Picture) else _from_data_uri(found)
    if row.figure_path is None:
        raise ValueError("neither images nor figure_path")
    return _figure_file(row.figure_path, folder).read_bytes()


def _figure_file(named: str, folder: Path) -> Path:
    """Raises ValueError where there is none."""
    asked = Path(named)
    if asked.is_absolute() or ".." in asked.parts:
        raise ValueError(f"figure_path {named[:200]!r} leads out of the data's folder")
    for base in (folder, *list(folder.resolve().parents)[:2]):
        with suppress(OSError):  # a name that is too long
            if (base / asked).is_file():
                return base / asked
    raise ValueError(f"no file {named[:200]!r} in {str(folder)!r} or the two folders above it")


def _from_data_uri(uri: str) -> bytes:
    head, comma, content = uri.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise ValueError(f"images: no base64 data URI: it begins with {uri[:40]!r}")
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise ValueError(f"images: {error}") from error
