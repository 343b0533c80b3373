"""Questions of a file in the form that PyVision's data have: id, question, answer, ability, data_source, and a path.

`.jsonl`, `.json` (a list) or `.parquet`. A path is relative to the folder of the media, and none leads out of it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from benchmarks.pyvision.clues import Question
from benchmarks.pyvision.official_media import MAX_CLUES, MAX_NAME_CHARS, MediaFolder
from gym_core.datasets.json_row import parse_row
from gym_core.datasets.parquet import read_parquet_rows

COLUMNS = ("id", "question", "answer", "ability", "data_source")
_PATH = {"images": "image_path", "videos": "video_path"}
_MARKERS = ("<image>", "<video>")
_MAX_MISTAKES_SHOWN = 20


@dataclass(frozen=True)
class OfficialRows:
    """A file of rows and the folder of their media."""

    path: Path
    media: MediaFolder

    @property
    def path_column(self) -> str:
        return _PATH[self.media.clues]


def _text(value: object) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not isinstance(value, str) and not is_number:
        raise ValueError("should be text or a number")
    return str(value)


def _question_text(value: object) -> object:
    if isinstance(value, str):
        for marker in _MARKERS:
            value = value.replace(marker, "")
    return value


def _names(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError("should be a path, or a list of paths")
    if any(len(name) > MAX_NAME_CHARS for name in names):
        raise ValueError(f"a path is longer than {MAX_NAME_CHARS} characters")
    return tuple(names)


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True)

    id: Annotated[str, Field(min_length=1, max_length=200), BeforeValidator(_text)]
    question: Annotated[str, Field(min_length=1, max_length=20_000), BeforeValidator(_question_text)]
    answer: Annotated[str, Field(min_length=1, max_length=20_000), BeforeValidator(_text)]
    ability: str = Field(default="", max_length=200)
    data_source: str = Field(default="", max_length=200)
    path: Annotated[tuple[str, ...], BeforeValidator(_names)]


@dataclass
class _Twins:
    """Rows that cannot be told apart: results are kept by id, and by what was asked."""

    row_of: dict[object, int] = field(default_factory=dict)

    def refuse(self, row: _Row, number: int) -> None:
        if (first := self.row_of.setdefault(row.id, number)) != number:
            raise ValueError(f"id: {row.id!r} is row {first}'s")
        content = row.model_copy(update={"id": ""})
        if (first := self.row_of.setdefault(content, number)) != number:
            raise ValueError(f"is row {first} again: the results of the two could not be told apart")


def read_official_rows(rows: OfficialRows, *, limit: int | None = None) -> list[Question]:
    """Raises ValueError naming every bad row, and OSError for a file that cannot be read."""
    questions: list[Question] = []
    mistakes: list[str] = []
    twins = _Twins()
    for number, fields in enumerate(_fields(rows), 1):
        if limit is not None and len(questions) >= limit:
            break
        try:
            row = _row(fields, rows)
            twins.refuse(row, number)
            questions.append(_question(row, rows))
        except ValueError as error:
            mistakes.append(f"row {number}: {error}")
    if mistakes:
        shown = "\n  ".join(mistakes[:_MAX_MISTAKES_SHOWN])
        raise ValueError(f"{len(mistakes)} bad rows in {str(rows.path)!r}:\n  {shown}")
    if not questions:
        raise ValueError(f"no rows in {str(rows.path)!r}")
    return questions


def media_files(rows: OfficialRows, *, limit: int | None = None) -> Iterator[Path]:
    """Files that the rows name, whether or not they are there; those of a bad row are left out, and so is what follows
    where the file cannot be read on."""
    try:
        for fields in islice(_fields(rows), limit):
            try:
                names = _row(fields, rows).path
            except ValueError:
                continue
            yield from (rows.media.path / name for name in names if "\0" not in name)
    except (OSError, ValueError):
        return


def _fields(rows: OfficialRows) -> Iterator[object]:
    """Objects, and lines of a JSONL file as they are: a bad one is one bad row."""
    match rows.path.suffix:
        case ".parquet":
            yield from read_parquet_rows(rows.path, (*COLUMNS, rows.path_column))
        case ".json":
            try:
                listed = parse_row(rows.path.read_bytes())
            except ValueError as error:
                raise ValueError(f"{str(rows.path)!r}: {error}") from error
            if not isinstance(listed, list):
                raise ValueError(f"{str(rows.path)!r} is no list of rows")
            yield from listed
        case ".jsonl":
            with rows.path.open("rb") as lines:
                yield from (line for line in lines if line.strip())
        case other:
            raise ValueError(f"{str(rows.path)!r}: rows are read from .jsonl, .json and .parquet, not from {other!r}")


def _row(fields: object, rows: OfficialRows) -> _Row:
    if isinstance(fields, bytes):
        fields = parse_row(fields)
    if not isinstance(fields, dict):
        raise ValueError("is no object")
    media = {"path": fields[rows.path_column]} if rows.path_column in fields else {}
    try:
        row = _Row.model_validate({name: fields[name] for name in COLUMNS if name in fields} | media)
    except ValidationError as error:
        said = {e["loc"][0]: e["msg"].removeprefix("Value error, ") for e in error.errors(include_input=False)}
        told = (f"{rows.path_column if name == 'path' else name}: {what}" for name, what in said.items())
        raise ValueError("; ".join(told)) from error
    if len(row.path) > (most := MAX_CLUES[rows.media.clues]):
        raise ValueError(f"{rows.path_column}: {len(row.path)} {rows.media.clues} are more than {most}")
    return row


def _question(row: _Row, rows: OfficialRows) -> Question:
    return Question(
        id=row.id,
        question=row.question,
        answer=row.answer,
        ability=row.ability,
        data_source=row.data_source,
        clues=tuple(rows.media.read(row.path)),
    )
