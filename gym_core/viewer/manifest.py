"""A run's manifest for a reader: JSON that is shown, and the few fields of it that the page works with."""

from pathlib import Path

import msgspec

from gym_core.types.cost import RunPrices
from gym_core.types.wire import JsonObject
from gym_core.viewer.plain_file import open_plain

MAX_BYTES = 4 << 20
_MAX_NAME = 200


class ManifestFile:
    """`X_run.json`, which a resumed run writes anew. Read loosely: a run of another version is shown all the same."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.version: tuple[int, int, int] | None = None
        """Changes with the file; None when it is not there."""
        self.value: JsonObject | None = None
        """None when it is not there, too large, or no JSON object."""

    def refresh(self) -> None:
        version = self._look()
        if version != self.version:
            self.version, self.value = version, self._read()

    @property
    def identity(self) -> JsonObject | None:
        return _object((self.value or {}).get("identity"))

    @property
    def started_at(self) -> float | None:
        started = (self.value or {}).get("started_at")
        return float(started) if isinstance(started, int | float) and not isinstance(started, bool) else None

    @property
    def model(self) -> str:
        """As the endpoint calls it; "" when nobody asked."""
        endpoint = _object((self.value or {}).get("endpoint")) or {}
        model = endpoint.get("model")
        return model[:_MAX_NAME] if isinstance(model, str) else ""

    @property
    def prices(self) -> RunPrices:
        """None of them known where the file holds something else."""
        try:
            return RunPrices.model_validate((self.value or {}).get("prices") or {})
        except ValueError:
            return RunPrices()

    def _look(self) -> tuple[int, int, int] | None:
        try:
            seen = self._path.stat()
        except OSError:
            return None
        return seen.st_ino, seen.st_mtime_ns, seen.st_size

    def _read(self) -> JsonObject | None:
        try:
            with open_plain(self._path) as file:
                content = file.read(MAX_BYTES + 1)
            return _object(msgspec.json.decode(content)) if len(content) <= MAX_BYTES else None
        except (OSError, ValueError, RecursionError):
            return None


def _object(value: object) -> JsonObject | None:
    return value if isinstance(value, dict) else None
