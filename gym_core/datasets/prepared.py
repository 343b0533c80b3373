"""Prepared datasets on disk: `X.jsonl`, one flat task row a line, and `X_assets/`, each of its images once."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from gym_core.capture.images import AssetStore, externalize
from gym_core.datasets.images import PreparedImage
from gym_core.errors import InvalidTask
from gym_core.types.flat_row import task_from_flat
from gym_core.types.task import Task
from gym_core.types.wire import JsonObject

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Of one row, which may carry its images as data URLs."""


def assets_of(jsonl_fpath: Path) -> AssetStore:
    """The assets folder that belongs to a JSONL file of tasks or rollouts."""
    return AssetStore(jsonl_fpath.with_name(f"{jsonl_fpath.stem}_assets"))


def write_dataset(rows: Iterable[tuple[JsonObject, PreparedImage]], jsonl_fpath: Path) -> int:
    """Write rows and their images; the count of rows. The file appears whole, after all its images, or not at all."""
    assets = assets_of(jsonl_fpath)
    jsonl_fpath.parent.mkdir(parents=True, exist_ok=True)
    partial = jsonl_fpath.with_name(f".{jsonl_fpath.name}.{os.getpid()}")
    count = 0
    try:
        with partial.open("w", encoding="utf-8") as lines:
            for row, image in rows:
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
    `task_id` is named after the file (or `taskset`) and its index. Raises ValueError naming file and line.
    """
    assets = assets_of(jsonl_fpath)
    for index, (number, line) in enumerate(_lines(jsonl_fpath)):
        try:
            task = task_from_flat(json.loads(line), taskset=taskset or jsonl_fpath.stem, index=index)
            body = externalize(task.responses_create_params, assets)
        except (ValueError, RecursionError, InvalidTask) as error:
            raise ValueError(f"{jsonl_fpath}:{number}: {error}") from error
        yield task.model_copy(update={"responses_create_params": body})


def _lines(jsonl_fpath: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not blank."""
    with jsonl_fpath.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"{jsonl_fpath}:{number}: line is longer than {MAX_LINE_BYTES} bytes")
            if line.strip():
                yield number, line
