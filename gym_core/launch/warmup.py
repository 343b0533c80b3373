"""A nursery that imports while the configuration is read. Imports next to nothing itself, so that it can come first."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gym_core.errors import ConfigError
from gym_core.launch.children import start_nursery
from gym_core.launch.state import default_state_dir, prune_state_dirs


@dataclass(frozen=True)
class Warmup:
    """A nursery that is already importing while the configuration is read."""

    control: socket.socket
    process: "subprocess.Popen[bytes]"
    state_dir: Path


def start_warmup(state_dir: Path | None = None) -> Warmup:
    """Begin before anything else: imports are most of a start. Give it to `running_gym`, or `abandon` it.

    Raises ConfigError when no state folder can be made.
    """
    state = state_dir or default_state_dir()
    try:
        prune_state_dirs()
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        control, process = start_nursery(state / "nursery.log")
    except BaseException as cause:
        shutil.rmtree(state, ignore_errors=True)
        if isinstance(cause, OSError):
            what = f"in {str(state.parent)!r} no folder for logs can be made: {cause.strerror or cause}"
            raise ConfigError(f"GYM_STATE_DIR: {what}") from cause
        raise
    return Warmup(control, process, state)


def abandon(warmup: Warmup) -> None:
    warmup.control.close()
    warmup.process.wait()


@contextmanager
def warming_up() -> Iterator[Warmup]:
    """A warm-up for what is planned inside; a mistake in there cools it down again."""
    warmup = start_warmup()
    try:
        yield warmup
    except BaseException:
        cool_down(warmup)
        raise


def cool_down(warmup: Warmup) -> None:
    """End a warm-up that nobody will use, and leave nothing of it."""
    abandon(warmup)
    shutil.rmtree(warmup.state_dir, ignore_errors=True)
