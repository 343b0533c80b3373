"""Another process that owns sandboxes, to be killed: the positive control of every clean-up."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.sandboxes.subject import Stage

REPOSITORY = Path(__file__).parents[2]

_READY_TIMEOUT_S = 120.0

OWNER = """
import asyncio, json, sys
from gym_core.sandbox.contract import Launch, SandboxSpec
from gym_core.sandbox.providers import open_provider

async def main(block, spec, ids, at_once):
    provider = open_provider(block)
    spec = SandboxSpec.model_validate(spec)
    for start in range(0, len(ids), at_once):
        boxes = await asyncio.gather(*(provider.create(i, spec) for i in ids[start : start + at_once]))
        script = "setsid sleep 732 >/dev/null 2>&1 & sleep 732 >/dev/null 2>&1 &"
        await asyncio.gather(*(box.exec(Launch(argv=["sh", "-c", script])) for box in boxes))
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*json.loads(sys.argv[1])))
"""


def of_another_pid_namespace() -> list[str]:
    """Runs a command as one in another container would: whom it cannot see by process id, and who cannot see it. It
    ends with the command that runs it. Skips where there is no such thing."""
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        words += ["--user", "--map-current-user"]
    try:
        subprocess.run([*words, "true"], capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no PID namespace for an owner: {error}")
    return words


@asynccontextmanager
async def owner_process(
    stage: Stage, sandbox_ids: Sequence[str], *, at_once: int = 8, run_by: Sequence[str] = ()
) -> AsyncIterator[asyncio.subprocess.Process]:
    """One that has made these sandboxes, each with two processes in the background, and does not close them. `run_by`
    is a command that runs another."""
    words = json.dumps([stage.block, stage.spec.model_dump(mode="json"), list(sandbox_ids), at_once])
    owner = await asyncio.create_subprocess_exec(
        *(*run_by, sys.executable, "-c", OWNER, words), cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout
    try:
        line = await asyncio.wait_for(owner.stdout.readline(), _READY_TIMEOUT_S)
        assert line == b"ready\n"
        yield owner
    finally:
        if owner.returncode is None:
            owner.kill()
            await owner.wait()
