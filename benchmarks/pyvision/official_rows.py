"""Questions of a file in the form that PyVision's data have: id, question, answer, ability, data_source, and a path.

`.jsonl`, `.json` (a list) or `.parquet`. A path is relative to the folder of the media, and none leads out of it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchmarks.pyvision.clues import ImageClue, Question, VideoClue, VideoFacts
from gym_core.datasets.digest import sha256_of
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.json_row import parse_row
from gym_core.datasets.parquet import read_parquet_rows
from gym_core.types.wire import JsonObject

Clues = Literal["images", "videos"]
COLUMNS = ("id", "question", "answer", "ability", "data_source")
_PATH = {"images": "image_path", "videos": "video_path"}
_MARKERS = ("<image>", "<video>")
_MAX_IMAGE_BYTES = 32 << 20
_MAX_CLUES = 8
_MAX_MISTAKES_SHOWN = 20


@dataclass(frozen=True)
class OfficialRows:
    """A file of rows and the folder of their media."""

    path: Path
    media: Path
    clues: Clues
    inline_bytes: int
    """A video of more is not put into its row but named, with its SHA-256."""


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True)

    id: str | int
    question: str = Field(min_length=1, max_length=20_000)
    answer: str | int | float
    ability: str = Field(default="", max_length=200)
    data_source: str = Field(default="", max_length=200)
    path: str | list[str] = Field(min_length=1, max_length=_MAX_CLUES * 500)


def read_official_rows(rows: OfficialRows, *, limit: int | None = None) -> list[Question]:
    """Raises ValueError naming every bad row, and OSError for a file that cannot be read."""
    questions: list[Question] = []
    mistakes: list[str] = []
    for number, fields in enumerate(_fields(rows)):
        if limit is not None and len(questions) >= limit:
            break
        try:
            questions.append(_question(fields, rows))
        except ValueError as error:
            mistakes.append(f"row {number + 1}: {error}")
    if mistakes:
        shown = "\n  ".join(mistakes[:_MAX_MISTAKES_SHOWN])
        raise ValueError(f"{len(mistakes)} bad rows in {str(rows.path)!r}:\n  {shown}")
    if not questions:
        raise ValueError(f"no rows in {str(rows.path)!r}")
    return questions


def _fields(rows: OfficialRows) -> Iterator[object]:
    match rows.path.suffix:
        case ".parquet":
            yield from read_parquet_rows(rows.path, (*COLUMNS, _PATH[rows.clues]))
        case ".json":
            listed = json.loads(rows.path.read_bytes())
            if not isinstance(listed, list):
                raise ValueError(f"{str(rows.path)!r} is no list of rows")
            yield from listed
        case ".jsonl":
            with rows.path.open("rb") as lines:
                yield from (parse_row(line) for line in lines if line.strip())
        case other:
            raise ValueError(f"{str(rows.path)!r}: rows are read from .jsonl, .json and .parquet, not from {other!r}")


def _question(fields: object, rows: OfficialRows) -> Question:
    if not isinstance(fields, dict):
        raise ValueError("is no object")
    try:
        row = _Row.model_validate({**fields, "path": fields.get(_PATH[rows.clues])})
    except ValidationError as error:
        where = {e["loc"][0]: e["msg"] for e in error.errors(include_input=False)}
        told = "; ".join(f"{_PATH[rows.clues] if name == 'path' else name}: {said}" for name, said in where.items())
        raise ValueError(told) from error
    asked = row.question
    for marker in _MARKERS:
        asked = asked.replace(marker, "")
    names = [row.path] if isinstance(row.path, str) else row.path
    return Question(
        id=str(row.id),
        question=asked.strip(),
        answer=str(row.answer).strip(),
        ability=row.ability,
        data_source=row.data_source,
        clues=tuple(_clues(names, rows)),
    )


def _clues(names: Sequence[str], rows: OfficialRows) -> Iterator[ImageClue | VideoClue]:
    for name in names:
        path = _inside(rows.media, name)
        yield _image(name, path) if rows.clues == "images" else _video(name, path, rows)


def _inside(media: Path, name: str) -> Path:
    path, root = (media / name).resolve(), media.resolve()
    if not path.is_relative_to(root):
        raise ValueError(f"{name[:200]!r} leads out of {str(media)!r}")
    if not path.is_file():
        raise ValueError(f"no file {name[:200]!r} in {str(media)!r}")
    return path


def _image(name: str, path: Path) -> ImageClue:
    if path.stat().st_size > _MAX_IMAGE_BYTES:
        raise ValueError(f"image {name[:200]!r} is larger than {_MAX_IMAGE_BYTES >> 20} MiB")
    return ImageClue(PreparedImage.from_bytes(path.read_bytes(), row=f"image {name[:200]!r}"))


def _video(name: str, path: Path, rows: OfficialRows) -> VideoClue:
    facts = VideoFacts.of_file(path)
    if path.stat().st_size <= rows.inline_bytes:
        return VideoClue.inline(path.read_bytes(), facts)
    named: JsonObject = {"file": path.relative_to(rows.media.resolve()).as_posix(), "sha256": sha256_of(path)}
    return VideoClue(facts, named)
