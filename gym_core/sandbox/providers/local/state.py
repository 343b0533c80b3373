"""What a provider writes down about its sandboxes, so that another process can clean up after one that was killed.

One small JSON file per sandbox, written before anything is made for it and removed after all of it is gone.
"""

import os
import stat
import tempfile
import time
from pathlib import Path

from pydantic import ValidationError

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.owner import Owner, boot_id
from gym_core.types.ids import SafeId
from gym_core.types.wire import Wire


def default_state_dir() -> Path:
    """`$XDG_RUNTIME_DIR/gym`, else `/run/gym` for root, else a folder of this user's among the temporary files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK | os.X_OK):
        return Path(runtime) / "gym"
    if os.geteuid() == 0 and os.access("/run", os.W_OK):
        return Path("/run/gym")
    return Path(tempfile.gettempdir()) / f"gym-{os.geteuid()}"


def own_folder(path: Path) -> Path:
    """Make a folder that only we can use. Raises SandboxUnavailable when somebody else's thing is there."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        raise SandboxUnavailable(
            f"local sandboxes: {str(path)!r} is not a folder of ours; remove it or set `state_dir`"
        )
    return path


class BoxRecord(Wire):
    sandbox_id: SafeId
    owner: str
    """As `Owner` writes it."""
    boot_id: str
    created_at: float
    """Unix time, seconds."""
    cgroups: list[str]
    """Folders made for it, if they were."""
    metadata: dict[str, str]

    @property
    def is_orphan(self) -> bool:
        """A restart of this machine ends sandboxes; else its owner must be known to be dead."""
        owner = Owner.parse(self.owner)
        return self.boot_id != boot_id() or (owner is not None and owner.is_known_dead)


class BoxRecords:
    """The records of all providers that share a state folder."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "boxes"
        self._boot_id = boot_id()
        self._owner = str(Owner.here())

    def write(self, name: str, sandbox_id: SafeId, *, cgroups: list[Path], metadata: dict[str, str]) -> None:
        record = BoxRecord(
            sandbox_id=sandbox_id,
            owner=self._owner,
            boot_id=self._boot_id,
            created_at=time.time(),
            cgroups=[str(path) for path in cgroups],
            metadata=metadata,
        )
        own_folder(self._folder.parent)
        own_folder(self._folder)
        part = self._folder / f"{name}.part"
        part.write_text(record.model_dump_json())
        part.replace(self._folder / f"{name}.json")

    def remove(self, name: str) -> None:
        for ending in ("json", "part"):
            (self._folder / f"{name}.{ending}").unlink(missing_ok=True)

    def read_all(self) -> dict[str, BoxRecord]:
        """By name. A file that is no record of ours is left alone."""
        records = {}
        for path in self._folder.glob("*.json"):
            try:
                records[path.stem] = BoxRecord.model_validate_json(path.read_bytes())
            except (FileNotFoundError, ValidationError):
                continue
        return records
