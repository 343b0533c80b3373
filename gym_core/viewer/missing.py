"""What belongs beside a run's rows and is not there: a reader is told once for the run, not only at each rollout."""

from collections.abc import Sequence
from pathlib import Path

from gym_core.capture.recorder import capture_path
from gym_core.rollout.output import OutputFiles
from gym_core.viewer.facts import RowFacts
from gym_core.viewer.plain_file import readable_name


class MissingFiles:
    """Call `look()` now and then; a folder is listed again only when it, or the rows, changed."""

    def __init__(self, files: OutputFiles) -> None:
        self._files = files
        self._of_captures: tuple[object, list[str]] | None = None
        self.problems: list[str] = []
        """A sentence each. None of a run without rows: its files are still to come."""

    def look(self, facts: Sequence[RowFacts], generation: int) -> None:
        """`generation` is that of the rows' file."""
        self.problems = [*self._inputs(), *self._assets(facts), *self._captures(facts, generation)] if facts else []

    def _inputs(self) -> list[str]:
        path = self._files.inputs
        if path.exists():
            return []
        return [f"{readable_name(path.name)} is not there: which rollouts were planned, and are missing, is not known"]

    def _assets(self, facts: Sequence[RowFacts]) -> list[str]:
        path = self._files.assets
        if path.is_dir() or not any(each.row.images for each in facts):
            return []
        return [f"{readable_name(path.name)}/ is not there: no picture can be shown"]

    def _captures(self, facts: Sequence[RowFacts], generation: int) -> list[str]:
        path = self._files.captures
        key = (_state_of(path), generation, len(facts))
        if self._of_captures is None or self._of_captures[0] != key:
            self._of_captures = key, _missing_captures(path, facts)
        return self._of_captures[1]


def _missing_captures(folder: Path, facts: Sequence[RowFacts]) -> list[str]:
    captures = [each.evidence.capture for each in facts]
    wanted = {capture_path(folder, capture.session_id).name for capture in captures if capture and capture.calls}
    name = f"{readable_name(folder.name)}/"
    if not wanted:
        return []
    try:
        there = {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return [f"{name} is not there: no model call can be shown as it was sent"]
    except OSError as error:
        return [f"{name} cannot be read: {error.strerror or type(error).__name__}"]
    if not (missing := len(wanted - there)):
        return []
    return [f"{name}: the model calls of {missing:,} of {len(wanted):,} rollouts are not there"]


def _state_of(folder: Path) -> tuple[int, int, int] | None:
    """Changes with what lies in it; None when it cannot be looked at."""
    try:
        seen = folder.stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_mtime_ns, seen.st_mode
