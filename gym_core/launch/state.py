"""Where a gym keeps its logs and state while it runs."""

import os
import re
import secrets
import shutil
import tempfile
import time
from pathlib import Path

KEPT_STATE_DIRS = 20
"""Logs of so many gyms that ended are kept for those who want to know why."""

_STATE_DIR_NAME = re.compile(r"^\d{8}-\d{6}-(?P<pid>\d+)-[0-9a-f]{6}$")


def state_root() -> Path:
    """The parent of every gym's state folder: `GYM_STATE_DIR`, else under the temporary folder, one for each user."""
    base = os.environ.get("GYM_STATE_DIR")
    return Path(base) if base else Path(tempfile.gettempdir()) / f"gym-{os.getuid()}"


def default_state_dir() -> Path:
    """The name of a fresh folder for one gym; not made yet."""
    return state_root() / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}-{secrets.token_hex(3)}"


def prune_state_dirs() -> None:
    """Remove the state folders of ended gyms but for the last `KEPT_STATE_DIRS`. Leaves everything else alone."""
    root = state_root()
    named = sorted(p for p in root.glob("*") if _STATE_DIR_NAME.match(p.name)) if root.is_dir() else []
    for folder in named[:-KEPT_STATE_DIRS]:
        match = _STATE_DIR_NAME.match(folder.name)
        if match and not Path(f"/proc/{match['pid']}").exists():
            shutil.rmtree(folder, ignore_errors=True)
