"""A provider that puts a config block's `default_metadata` on every sandbox, under what its owner says of it."""

from gym_core.sandbox.contract import Sandbox, SandboxInfo, SandboxProvider, SandboxSpec, SweepReport
from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement


class LabelledProvider:
    def __init__(self, provider: SandboxProvider, metadata: dict[str, str]) -> None:
        self.name = provider.name
        self._provider = provider
        self._metadata = metadata

    async def check(self) -> SandboxEnforcement:
        return await self._provider.check()

    async def create(self, sandbox_id: SafeId, spec: SandboxSpec) -> Sandbox:
        labelled = spec.model_copy(update={"metadata": self._metadata | spec.metadata})
        return await self._provider.create(sandbox_id, labelled)

    async def list(self) -> list[SandboxInfo]:
        return await self._provider.list()

    async def sweep(self) -> SweepReport:
        return await self._provider.sweep()

    async def aclose(self) -> None:
        await self._provider.aclose()
