"""Saved runs to be exported together."""

from collections.abc import Sequence
from pathlib import Path

from gym_core.errors import ConfigError
from gym_core.rollout.saved import SavedRun


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
