"""Write the task rows of pyvision_image and pyvision_video: of a file in the published form, or drawn from a seed."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field, ValidationError

from benchmarks.pyvision.clues import Question, row_of
from benchmarks.pyvision.drawn_images import draw_image_questions
from benchmarks.pyvision.drawn_videos import draw_video_questions
from benchmarks.pyvision.official_media import Clues, MediaFolder
from benchmarks.pyvision.official_rows import OfficialRows, media_files, read_official_rows
from benchmarks.pyvision.prompts import image_content, video_content
from gym_core.datasets.digest import sha256_of, sha256_of_states
from gym_core.datasets.images import PreparedImage
from gym_core.datasets.manifest import manifest_path
from gym_core.datasets.prepare_args import read_prepare_args
from gym_core.datasets.prepared import write_dataset
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject, Wire

TASKSETS = {"images": "pyvision_image", "videos": "pyvision_video"}


class PrepareArgs(Wire):
    """`prepare_args` of a benchmark's config."""

    clues: Clues
    """What the questions are about."""
    rows: str | None = None
    """Path of a file in the published form; None draws questions of our own."""
    media: str | None = None
    """Folder that the rows' paths are relative to; None is the folder of the file."""
    inline_mib: int = Field(default=8, ge=0, le=16)
    """A video that is larger is not put into its row: its folder is to be shared with the sandboxes."""
    max_rows: int | None = Field(default=None, gt=0)
    seed: int = Field(default=0, ge=0)
    """Of what is drawn; two seeds share no question."""
    per_kind: int = Field(default=6, gt=0, le=10_000)
    """So many of each kind of question are drawn."""


def prepare(args: JsonObject, jsonl_fpath: Path) -> Path:
    """Raises ConfigError for wrong arguments, ValueError naming each bad row."""
    checked = read_prepare_args(PrepareArgs, args)
    questions = _questions(checked)[: checked.max_rows]
    count = write_dataset(_rows(questions, checked), jsonl_fpath)
    shared = sum("file" in video.named for question in questions for video in question.videos)
    manifest: JsonObject = {"origin": checked.rows or f"seed {checked.seed}", "rows": count, "warnings": []}
    if shared:
        manifest["warnings"] = [
            f"{shared} videos are not in the rows: share {str(_media(checked))!r} by sandbox_config.mounts"
        ]
    manifest_path(jsonl_fpath).write_text(json.dumps(manifest, indent=2) + "\n")
    return jsonl_fpath


def fingerprint(args: JsonObject) -> str:
    """Names the content of the file of rows and the state of their media; "" where they are drawn."""
    path = args.get("rows")
    if not isinstance(path, str):
        return ""
    file = Path(path).expanduser()
    if not file.is_file():
        return f"no file {file}"
    try:
        checked = PrepareArgs.model_validate(args)
    except ValidationError:  # which `prepare` tells
        return f"sha256:{sha256_of(file)}"
    media = media_files(_official(checked, file), limit=checked.max_rows)
    return f"sha256:{sha256_of(file)} media:{sha256_of_states(media)}"


def _questions(args: PrepareArgs) -> list[Question]:
    if args.rows is None:
        draw = draw_image_questions if args.clues == "images" else draw_video_questions
        return draw(args.seed, args.per_kind)
    path, media = Path(args.rows).expanduser(), _media(args)
    for place, found, noun in (("rows", path.is_file(), "file"), ("media", media.is_dir(), "folder")):
        if not found:
            raise ConfigError(
                f"config: prepare_args.{place}: no {noun} {os.fspath(path if noun == 'file' else media)!r}"
            )
    return read_official_rows(_official(args, path), limit=args.max_rows)


def _official(args: PrepareArgs, path: Path) -> OfficialRows:
    return OfficialRows(path, MediaFolder(_media(args), args.clues, args.inline_mib << 20))


def _media(args: PrepareArgs) -> Path:
    return Path(args.media or Path(args.rows or ".").parent).expanduser()


def _rows(questions: list[Question], args: PrepareArgs) -> Iterator[tuple[JsonObject, list[PreparedImage]]]:
    for question in questions:
        if args.clues == "images":
            content = image_content(question.images, question.question)
        else:
            content = video_content(question.videos, question.question)
        yield row_of(question, content, TASKSETS[args.clues]), [image.prepared for image in question.images]
