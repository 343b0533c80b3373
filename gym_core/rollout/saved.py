"""A saved run as those read it who come after: records one at a time, and what is known of the run."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from gym_core.capture.images import AssetStore
from gym_core.capture.recorder import capture_path
from gym_core.errors import ConfigError
from gym_core.rollout.journal import Place
from gym_core.rollout.output import OutputFiles, RunManifest, read_manifest
from gym_core.rollout.sink import read_places, read_row_at, read_rows, torn_bytes
from gym_core.types.flat_row import record_from_flat
from gym_core.types.rollout import RolloutRecord
from gym_core.types.wire import JsonObject


class SavedRun:
    """`RUN.jsonl` and its siblings."""

    def __init__(self, path: Path, *, needs_manifest: bool = True) -> None:
        """Raises ConfigError for a path that is no run's output file, and for a damaged manifest where it is needed."""
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "no such file"
            raise ConfigError(f"{path}: {what}; give a run's output file (the path of its --output)")
        self.files = OutputFiles(path)
        self.assets = AssetStore(self.files.assets)
        self.manifest_problem = ""
        """What is wrong with a manifest that is there and not read."""
        self.manifest = self._read_manifest(is_needed=needs_manifest)
        self.torn_bytes = torn_bytes(path)
        """Of a last line that is not whole: its rollout is not read."""

    def records(self) -> Iterator[RolloutRecord]:
        """Finished rollouts in the order they were written. Raises ConfigError for a line that is none."""
        yield from self._read(read_rows(self.files.rollouts))

    def outlines(self) -> Iterator[RolloutRecord]:
        """As `records`, but without the items of their responses: for numbers, in a tenth of the time."""
        yield from self._read(map(_without_output, read_rows(self.files.rollouts)))

    def _read(self, rows: Iterable[JsonObject]) -> Iterator[RolloutRecord]:
        for number, row in enumerate(rows, start=1):
            try:
                yield record_from_flat(row)
            except ValueError as error:
                raise ConfigError(f"{self.files.rollouts}:{number}: no rollout of a run: {error}") from error

    def placed_records(self) -> Iterator[tuple[Place, RolloutRecord]]:
        """As `records`, each with where it lies: for those who come back to it."""
        for place in read_places(self.files.rollouts):
            yield Place(*place), self.record_at(Place(*place))

    def record_at(self, place: Place) -> RolloutRecord:
        """Raises ConfigError."""
        row = read_row_at(self.files.rollouts, place.offset, place.length)
        try:
            return record_from_flat(row)
        except ValueError as error:
            where = f"{self.files.rollouts} at byte {place.offset}"
            raise ConfigError(f"{where}: no rollout of a run: {error}") from error

    @property
    def lacks(self) -> str | None:
        """What is missing to check its samples, in words; None when nothing is."""
        if self.manifest is None:
            return f"{self.files.manifest} is not there"
        return f"{self.files.manifest} has no `endpoint`" if self.manifest.endpoint is None else None

    def _read_manifest(self, *, is_needed: bool) -> RunManifest | None:
        """None when it is not there."""
        try:
            return read_manifest(self.files.manifest)
        except FileNotFoundError:
            return None
        except ConfigError as error:
            if is_needed:
                raise
            self.manifest_problem = str(error)
            return None


def known_manifest(run: SavedRun) -> RunManifest:
    """Raises ConfigError when it is not there."""
    if run.manifest is None:
        raise ConfigError(
            f"{run.files.manifest} is not there, so nobody can say what these answers came from: copy it along with "
            "the rollouts"
        )
    return run.manifest


def no_recorded_calls(run: SavedRun) -> ConfigError:
    """For a run of which no rollout can be replayed."""
    return ConfigError(
        f"no rollout of {run.files.rollouts} has recorded model calls in {run.files.captures}: copy that folder along "
        "with the rollouts"
    )


def is_regradable(record: RolloutRecord) -> bool:
    """Whether its answer reached grading, whatever became of it there. What ended before has a grade that no judge
    gave, or none at all."""
    failure = record.verification.failure
    return record.evidence.response is not None and (failure is None or failure.stage == "verify")


def lacks_only_its_grade(record: RolloutRecord) -> bool:
    """A judge that failed or gave no verdict, a grader that broke: the answer is there."""
    return record.verification.is_masked and is_regradable(record)


def has_recorded_calls(record: RolloutRecord, run: SavedRun) -> bool:
    """Whether the calls of its session lie in the run's captures folder."""
    capture = record.evidence.capture
    return bool(capture and capture.calls and capture_path(run.files.captures, capture.session_id).is_file())


def _without_output(row: JsonObject) -> JsonObject:
    response = row.get("response")
    return {**row, "response": {**response, "output": []}} if isinstance(response, dict) else row
