"""Folders that a head server keeps for a while: pictures and calls of what trainers asked for, bounded by number and
age."""

import contextlib
import os
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gym_core.capture.images import AssetStore

MAX_AGE_S = 24 * 3600.0
"""Since the last use."""


class KeptFolders:
    """The last `most` folders below a root that nobody uses; one in use is never removed. Blocking; for any thread."""

    def __init__(self, root: Path, *, most: int, max_age_s: float = MAX_AGE_S) -> None:
        self._root = root
        self._most = most
        self._max_age_s = max_age_s
        self._users: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def using(self, name: str) -> Iterator[Path]:
        """The folder of that name, made or found again, and safe until the block ends."""
        folder = self._root / name
        with self._lock:
            self._users[name] += 1
            folder.mkdir(parents=True, exist_ok=True)
            os.utime(folder)
        try:
            yield folder
        finally:
            with self._lock:
                self._users[name] -= 1
                with contextlib.suppress(FileNotFoundError):
                    os.utime(folder)

    def prune(self) -> None:
        """Remove what is too old or too much, but for what is in use."""
        oldest_allowed = time.time() - self._max_age_s
        doomed = []
        with self._lock:
            self._users = +self._users
            idle = [(age, folder) for age, folder in self._by_age() if not self._users[folder.name]]
            for position, (used_at, folder) in enumerate(idle):
                if position >= self._most or used_at < oldest_allowed:
                    # Renamed under the lock, so that nobody begins to use what is being removed.
                    doomed.append(folder.rename(folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")))
        for folder in doomed:
            shutil.rmtree(folder, ignore_errors=True)

    def image(self, sha256: str) -> bytes | None:
        """Of the folder last used that has it. Raises ValueError for what is no hash, or a file that is damaged."""
        for _, folder in self._by_age():
            with contextlib.suppress(FileNotFoundError):
                return AssetStore(folder / "assets").get(sha256)
        return None

    def _by_age(self) -> list[tuple[float, Path]]:
        """When it was last used, and the folder; last used first."""
        found = []
        for folder in self._root.iterdir() if self._root.is_dir() else ():
            with contextlib.suppress(FileNotFoundError):
                if not folder.name.startswith("."):
                    found.append((folder.stat().st_mtime, folder))
        return sorted(found, reverse=True)
