"""A faked server, and a provider before it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from gym_core.sandbox.contract import SandboxSpec
from gym_core.sandbox.providers.opensandbox import OpenSandboxProvider
from gym_core.sandbox.providers.opensandbox.sandbox import OpenSandbox
from tests.fakes.opensandbox import FakeOpenSandbox, Inside, MemoryInside, open_opensandbox
from tests.sandboxes.memory import run_by_heart
from tests.sandboxes.opensandbox import settings_for


@dataclass
class Scene:
    server: FakeOpenSandbox
    insides: list[MemoryInside]
    facts: dict[str, object] = field(default_factory=dict)
    """What a look around finds in each new sandbox, where it is not what it should be."""
    providers: list[OpenSandboxProvider] = field(default_factory=list)

    def provider(self, **changes: object) -> OpenSandboxProvider:
        provider = OpenSandboxProvider(settings_for(self.server, **changes))
        self.providers.append(provider)
        return provider

    async def open(self, **fields: object) -> OpenSandbox:
        """A sandbox of a provider of its own."""
        return await self.provider().create("box", SandboxSpec.model_validate(fields))


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    insides: list[MemoryInside] = []

    async def make(name: str, body: dict[str, object]) -> Inside:
        inside = MemoryInside(run_by_heart)
        inside.facts |= scene.facts
        insides.append(inside)
        return inside

    async with open_opensandbox(make) as server:
        scene = Scene(server, insides)
        yield scene
        for provider in scene.providers:
            await provider.aclose()
