"""Prepared datasets on disk: `X.jsonl`, one flat task row a line, and `X_assets/`, each of its images once."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from gym_core.capture.images import (
    REFERENCE_PREFIX,
    AssetStore,
    externalize,
    image_urls,
    parse_reference,
    sniff_media_type,
)
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.json_row import parse_row
from gym_core.errors import InvalidTask
from gym_core.types.flat_row import task_from_flat
from gym_core.types.responses import ResponsesBody
from gym_core.types.task import Task
from gym_core.types.wire import JsonObject

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Of one row, which may carry its images as data URLs."""


class DatasetError(ValueError):
    """A row that is no task; the message begins with file and line."""


def assets_of(jsonl_fpath: Path) -> AssetStore:
    """The assets folder that belongs to a JSONL file of tasks or rollouts."""
    return AssetStore(jsonl_fpath.with_name(f"{jsonl_fpath.stem}_assets"))


def write_dataset(rows: Iterable[tuple[JsonObject, PreparedImage | Sequence[PreparedImage]]], jsonl_fpath: Path) -> int:
    """Write rows, each with its image or images; the count of rows. The file appears whole, after all its images, or
    not at all."""
    assets = assets_of(jsonl_fpath)
    jsonl_fpath.parent.mkdir(parents=True, exist_ok=True)
    partial = jsonl_fpath.with_name(f".{jsonl_fpath.name}.{os.getpid()}")
    count = 0
    try:
        with partial.open("w", encoding="utf-8") as lines:
            for row, images in rows:
                for image in [images] if isinstance(images, PreparedImage) else images:
                    assets.put(image.content)
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += 1
        partial.replace(jsonl_fpath)
    finally:
        partial.unlink(missing_ok=True)
    return count


def read_dataset(jsonl_fpath: Path, *, taskset: str | None = None) -> Iterator[Task]:
    """Tasks of a file, in order, every image a reference into its assets folder.

    Rows with `data:` images are accepted: their images are put into the assets folder on the way. A row without a
    `task_id` is named after the file (or `taskset`) and its index. Raises DatasetError naming file and line.
    """
    assets = assets_of(jsonl_fpath)
    line_of: dict[str, int] = {}
    for index, (number, line) in enumerate(_lines(jsonl_fpath)):
        try:
            task = task_from_flat(parse_row(line), taskset=taskset or jsonl_fpath.stem, index=index)
            task = _with_assets(task, assets)
            twin = line_of.setdefault(task.content_hash(), number)
        except ValueError as error:
            raise DatasetError(f"{jsonl_fpath}:{number}: {error}") from error
        if twin != number:
            what = f"has the content of line {twin}: the results of the two could not be told apart"
            raise DatasetError(f"{jsonl_fpath}:{number}: {what}")
        yield task


def _with_assets(task: Task, assets: AssetStore) -> Task:
    body = task.responses_create_params
    check_prompt(body)
    for url in image_urls(body):
        if not url.startswith(("data:", REFERENCE_PREFIX)):
            raise ValueError(f"image {url[:80]!r}: nothing is fetched; put the picture in as a data: URL")
    try:
        body = externalize(body, assets)
    except InvalidTask as error:
        raise ValueError(str(error.__cause__ or error)) from error
    for url in image_urls(body):
        check_picture(assets.path(parse_reference(url)))
    return task.model_copy(update={"responses_create_params": body})


def check_prompt(body: ResponsesBody) -> None:
    """Raises ValueError when it asks nothing."""
    if not body.input:
        raise ValueError("responses_create_params.input is empty: there is nothing to ask")


def check_picture(path: Path) -> None:
    """By its first bytes: whether all of it can be decoded is seen when it is played. Raises ValueError."""
    with suppress(FileNotFoundError), path.open("rb") as file:  # whoever needs the file says that it is missing
        head = file.read(16)
        if sniff_media_type(head) is None:
            raise ValueError(f"an image is none of a known kind: it begins with {head!r}")


def _lines(jsonl_fpath: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not blank."""
    try:
        with jsonl_fpath.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise DatasetError(f"{jsonl_fpath}:{number}: the line is longer than {MAX_LINE_BYTES >> 20} MiB")
                if line.strip():
                    yield number, line
    except OSError as error:
        raise DatasetError(f"{jsonl_fpath}: cannot be read: {error.strerror or error}") from error
