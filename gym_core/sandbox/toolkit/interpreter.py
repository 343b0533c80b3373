"""Which Python sandboxes get: the system's, seen inside through the read-only /usr, else a copy of our own."""

import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gym_core.errors import ConfigError

_NAME = re.compile(r"python(3\.\d+)$")


@dataclass(frozen=True)
class Interpreter:
    executable: Path
    """The real file, not a link."""
    version: str
    """Of the form "3.11"."""
    copied_from: Path | None = None
    """Prefix of an installation outside /usr, which must be copied into the toolkit; None for the system's."""

    @property
    def identity(self) -> str:
        """Changes when a toolkit made for it would not do any more."""
        return f"{'copy of ' if self.copied_from else ''}{self.executable}"


def choose_interpreter(versions: Sequence[str], system_places: Sequence[Path] | None = None) -> Interpreter:
    """The first system interpreter of a version in `versions`, else our own, to be copied. Starts no process.

    Raises ConfigError when neither has wheels in the lock.
    """
    for place in _system_places() if system_places is None else system_places:
        found = _interpreter_at(place)
        if found is not None and found.version in versions:
            return found
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if own not in versions:
        raise ConfigError(
            f"toolkit: neither a Python in /usr nor the one that runs this ({own}) is one of {', '.join(versions)}; "
            "install one of these"
        )
    prefix = Path(sys.base_prefix).resolve()
    return Interpreter((prefix / "bin" / f"python{own}").resolve(), own, copied_from=prefix)


def own_stdlib() -> Path:
    """Our own standard library, relative to its prefix: lib/python3.11, or lib64/python3.11."""
    return Path(sysconfig.get_path("stdlib")).resolve().relative_to(Path(sys.base_prefix).resolve())


def _system_places() -> Iterator[Path]:
    yield Path("/usr/bin/python3")
    yield Path("/usr/local/bin/python3")
    own = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}").resolve()
    if own.is_relative_to("/usr"):
        yield own


def _interpreter_at(place: Path) -> Interpreter | None:
    real = place.resolve()
    named = _NAME.match(real.name)
    return Interpreter(real, named.group(1)) if named and os.access(real, os.X_OK) else None
