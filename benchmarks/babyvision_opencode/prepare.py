"""Write BabyVision as task rows: the pinned data, verified, with an instruction before each question or without."""

import json
import os
from pathlib import Path
from typing import Annotated

from pydantic import Field

from benchmarks.babyvision_opencode.source import (
    OFFICIAL_ROWS,
    OFFICIAL_ZIP_SHA256,
    Source,
    find_source,
    local_fingerprint,
)
from gym_core.datasets.manifest import manifest_path
from gym_core.types.wire import JsonObject, Wire

PROMPT_FILE = Path(__file__).with_name("prompt.txt")


class PrepareArgs(Wire):
    """`prepare_args` of the benchmark's config."""

    instruction: str | None = None
    """Put before each question; "" for none, null for the one in prompt.txt."""
    zip_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = OFFICIAL_ZIP_SHA256
    """Of a zip named by BABYVISION_PARQUET."""


class Manifest(Wire):
    """`X_manifest.json`: what the rows of X.jsonl were made from."""

    source: str
    revision: str | None
    sha256: str
    rows: int
    warnings: list[str]


def prepare(args: JsonObject, jsonl_fpath: Path) -> Path:
    """Write `jsonl_fpath`, its images and its manifest; the path. Raises ValueError saying what to do.

    The lock file and a download lie in the same folder.
    """
    # Reading Parquet takes long to import, and `fingerprint` is asked before every run.
    from benchmarks.babyvision_opencode.rows import read_questions
    from gym_core.datasets.prepared import write_dataset
    from gym_core.datasets.visual_question import to_task_row

    options = PrepareArgs.model_validate(args)
    instruction = PROMPT_FILE.read_text(encoding="utf-8") if options.instruction is None else options.instruction
    source = find_source(jsonl_fpath.parent, zip_sha256=options.zip_sha256, environ=os.environ)
    questions = read_questions(source)
    warnings = _row_count_warnings(source, len(questions))
    write_dataset(((to_task_row(q, instruction=instruction), q.image) for q in questions), jsonl_fpath)
    manifest = Manifest(
        source=source.origin, revision=source.revision, sha256=source.sha256, rows=len(questions), warnings=warnings
    )
    manifest_path(jsonl_fpath).write_text(json.dumps(manifest.model_dump(), indent=2) + "\n")
    return jsonl_fpath


def fingerprint(args: JsonObject) -> str:
    """The local copy that is asked for; "" when none is, so that what was prepared before stays good."""
    return local_fingerprint(os.environ)


def _row_count_warnings(source: Source, rows: int) -> list[str]:
    """The pinned revision has all rows or is an error; what is in a local copy is its owner's business."""
    if rows == OFFICIAL_ROWS:
        return []
    if source.revision is not None:
        raise ValueError(f"BabyVision: {source.origin} has {rows} rows, not {OFFICIAL_ROWS}: {str(source.path)!r}")
    return [f"{rows} rows, not {OFFICIAL_ROWS}: scores do not compare with published ones"]
