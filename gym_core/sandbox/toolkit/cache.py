"""Where toolkits lie: a folder that the unprivileged users of sandboxes can enter."""

import os
import stat
from pathlib import Path

from gym_core.errors import ConfigError

_ROOTS_CACHE = Path("/var/cache/gym")
"""Not under root's home: that is closed to the users that root's sandboxes run as."""


def cache_folder() -> Path:
    """`GYM_CACHE_DIR`; else /var/cache/gym for root, `$XDG_CACHE_HOME/gym` or `~/.cache/gym` for others."""
    named = os.environ.get("GYM_CACHE_DIR")
    if named:
        return Path(named).expanduser().absolute()
    if os.geteuid() == 0:
        return _ROOTS_CACHE
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "gym"


def make_cache_folder() -> Path:
    """Create it where missing. Raises ConfigError when it cannot be made, or root's sandboxes could not enter it."""
    folder = cache_folder()
    closed = _closed_to_others(folder)
    if os.geteuid() == 0 and closed is not None:
        raise ConfigError(
            f"toolkit: sandboxes run as unprivileged users, who cannot enter {str(closed)!r} "
            f"(mode {stat.S_IMODE(closed.stat().st_mode):04o}); name a cache folder outside it by GYM_CACHE_DIR"
        )
    try:
        _make(folder)
    except OSError as cause:
        raise ConfigError(
            f"toolkit: cannot make the cache folder {str(folder)!r}: {cause.strerror}; name another by GYM_CACHE_DIR"
        ) from cause
    return folder


def _make(folder: Path) -> None:
    for missing in reversed([place for place in (folder, *folder.parents) if not place.exists()]):
        missing.mkdir(exist_ok=True)
        missing.chmod(0o755)  # whatever the umask says
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(13, os.strerror(13), str(folder))


def _closed_to_others(folder: Path) -> Path | None:
    real = folder.resolve()
    there = [place for place in (*reversed(real.parents), real) if place.is_dir()]
    return next((place for place in there if not place.stat().st_mode & stat.S_IXOTH), None)
