"""The embedded provider, with a state folder of the test's own."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.box.box import BoxSandbox
from gym_core.sandbox.contract import Sandbox
from gym_core.sandbox.providers.local import LocalProvider, LocalSandboxConfig
from tests.sandboxes.subject import Stage, Subject


@asynccontextmanager
async def open_local(folder: Path) -> AsyncIterator[Stage]:
    settings = LocalSandboxConfig(state_dir=str(folder / "state"))
    provider = LocalProvider(settings)
    try:
        await provider.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    try:
        yield Stage(provider, block={"local": settings.model_dump(exclude_none=True)}, vanish=kill)
    finally:
        await provider.aclose()


async def kill(sandbox: Sandbox) -> None:
    if isinstance(sandbox, BoxSandbox) and sandbox.init_pid:
        os.kill(sandbox.init_pid, signal.SIGKILL)


LOCAL = Subject("local", open_local)
