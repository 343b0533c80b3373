"""A saved run as those read it who come after: records one at a time, and what is known of the run."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from gym_core.capture.images import AssetStore
from gym_core.errors import ConfigError
from gym_core.rollout.output import OutputFiles, RunManifest
from gym_core.rollout.sink import read_rows, torn_bytes
from gym_core.types.flat_row import record_from_flat
from gym_core.types.rollout import RolloutRecord


class SavedRun:
    """`RUN.jsonl` and its siblings."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError for a path that is no run's output file."""
        if not path.is_file():
            raise ConfigError(f"{path}: no such file; give a run's output file (the path of its --output)")
        self.files = OutputFiles(path)
        self.assets = AssetStore(self.files.assets)
        self.manifest = self._read_manifest()
        self.torn_bytes = torn_bytes(path)
        """Of a last line that is not whole: its rollout is not read."""

    def records(self) -> Iterator[RolloutRecord]:
        """Finished rollouts in the order they were written. Raises ConfigError for a line that is none."""
        for number, row in enumerate(read_rows(self.files.rollouts), start=1):
            try:
                yield record_from_flat(row)
            except ValueError as error:
                raise ConfigError(f"{self.files.rollouts}:{number}: no rollout of a run: {error}") from error

    @property
    def lacks(self) -> str | None:
        """What is missing to check its samples, in words; None when nothing is."""
        if self.manifest is None:
            return f"{self.files.manifest} is not there"
        return f"{self.files.manifest} has no `endpoint`" if self.manifest.endpoint is None else None

    def _read_manifest(self) -> RunManifest | None:
        """None when it is not there."""
        try:
            return RunManifest.model_validate_json(self.files.manifest.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise ConfigError(f"{self.files.manifest}: not a run's manifest: {error}") from error
