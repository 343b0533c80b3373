"""The fake in memory: what the tests of everything else use must keep the same promises."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gym_core.sandbox.contract import ExecResult, Launch, Sandbox
from tests.fakes.sandbox import FakeProvider, FakeSandbox
from tests.sandboxes.subject import Ability, Stage, Subject

_NO_PROGRAMS = "it is in memory and runs no programs"


def run_by_heart(launch: Launch, sandbox: FakeSandbox) -> ExecResult:
    """The few programs that the suite asks every provider for."""
    match launch.argv:
        case ["cat", path]:
            if path not in sandbox.files:
                return ExecResult(exit_code=1, stderr=b"cat: no such file\n")
            return ExecResult(exit_code=0, stdout=sandbox.files[path])
        case ["false"]:
            return ExecResult(exit_code=1)
        case ["no-such-program"]:
            return ExecResult(exit_code=127, stderr=b"no-such-program: No such file or directory\n")
    return ExecResult(exit_code=0)


@asynccontextmanager
async def open_fake(folder: Path) -> AsyncIterator[Stage]:
    async def vanish(sandbox: Sandbox) -> None:
        provider.sandboxes[sandbox.id].die()

    provider = FakeProvider(run_by_heart)
    yield Stage(provider, vanish=vanish)
    await provider.aclose()


FAKE = Subject(
    "fake",
    open_fake,
    lacks=dict.fromkeys(Ability, _NO_PROGRAMS),
    is_live=False,
)
