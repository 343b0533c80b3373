"""Saved runs to be exported, and files that are there whole or not at all."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from gym_core.errors import ConfigError
from gym_core.rollout.saved import SavedRun
from gym_core.types.metrics import MetricsReport


def open_runs(paths: Sequence[Path]) -> list[SavedRun]:
    """Raises ConfigError for a path that is no run's output file, and for one that is given twice."""
    runs = [SavedRun(path) for path in paths]
    seen: set[Path] = set()
    for run in runs:
        path = run.files.rollouts.resolve()
        if path in seen:
            raise ConfigError(f"export: {run.files.rollouts} is given twice; its rollouts would count twice")
        seen.add(path)
    return runs


def refuse_existing(*paths: Path) -> None:
    """Raises ConfigError: an export writes over nothing."""
    for path in paths:
        if path.exists():
            raise ConfigError(f"export: {path} is there already; choose another --output (nothing is overwritten)")


def torn_warning(run: SavedRun) -> str | None:
    """None for a file that is whole."""
    if not run.torn_bytes:
        return None
    return f"{run.files.rollouts}: the last line is cut off or damaged: {run.torn_bytes} bytes were not read"


def run_report(run: SavedRun) -> MetricsReport:
    """Raises ConfigError for a run that has not ended, in whatever way: its report is not there."""
    path = run.files.metrics
    try:
        return MetricsReport.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise ConfigError(f"export: {path} is not there: a run writes it at its end; run its command again") from error
    except ValidationError as error:
        raise ConfigError(f"export: {path}: no report of a run: {error}") from error


@contextmanager
def published(path: Path) -> Iterator[Path]:
    """A file of another name, in its place once it was written."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
