"""What a suite needs of a provider: how it is opened, and which promises it cannot keep."""

import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import pytest

from gym_core.sandbox.contract import ModelOnly, Sandbox, SandboxProvider, SandboxResources, SandboxSpec
from gym_core.sandbox.lender import WeakestNetwork
from gym_core.types.wire import JsonObject
from tests.fakes.lending import Lender, open_lender

SMALL = SandboxResources(memory_mib=256, workspace_mib=16, pids=64)

_ids = itertools.count()


class Ability(StrEnum):
    """What a test may need beyond files, commands by heart, and an end."""

    PROGRAMS = "runs real programs"
    MODEL = "lets a model server be reached"
    MODEL_ONLY = "lets one address and port be reached"
    MOUNTS = "shows folders of this host, read-only"
    MISSING_MOUNTS = "refuses to show a folder that is not there"
    SIZED_WORKSPACE = "bounds the workspace's size"
    READ_ONLY_SYSTEM = "keeps the system's folders read-only"
    SHORT_TTL = "ends a sandbox within a second of its time"
    LIST = "lists and sweeps what other processes made"
    KILLS_FAMILIES = "kills what left its command's process group and session too"


@dataclass
class Stage:
    """A provider, open, and how a test gets sandboxes of it."""

    provider: SandboxProvider
    spec: SandboxSpec = field(default_factory=lambda: SandboxSpec(resources=SMALL))
    """Small; tests copy it with changes."""
    block: JsonObject = field(default_factory=dict)
    """The configuration by which another process opens the same provider (`open_provider`)."""
    vanish: Callable[[Sandbox], Awaitable[None]] | None = None
    """Ends a sandbox behind the provider's back, as a kill by the kernel or an administrator does."""
    model_host: str = "127.0.0.1"
    """Address of this machine on which a test's model server is to listen for its sandboxes to reach it."""
    network: WeakestNetwork = "exact_port"
    """What `model_only` comes to, by the provider's word."""
    open_beside: bool = False
    """Whether TCP ports of `model_host` beside the model's can be reached."""
    pids: int | None = None
    """What bounds processes, where a spec's word is not heard."""
    weaker: Mapping[str, str] = field(default_factory=dict)
    """Checks of `tests/live/isolation_probe.py` that its sandboxes do not pass, each with the reason. The fewer the
    better: what is here is in the provider's page too."""
    lender: Lender | None = None
    owned: dict[str, Sandbox] = field(default_factory=dict)
    """The provider's own object behind each sandbox that `open` gave out, by the id of the latter."""

    async def open(self, sandbox_id: str | None = None, **changes: object) -> Sandbox:
        """One sandbox, lent if that is what is tested; `changes` are fields of its spec."""
        own = await self.provider.create(sandbox_id or new_id(), self.spec_with(**changes))
        sandbox = self.lender.lend(own) if self.lender else own
        self.owned[sandbox.id] = own
        return sandbox

    async def lose(self, sandbox: Sandbox) -> None:
        """End one that `open` gave out, behind the provider's back."""
        if self.vanish is None:
            pytest.skip("there is no way to end one of these from outside")
        await self.vanish(self.owned[sandbox.id])

    def model_at(self, port: int) -> ModelOnly:
        """The network of a sandbox whose model listens on this port of `model_host`."""
        return ModelOnly(host=self.model_host, port=port)

    def spec_with(self, **changes: object) -> SandboxSpec:
        return SandboxSpec.model_validate({**self.spec.model_dump(), **changes})


def new_id() -> str:
    """No other test's, on this machine or a shared service."""
    return f"suite-{os.getpid()}-{next(_ids)}"


Open = Callable[[Path], AbstractAsyncContextManager[Stage]]


@dataclass(frozen=True)
class Subject:
    """One provider under test."""

    name: str
    open: Open
    """Gets a folder of the test's own. Skips, with the reason, where the provider cannot be had."""
    lacks: Mapping[Ability, str] = field(default_factory=dict)
    """What it cannot do, with the reason that a skipped test shows."""
    is_live: bool = True
    """Makes real sandboxes, so that the fast suite leaves it out."""
    mark: str | None = None
    """A mark of pytest's of its own, by which a command of its own runs it."""

    def leased(self) -> "Subject":
        """The same sandboxes as their borrowers see them."""
        return replace(self, name=f"leased {self.name}", open=lambda folder: _open_leased(self, folder))

    def as_param(self, needed: tuple[Ability, ...]) -> object:
        """What pytest's parametrize takes; skipped when something needed is lacking."""
        marks = [pytest.mark.live] if self.is_live else []
        if self.mark:
            marks.append(getattr(pytest.mark, self.mark))
        missing = [ability for ability in needed if ability in self.lacks]
        if missing:
            marks.append(pytest.mark.skip(reason=f"{self.name}: {self.lacks[missing[0]]}"))
        return pytest.param(self, marks=marks, id=self.name)


@asynccontextmanager
async def _open_leased(subject: Subject, folder: Path) -> AsyncIterator[Stage]:
    async with subject.open(folder) as stage, open_lender() as lender:
        stage.lender = lender
        yield stage
