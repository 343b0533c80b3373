"""Run one of the build's tools, and say plainly what went wrong when it fails."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gym_core.errors import SandboxUnavailable

_UNPRIVILEGED_ID = 65534
"""nobody: what root's sandboxes are to the toolkit, someone else."""
_SHOWN_LINES = 12


def run_tool(
    argv: Sequence[str],
    *,
    what: str,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    unprivileged: bool = False,
) -> str:
    """Its standard output. `env` None means ours; `unprivileged` gives up root first, where we have it.

    Raises SandboxUnavailable with the command, how it ended and the end of what it said. Where it did not end by
    itself (time-out, Ctrl-C), its whole process group is killed.
    """
    other_id = _UNPRIVILEGED_ID if unprivileged and os.geteuid() == 0 else None
    try:
        process = subprocess.Popen(
            argv,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            user=other_id,
            group=other_id,
            extra_groups=None if other_id is None else [],
        )
    except OSError as cause:
        raise SandboxUnavailable(f"toolkit: {what}: cannot run {argv[0]!r}: {cause.strerror}") from cause
    with process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except BaseException as cause:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(cause, subprocess.TimeoutExpired):
                message = f"toolkit: {what}: `{argv[0]}` did not end within {timeout_s:g} s"
                raise SandboxUnavailable(message) from cause
            raise
    if process.returncode != 0:
        ending = "\n  ".join((stderr or stdout).strip().splitlines()[-_SHOWN_LINES:])
        raise SandboxUnavailable(
            f"toolkit: {what}: `{' '.join(argv[:6])} ...` ended with {process.returncode}:\n  {ending}"
        )
    return stdout
