"""Wheels by the ordinary pip, each checked against a hash, into a folder of ours."""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gym_core.sandbox.toolkit.process import run_tool

_INSTALL_TIMEOUT_S = 1200.0


def install_wheels(requirements: Path, target: Path, *, what: str, interpreter: Path | None = None) -> None:
    """Install a file of pinned and hashed requirements into `target`, for `interpreter` (default: our own).

    Nothing is built from source, no dependency is added and no script is kept. Raises SandboxUnavailable.
    """
    with _pip() as pip:
        run_tool(
            [
                *(*pip, *(("--python", str(interpreter)) if interpreter else ())),
                *("install", "--quiet", "--no-input", "--no-deps", "--no-compile", "--only-binary", ":all:"),
                *("--require-hashes", "--target", str(target), "--requirement", str(requirements)),
            ],
            what=what,
            # What the user set for other installs must not bend this one; index, proxy and certificates stay theirs.
            env={**os.environ, "PIP_CONSTRAINT": os.devnull, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"},
            timeout_s=_INSTALL_TIMEOUT_S,
        )


@contextmanager
def _pip() -> Iterator[list[str]]:
    """Our own pip; where we were installed without one, that of a throw-away virtual environment."""
    if importlib.util.find_spec("pip") is not None:
        yield [sys.executable, "-m", "pip"]
        return
    with tempfile.TemporaryDirectory(prefix="gym-pip-") as folder:
        run_tool(
            [sys.executable, "-m", "venv", folder], what="making a virtual environment to get pip", timeout_s=120.0
        )
        yield [str(Path(folder, "bin", "python")), "-m", "pip"]
