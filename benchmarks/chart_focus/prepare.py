"""Write the dataset: figures drawn from a seed, or the official rows of VTool-R1 from a local file."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from benchmarks.chart_focus.official import figure_files, official_questions
from benchmarks.chart_focus.rows import FigureQuestion, to_task_row
from gym_core.datasets.digest import sha256_of, sha256_of_states
from gym_core.datasets.prepare_args import read_prepare_args
from gym_core.datasets.prepared import write_dataset
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject, Wire

ROWS_VARIABLE = "CHART_FOCUS_ROWS"
"""Path of a local file of official rows, in the place of drawn ones."""


class PrepareArgs(Wire):
    """`prepare_args` of the benchmark's config, for drawn figures."""

    seed: Annotated[int, Field(ge=0)] = 0
    """Two seeds share no figure."""
    tasks: Annotated[int, Field(gt=0, le=1_000_000)] = 60
    """Fifteen of them have each type of figure with each kind of question once."""


def prepare(args: JsonObject, jsonl_fpath: Path) -> Path:
    """The path of the rows; the file appears whole or not at all. Raises ConfigError, and ValueError for bad rows."""
    checked = read_prepare_args(PrepareArgs, args)
    local = _local_rows()
    if local is not None and not local.is_file():
        raise ConfigError(f"{ROWS_VARIABLE}: {str(local)!r} is {'a folder' if local.is_dir() else 'no file'}")
    questions = official_questions(local) if local else _drawn(checked)
    write_dataset(((to_task_row(question), question.image) for question in questions), jsonl_fpath)
    return jsonl_fpath


def fingerprint(args: JsonObject) -> str:
    """Names the local file's content and its pictures' state, or that figures are drawn: rows of others that were left
    behind are never played as drawn ones."""
    path = _local_rows()
    if path is None:
        return "drawn"
    if not path.is_file():
        return f"no file {path}"
    return f"sha256:{sha256_of(path)} pictures:{sha256_of_states(figure_files(path))}"


def _local_rows() -> Path | None:
    named = os.environ.get(ROWS_VARIABLE)
    return Path(named).expanduser() if named else None


def _drawn(args: PrepareArgs) -> Iterator[FigureQuestion]:
    try:
        from benchmarks.chart_focus.drawn import drawn_questions
    except ImportError as error:
        reason = "drawing figures needs matplotlib: pip install 'visual-agent-gym[charts]'"
        raise ConfigError(f"chart_focus: {reason}, or set {ROWS_VARIABLE} to official rows ({error})") from error
    return drawn_questions(seed=args.seed, tasks=args.tasks)
