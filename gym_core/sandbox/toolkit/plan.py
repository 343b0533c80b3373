"""Which toolkit this machine needs: from pins and interpreter to an identity, and from that to a folder's name."""

import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path

from gym_core.errors import ConfigError
from gym_core.sandbox.toolkit.cache import cache_folder
from gym_core.sandbox.toolkit.interpreter import Interpreter, choose_interpreter
from gym_core.sandbox.toolkit.manifest import read_manifest
from gym_core.sandbox.toolkit.pins import Pins, load_pins

TOOLKIT_MOUNT = "/opt/toolkit"
"""Where a sandbox sees it, read-only."""
_LAYOUT = 1
"""Raised when the builder lays out the same pins in another way."""


@dataclass(frozen=True)
class ToolkitPlan:
    pins: Pins
    interpreter: Interpreter

    @property
    def identity(self) -> str:
        words = (str(_LAYOUT), self.pins.digest, platform.machine(), self.interpreter.identity)
        return hashlib.sha256("\0".join(words).encode()).hexdigest()

    @property
    def folder(self) -> Path:
        return cache_folder() / f"toolkit-{self.identity[:16]}"


def plan_toolkit() -> ToolkitPlan:
    """Reads the pins; starts no process. Raises ConfigError for a machine that no toolkit can be made for."""
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        raise ConfigError(
            "toolkit: OpenCode's pinned program needs Linux with glibc (Debian, Ubuntu, Fedora ...), not this system"
        )
    pins = load_pins()
    return ToolkitPlan(pins, choose_interpreter(pins.python_versions))


def toolkit_dir() -> Path:
    """Where this machine's toolkit is, or would be."""
    return plan_toolkit().folder


def is_built() -> bool:
    """Whether a finished toolkit for these pins is there. Milliseconds: does not read the files (`verify` does)."""
    plan = plan_toolkit()
    try:
        return read_manifest(plan.folder).identity == plan.identity
    except (OSError, ValueError):
        return False
