"""Where a gym keeps its logs and state while it runs."""

import os
import secrets
import tempfile
import time
from pathlib import Path


def state_root() -> Path:
    """The parent of every gym's state folder: `GYM_STATE_DIR`, else under the temporary folder, one for each user."""
    base = os.environ.get("GYM_STATE_DIR")
    return Path(base) if base else Path(tempfile.gettempdir()) / f"gym-{os.getuid()}"


def default_state_dir() -> Path:
    """The name of a fresh folder for one gym; not made yet."""
    return state_root() / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}-{secrets.token_hex(3)}"
