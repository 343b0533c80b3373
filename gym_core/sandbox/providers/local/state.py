"""What a provider writes down about its sandboxes, so that another process can clean up after one that was killed.

One small JSON file per sandbox, written before anything is made for it and removed after all of it is gone; and one
file per provider that it holds a lock on while it lives.
"""

import os
import stat
import tempfile
import time
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ValidationError

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.lifeline import Lifeline, clear, is_held
from gym_core.sandbox.owner import Owner, boot_id
from gym_core.types.ids import SafeId
from gym_core.types.wire import Wire

_OUR_FOLDERS = frozenset({"boxes", "owners", "docker"})
_SIGNS = ("boxes", "owners", "docker/boxes", "docker/owners")
"""By which a folder is known as one of ours. Others have a `docker` too."""

_END_MARGIN_S = 600.0
"""For clocks that differ, and for an end that takes its time."""


def default_state_dir() -> Path:
    """`$XDG_RUNTIME_DIR/gym`, else `/run/gym` for root, else a folder of this user's among the temporary files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK | os.X_OK):
        return Path(runtime) / "gym"
    if os.geteuid() == 0 and os.access("/run", os.W_OK):
        return Path("/run/gym")
    return Path(tempfile.gettempdir()) / f"gym-{os.geteuid()}"


def _may_be_ours(name: str) -> str:
    """Whoever lists or sweeps from another folder must find the same one, and we write and remove in it."""
    path = Path(name)
    if not path.is_absolute():
        raise ValueError("is not absolute, so that commands in other folders would not see these sandboxes")
    try:
        names = {entry.name for entry in path.iterdir()} - _OUR_FOLDERS - {"lost+found"}
    except (FileNotFoundError, PermissionError):  # it is made, or refused with a reason, once it is needed
        return name
    except NotADirectoryError:
        raise ValueError("is, or is below, a file; name a folder, new or empty") from None
    except OSError as error:
        raise ValueError(f"cannot be looked at: {error.strerror}") from error
    if names and not any((path / inside).is_dir() for inside in _SIGNS) and not _is_private(path):
        raise ValueError("is a folder with other things in it and none of ours; name a new or an empty one")
    return name


def _is_private(path: Path) -> bool:
    """As the folder is in which a gym keeps its logs."""
    about = path.stat()
    return about.st_uid == os.geteuid() and not about.st_mode & 0o077


StateDir = Annotated[str, AfterValidator(_may_be_ours)]
"""A `state_dir` of a configuration."""


def own_folder(path: Path) -> Path:
    """Make a folder that only we can use. Raises SandboxUnavailable when somebody else's thing is there."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = path.lstat()
    except OSError as error:
        raise SandboxUnavailable(
            f"local sandboxes: the folder {str(path)!r} cannot be made ({error.strerror}); set another `state_dir`"
        ) from error
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        raise SandboxUnavailable(
            f"local sandboxes: {str(path)!r} is not a folder of ours; remove it or set `state_dir`"
        )
    return path


class Claim(Wire):
    """Whose something is, and until when at most."""

    owner: str
    """As `Owner` writes it."""
    lifeline: str = ""
    """Name of the file that the owner holds a lock on; "" for one who did not say."""
    ends_by: float | None = None
    """Unix time, seconds: by then he has no use for it, however long he lives. None where he did not say."""


class BoxRecord(Claim):
    sandbox_id: SafeId
    boot_id: str
    created_at: float
    """Unix time, seconds."""
    cgroups: list[str]
    """Folders made for it, if they were."""
    metadata: dict[str, str]


class BoxRecords:
    """The records of all providers that share a state folder. One that writes some is to be closed."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "boxes"
        self._owners = state_dir / "owners"
        self._boot_id = boot_id()
        self._owner = str(Owner.here())
        self._lifeline: Lifeline | None = None

    def claim(self, *, longest_s: float) -> Claim:
        """On what we are about to make, and have for `longest_s` at most. Raises SandboxUnavailable."""
        if self._lifeline is None:
            own_folder(self._owners.parent)
            self._lifeline = Lifeline.take(own_folder(self._owners))
        ends_by = time.time() + longest_s + _END_MARGIN_S
        return Claim(owner=self._owner, lifeline=self._lifeline.name, ends_by=ends_by)

    def write(
        self, name: str, sandbox_id: SafeId, *, claim: Claim, cgroups: list[Path], metadata: dict[str, str]
    ) -> None:
        record = BoxRecord(
            **claim.model_dump(),
            sandbox_id=sandbox_id,
            boot_id=self._boot_id,
            created_at=time.time(),
            cgroups=[str(path) for path in cgroups],
            metadata=metadata,
        )
        own_folder(self._folder.parent)
        own_folder(self._folder)
        part = self._folder / f"{name}.{claim.lifeline}.part"
        try:
            part.write_text(record.model_dump_json())
            part.replace(self._folder / f"{name}.json")
        finally:
            part.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def read_all(self) -> dict[str, BoxRecord]:
        """By name. A file that is no record of ours is left alone."""
        records = {}
        for path in self._folder.glob("*.json"):
            try:
                records[path.stem] = BoxRecord.model_validate_json(path.read_bytes())
            except (FileNotFoundError, ValidationError):
                continue
        return records

    def is_orphan(self, record: BoxRecord) -> bool:
        """A restart of this machine ends sandboxes, unless it is another machine's; else see `is_given_up`."""
        if record.boot_id != self._boot_id:
            return not is_held(self._owners, record.lifeline)
        return self.is_given_up(record)

    def is_given_up(self, claim: Claim) -> bool:
        """Its owner is known to be dead. Where nothing tells, he is taken for alive until the claim ends."""
        held = is_held(self._owners, claim.lifeline)
        if held is not None:
            return not held
        owner = Owner.parse(claim.owner)
        if owner is not None and owner.is_known_dead:
            return True
        return not (owner and owner.can_be_seen) and claim.ends_by is not None and claim.ends_by < time.time()

    def clear_owners(self) -> None:
        """Forget the dead who left nothing, or nothing any more, and what they had begun to write."""
        for part in self._folder.glob("*.part"):
            if is_held(self._owners, part.name.split(".")[-2]) is False:
                part.unlink(missing_ok=True)
        clear(self._owners, needed={record.lifeline for record in self.read_all().values()})

    def close(self) -> None:
        if self._lifeline is None:
            return
        name, lifeline = self._lifeline.name, self._lifeline
        self._lifeline = None
        lifeline.let_go(leaves_something=any(record.lifeline == name for record in self.read_all().values()))
