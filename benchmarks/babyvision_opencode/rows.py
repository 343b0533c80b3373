"""BabyVision's own rows, read from either form of the data and checked, as visual questions.

The annotators' solutions (`coT`) are never read: what is not in memory cannot leak.
"""

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, ValidationError

from benchmarks.babyvision_opencode.source import Source, SourceKind
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.parquet import read_parquet_rows
from gym_core.datasets.visual_question import VisualQuestion
from gym_core.types.wire import JsonObject

TASKSET = "babyvision"
"""The same for every benchmark over these puzzles, so that their rollouts can be compared task by task."""

COLUMNS = ("taskId", "type", "subtype", "image", "question", "ansType", "options", "choiceAns", "blankAns")
METADATA_NAME = "meta_data.jsonl"
MAX_MEMBER_BYTES = 64 << 20
_MAX_MISTAKES_SHOWN = 20


def _absent_as_none(value: object) -> object:
    """What stands for "no value" in the copies that are about: null, the text "null", and pandas' NaN."""
    is_nan = isinstance(value, float) and value != value
    return None if is_nan or (isinstance(value, str) and value.strip().casefold() in ("", "null")) else value


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) else value


Words = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class BabyVisionRow(BaseModel):
    """A row of the data set, its picture apart."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    taskId: int
    type: Words
    subtype: Words
    question: Words
    ansType: Literal["choice", "blank"]
    options: Annotated[tuple[str, ...], BeforeValidator(lambda value: () if _absent_as_none(value) is None else value)]
    choiceAns: Annotated[int | None, BeforeValidator(_absent_as_none)] = None
    """Index into `options`, from 0."""
    blankAns: Annotated[str | None, BeforeValidator(lambda value: _as_text(_absent_as_none(value)))] = None

    def gold(self) -> str:
        """Letter or text. Raises ValueError when the key does not fit the question."""
        if self.ansType == "blank":
            if self.blankAns is None:
                raise ValueError("blank question without blankAns")
            return self.blankAns.strip()
        if not 0 < len(self.options) <= 26:
            raise ValueError(f"choice question with {len(self.options)} options")
        if self.choiceAns is None or not 0 <= self.choiceAns < len(self.options):
            raise ValueError(f"choiceAns {self.choiceAns} is not an index into {len(self.options)} options")
        return chr(ord("A") + self.choiceAns)


@dataclass(frozen=True)
class RawRow:
    """A row as it lies in the source. Strangers' JSON: checked in `_question_of`."""

    place: str
    """For messages, where the row has no usable id."""
    fields: JsonObject
    image: bytes | str
    """The picture, or why there is none."""


def read_questions(source: Source) -> list[VisualQuestion]:
    """All rows, in the source's order. Raises ValueError with every mistake of every row, each with its taskId."""
    rows = _zip_rows(source.path) if source.kind is SourceKind.ZIP else _parquet_rows(source.path)
    questions: dict[str, VisualQuestion] = {}
    mistakes: list[str] = []
    for row in rows:
        try:
            question = _question_of(row)
            if question.source_id in questions:
                raise ValueError(f"taskId {question.source_id}: stands twice")
            questions[question.source_id] = question
        except ValueError as error:
            mistakes.append(str(error))
    if mistakes:
        shown = "\n  ".join(mistakes[:_MAX_MISTAKES_SHOWN])
        raise ValueError(f"BabyVision: {len(mistakes)} bad rows in {str(source.path)!r}:\n  {shown}")
    if not questions:
        raise ValueError(f"BabyVision: no rows in {str(source.path)!r}")
    return list(questions.values())


def _question_of(raw: RawRow) -> VisualQuestion:
    try:
        row = BabyVisionRow.model_validate(raw.fields)
    except ValidationError as error:
        name = f"taskId {raw.fields['taskId']}" if raw.fields.get("taskId") is not None else raw.place
        fields = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise ValueError(f"{name}: {fields}") from error
    name = f"taskId {row.taskId}"
    if isinstance(raw.image, str):
        raise ValueError(f"{name}: {raw.image}")
    try:
        gold = row.gold()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return VisualQuestion(
        source_id=str(row.taskId),
        taskset=TASKSET,
        category=row.type,
        subtype=row.subtype,
        image=PreparedImage.from_bytes(raw.image, row=name),
        question=row.question,
        ans_type=row.ansType,
        gold=gold,
        options=row.options if row.ansType == "choice" else (),
        answer_kind="letter" if row.ansType == "choice" else None,
    )


def _parquet_rows(path: Path) -> Iterator[RawRow]:
    for index, fields in enumerate(read_parquet_rows(path, COLUMNS)):
        image = fields.pop("image")
        content = image.get("bytes") if isinstance(image, dict) else None
        yield RawRow(
            place=f"row {index}",
            fields=fields,
            image=content if isinstance(content, bytes) else "image has no bytes",
        )


def _zip_rows(path: Path) -> Iterator[RawRow]:
    try:
        with zipfile.ZipFile(path) as archive:
            metadata = [name for name in archive.namelist() if PurePosixPath(name).name == METADATA_NAME]
            if len(metadata) != 1:
                raise ValueError(f"{path}: {len(metadata)} files named {METADATA_NAME}")
            folder = PurePosixPath(metadata[0]).parent
            for number, line in enumerate(_member(archive, metadata[0]).splitlines(), start=1):
                if line.strip():
                    yield _zip_row(archive, folder, line, place=f"{metadata[0]}:{number}")
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path}: not a readable zip: {error}") from error


def _zip_row(archive: zipfile.ZipFile, folder: PurePosixPath, line: bytes, *, place: str) -> RawRow:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        return RawRow(place, {}, f"no JSON: {error}")
    if not isinstance(fields, dict):
        return RawRow(place, {}, "no JSON object")
    name = fields.get("image")
    try:
        image: bytes | str = _member(archive, str(folder / str(name)))
    except KeyError:
        image = f"no image {name!r} in the zip"
    return RawRow(place, {column: fields.get(column) for column in COLUMNS if column != "image"}, image)


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Content of one member, bounded whatever its header claims. Raises KeyError when there is none of that name."""
    with archive.open(name) as member:
        content = member.read(MAX_MEMBER_BYTES + 1)
    if len(content) > MAX_MEMBER_BYTES:
        raise ValueError(f"{name} in the zip is larger than {MAX_MEMBER_BYTES} bytes")
    return content
