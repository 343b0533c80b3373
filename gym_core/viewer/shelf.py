"""The runs that were asked for: files by name, and whatever runs lie in folders, looked for again now and then."""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from gym_core.errors import ConfigError
from gym_core.rollout.output import OutputFiles
from gym_core.viewer.pictures import UrlOf
from gym_core.viewer.rollout import RolloutReading, read_rollout
from gym_core.viewer.run import NotInRun, ViewedRun, run_id

MAX_RUNS = 500
MAX_DEPTH = 4
MAX_FILES_LOOKED_AT = 20_000
LOOK_EVERY_S = 2.0
MAX_READINGS = 6
"""Rollouts that are kept read, so that the parts of a page come from one reading."""
_SIBLINGS = ("_failures", "_materialized_inputs")
_FIRST_FIELD = b'{"_ng_task_index":'


class Shelf:
    """Blocking; safe for several threads."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Raises ConfigError for a path that is not there, and for a file that is no run's.

        A folder may be empty: a run that begins in it later is found.
        """
        self._paths = [path.expanduser().absolute() for path in paths]
        for path in self._paths:
            if not path.exists():
                raise ConfigError(
                    f"view: {path}: no such file or folder; give a run's output file, or a folder of runs"
                )
            if path.is_file() and not is_run(path):
                manifest = OutputFiles(path).manifest.name
                raise ConfigError(
                    f"view: {path}: no run's output file: its first line is no rollout, and no {manifest}"
                )
        self._runs: dict[str, ViewedRun] = {}
        self._looked_at = -LOOK_EVERY_S
        self._lock = threading.Lock()
        self._readings: OrderedDict[tuple[str, str, str], RolloutReading] = OrderedDict()

    def runs(self) -> list[ViewedRun]:
        with self._lock:
            if time.monotonic() - self._looked_at >= LOOK_EVERY_S:
                self._looked_at = time.monotonic()
                for path in find_runs(self._paths):
                    if run_id(path) not in self._runs:
                        self._runs[run_id(path)] = ViewedRun(path)
            return list(self._runs.values())

    def run(self, id: str) -> ViewedRun:
        """Raises NotInRun."""
        found = self._runs.get(id) or next((run for run in self.runs() if run.id == id), None)
        if found is None:
            raise NotInRun(f"no run {id[:80]!r} here")
        return found

    def reading(self, run: ViewedRun, rollout: str, version: str, url_of: UrlOf) -> RolloutReading:
        """Raises as `read_rollout`. `version` is what `run.refresh()` said last: a rollout in flight grows with it."""
        key = (run.id, rollout, version)
        with self._lock:
            if key in self._readings:
                self._readings.move_to_end(key)
                return self._readings[key]
        reading = read_rollout(run, rollout, url_of)
        with self._lock:
            self._readings[key] = reading
            while len(self._readings) > MAX_READINGS:
                self._readings.popitem(last=False)
        return reading


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Output files of runs at or below the paths, each once, `MAX_RUNS` at most."""
    found: dict[Path, None] = {}
    for path in paths:
        for file in [path] if path.is_file() else _below(path):
            found.setdefault(file)
            if len(found) >= MAX_RUNS:
                return list(found)
    return list(found)


def _below(folder: Path) -> Iterator[Path]:
    looked_at, waiting = 0, [(folder, 0)]
    while waiting and looked_at < MAX_FILES_LOOKED_AT:
        here, depth = waiting.pop(0)
        try:
            entries = sorted(here.iterdir())
        except OSError:
            continue
        for entry in entries:
            looked_at += 1
            if entry.is_file():
                if is_run(entry):
                    yield entry
            elif depth < MAX_DEPTH and not entry.name.startswith(".") and _is_plain_folder(entry):
                waiting.append((entry, depth + 1))


def is_run(path: Path) -> bool:
    """Whether a .jsonl is a run's output: its manifest lies beside it, or its first line begins like a rollout."""
    if path.suffix != ".jsonl" or any(path.stem.endswith(ending) for ending in _SIBLINGS):
        return False
    if OutputFiles(path).manifest.is_file():
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(_FIRST_FIELD)) == _FIRST_FIELD
    except OSError:
        return False


def _is_plain_folder(path: Path) -> bool:
    """Folders of pictures and calls hold thousands of files and no runs; links may lead in circles."""
    return path.is_dir() and not path.is_symlink() and not path.name.endswith(("_assets", "_captures"))
