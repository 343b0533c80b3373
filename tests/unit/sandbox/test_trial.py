"""The check of a provider: a wall that gives way is found, and the provider refused."""

import asyncio
import subprocess
import sys

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.contract import ExecResult, Launch
from gym_core.sandbox.providers.local.trial import try_out
from tests.fakes.sandbox import FakeProvider, FakeSandbox


def run_here(launch: Launch, sandbox: FakeSandbox) -> ExecResult:
    """No sandbox at all: the pushing program runs beside the tests, on the host's network."""
    done = subprocess.run(launch.argv, capture_output=True, timeout=30, check=False)
    return ExecResult(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)


async def test_without_walls_the_check_fails_and_leaves_nothing() -> None:
    async def off_the_loop(launch: Launch, sandbox: FakeSandbox) -> ExecResult:
        return await asyncio.to_thread(run_here, launch, sandbox)

    provider = FakeProvider(off_the_loop)
    with pytest.raises(SandboxUnavailable, match="another port of this host can be reached"):
        await try_out(provider.create, python=sys.executable)
    assert all(sandbox.closed for sandbox in provider.sandboxes.values())


async def test_walls_that_hold_pass() -> None:
    provider = FakeProvider()
    assert (await try_out(provider.create, python="python3")).provider == "fake"
    assert all(sandbox.closed for sandbox in provider.sandboxes.values())
