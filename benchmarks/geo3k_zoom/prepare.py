"""Write the task rows of Geometry3K as `chenhegu/geo3k_imgurl` has them: from the hub, or from a local Parquet file."""

import base64
import binascii
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gym_core.datasets.digest import sha256_of
from gym_core.datasets.hub import HUB, HUB_VARIABLE, HubFile, check_lock, fetch_hub_file
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.manifest import manifest_path
from gym_core.datasets.parquet import read_parquet_rows
from gym_core.datasets.prepare_args import read_prepare_args
from gym_core.datasets.prepared import write_dataset
from gym_core.datasets.visual_question import VisualQuestion, to_task_row
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject, Wire

DATASET = "chenhegu/geo3k_imgurl"
LOCAL_COPY_VARIABLE = "GEO3K_PARQUET"
"""Path of a local Parquet file; `{split}` in it stands for the split's name. Without it, it is the test split's."""
_MARK = "{split}"
Split = Literal["train", "test"]
_SPLITS: tuple[Split, ...] = get_args(Split)
TASKSET = "geo3k"
COLUMNS = ("problem", "answer", "images")
MARKER = "<image>"
INSTRUCTION = (
    "Solve the geometry problem in the image. If a label or a mark is too small to read, look closer with the tool "
    "zoom(x0, y0, x1, y1): its arguments are fractions of the image's width and height. You may call it twice."
)

_SEED = 42
"""Of the shuffle before `max_rows` are taken, as in the published environment."""
_MAX_SOURCE_BYTES = 1 << 30
_MAX_MISTAKES_SHOWN = 20


class PrepareArgs(Wire):
    """`prepare_args` of the benchmark's config."""

    split: Split = "test"
    max_rows: int | None = Field(default=None, gt=0)
    """So many rows of a shuffle that is always the same; None takes all, in their order."""
    revision: str = Field(default="main", pattern=r"^[A-Za-z0-9._-]{1,64}$")
    """Of the hub's repository."""


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True)

    problem: str = Field(min_length=1, max_length=10_000)
    answer: str = Field(min_length=1, max_length=500)
    images: list[str] = Field(min_length=1, max_length=1)


def prepare(args: JsonObject, jsonl_fpath: Path) -> Path:
    """Raises ConfigError for wrong arguments, ValueError naming each bad row."""
    checked = read_prepare_args(PrepareArgs, args)
    origin, path, sha256 = _source(checked, jsonl_fpath.parent)
    questions = _questions(path, checked)
    if checked.max_rows is not None:
        random.Random(_SEED).shuffle(questions)
        questions = questions[: checked.max_rows]
    count = write_dataset(_rows(questions), jsonl_fpath)
    manifest = {"dataset": DATASET, "origin": origin, "sha256": sha256, "split": checked.split, "rows": count}
    manifest_path(jsonl_fpath).write_text(json.dumps(manifest, indent=2) + "\n")
    return jsonl_fpath


def fingerprint(args: JsonObject) -> str:
    """Names the content of the local copy that is asked for; "" when none is."""
    path = _local_copy(read_prepare_args(PrepareArgs, args).split)
    if path is None:
        return ""
    return f"sha256:{sha256_of(path)}" if path.is_file() else f"no file {path}"


def _local_copy(split: Split) -> Path | None:
    """Raises ConfigError where one file would be two splits: a model must not be trained on what it is tested on."""
    named = os.environ.get(LOCAL_COPY_VARIABLE)
    if named and _MARK not in named and split != "test":
        raise ConfigError(
            f"{LOCAL_COPY_VARIABLE}: {named!r} names the test split's file alone: write {_MARK} where the split's name "
            f"stands in it, or leave the {split} rows out with ++split=benchmark"
        )
    return Path(named.replace(_MARK, split)).expanduser() if named else None


def _source(args: PrepareArgs, folder: Path) -> tuple[str, Path, str]:
    """Where the rows come from: its name, the file, and its SHA-256."""
    path = _local_copy(args.split)
    if path is not None:
        return "local", path, _sha256_of_local(path, args.split)
    file = HubFile(DATASET, args.revision, f"{args.split}.parquet", _MAX_SOURCE_BYTES)
    path = folder / f"geo3k-{args.revision[:12]}-{args.split}.parquet"
    try:
        if not path.is_file():
            fetch_hub_file(file, path, hub=os.environ.get(HUB_VARIABLE) or HUB)
        return file.origin, path, check_lock(file.origin, path, folder / "geo3k.lock.json")
    except ValueError as error:
        raise ValueError(f"geo3k: {error}. Without internet, set {LOCAL_COPY_VARIABLE} to a local copy") from error


def _sha256_of_local(path: Path, split: Split) -> str:
    """Raises ConfigError for no file, and for one with the content of another split's."""
    if not path.is_file():
        leave_out = "" if split == "test" else f"; ++split=benchmark leaves the {split} rows out"
        what = "a folder" if path.is_dir() else "no file"
        raise ConfigError(f"{LOCAL_COPY_VARIABLE}: {str(path)!r} is {what}{leave_out}")
    sha256 = sha256_of(path)
    if _MARK in os.environ[LOCAL_COPY_VARIABLE]:
        others = [_local_copy(other) for other in _SPLITS if other != split]
        for other in others:
            if other and other.is_file() and sha256_of(other) == sha256:
                raise ConfigError(f"{LOCAL_COPY_VARIABLE}: {str(path)!r} and {str(other)!r} hold the same rows")
    return sha256


def _questions(path: Path, args: PrepareArgs) -> list[VisualQuestion]:
    questions, mistakes = [], []
    for index, fields in enumerate(read_parquet_rows(path, COLUMNS)):
        name = f"{args.split}-{index}"
        try:
            questions.append(_question(name, fields))
        except ValueError as error:
            mistakes.append(str(error))
    if mistakes:
        shown = "\n  ".join(mistakes[:_MAX_MISTAKES_SHOWN])
        raise ValueError(f"geo3k: {len(mistakes)} bad rows in {str(path)!r}:\n  {shown}")
    if not questions:
        raise ValueError(f"geo3k: no rows in {str(path)!r}")
    return questions


def _question(name: str, fields: JsonObject) -> VisualQuestion:
    try:
        row = _Row.model_validate(fields)
    except ValidationError as error:
        where = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise ValueError(f"{name}: {where}") from error
    return VisualQuestion(
        source_id=name,
        taskset=TASKSET,
        category="Geometry",
        subtype="Geometry3K",
        image=PreparedImage.from_bytes(_image_bytes(row.images[0], name), row=name),
        question=row.problem.replace(MARKER, "").strip(),
        ans_type="blank",
        gold=row.answer,
    )


def _image_bytes(uri: str, name: str) -> bytes:
    """Of a `data:` URI. Its media type is not looked at: the source says `image/None`; the content tells the kind."""
    head, comma, content = uri.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise ValueError(f"{name}: image is no base64 data URI: it begins with {uri[:40]!r}")
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name}: image: {error}") from error


def _rows(questions: list[VisualQuestion]) -> Iterator[tuple[JsonObject, PreparedImage]]:
    for question in questions:
        yield to_task_row(question, instruction=INSTRUCTION), question.image
