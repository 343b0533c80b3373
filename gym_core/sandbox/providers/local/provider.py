"""The embedded provider: sandboxes on this host, without root, Docker or a firewall."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.box.box import BoxSandbox
from gym_core.sandbox.box.entry import must_be_admissible, must_be_new
from gym_core.sandbox.contract import Mount, SandboxInfo, SandboxSpec, SweepReport
from gym_core.sandbox.providers.local.bubblewrap import init_interpreter
from gym_core.sandbox.providers.local.cell import Cell
from gym_core.sandbox.providers.local.host import Host, LocalSandboxConfig, survey
from gym_core.sandbox.providers.local.state import BoxRecords
from gym_core.sandbox.providers.local.sweep import sweep
from gym_core.sandbox.providers.local.trial import try_out
from gym_core.sandbox.providers.local.watchdog import Watched, watch_memory
from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement

log = logging.getLogger(__name__)

_TOOLKIT_TARGET = "/opt/toolkit"


class LocalProvider:
    """Use it on one event loop, whose thread outlives the sandboxes: they die with the thread that made them."""

    name = "local"

    def __init__(self, config: LocalSandboxConfig | None = None) -> None:
        self._config = config or LocalSandboxConfig()
        self._host: Host | None = None
        self._surveying = asyncio.Lock()
        self._boxes: dict[str, BoxSandbox] = {}
        self._watchdog: asyncio.Task[None] | None = None

    async def check(self) -> SandboxEnforcement:
        """Runs a sandbox and tries its walls: about 0.2 s."""
        python = init_interpreter(self._with_toolkit(SandboxSpec()).mounts)
        return await try_out(self.create, python=python)

    async def create(self, sandbox_id: SafeId, spec: SandboxSpec) -> BoxSandbox:
        """About 35 ms, 5 MiB."""
        self._admit(sandbox_id, spec)
        spec = self._with_toolkit(spec)
        box = BoxSandbox(
            sandbox_id,
            spec,
            partial(Cell, sandbox_id, spec, await self._found_host()),
            lambda: self._forget(sandbox_id, box),
        )
        self._admit(sandbox_id, spec)  # again: others may have come while the host was surveyed
        self._boxes[sandbox_id] = box
        try:
            await box.open()
        except OSError as error:
            await box.close()
            raise SandboxUnavailable(f"local sandboxes: {sandbox_id!r} not made: {error}") from error
        except BaseException:
            await box.close()
            raise
        self._watch()
        return box

    async def list(self) -> list[SandboxInfo]:
        """All that share our `state_dir`."""
        records = BoxRecords(self._config.state_path)
        return [
            SandboxInfo(
                sandbox_id=record.sandbox_id,
                provider=self.name,
                owner=record.owner,
                is_orphan=records.is_orphan(record),
                created_at=record.created_at,
                expires_at=self._expiry_of(name),
                metadata=record.metadata,
            )
            for name, record in records.read_all().items()
        ]

    async def sweep(self) -> SweepReport:
        return await sweep(self._config.state_path)

    async def aclose(self) -> None:
        await asyncio.gather(*(box.close() for box in list(self._boxes.values())))
        if self._watchdog:
            self._watchdog.cancel()
            await asyncio.gather(self._watchdog, return_exceptions=True)
            self._watchdog = None
        if self._host:
            self._host.close()
            self._host = None

    def _admit(self, sandbox_id: SafeId, spec: SandboxSpec) -> None:
        must_be_new(sandbox_id, self._boxes)
        if spec.image is not None:
            raise SandboxUnavailable(
                f"local sandboxes have no images; leave `image` out, or use a provider that runs {spec.image!r}"
            )
        must_be_admissible(spec, self._boxes, max_memory_mib=self._config.max_memory_mib, provider="local sandboxes")

    def _with_toolkit(self, spec: SandboxSpec) -> SandboxSpec:
        toolkit = self._config.toolkit
        if toolkit is None or any(mount.target == _TOOLKIT_TARGET for mount in spec.mounts):
            return spec
        return spec.model_copy(update={"mounts": [Mount(source=toolkit, target=_TOOLKIT_TARGET), *spec.mounts]})

    def _expiry_of(self, record_name: str) -> float | None:
        return next((box.expires_at for box in self._boxes.values() if box.record_name == record_name), None)

    async def _found_host(self) -> Host:
        async with self._surveying:
            if self._host is None:
                self._host = await survey(self._config)
            return self._host

    def _forget(self, sandbox_id: SafeId, box: BoxSandbox) -> None:
        if self._boxes.get(sandbox_id) is box:
            del self._boxes[sandbox_id]

    def _watch(self) -> None:
        if self._watchdog is None and self._host and self._host.cgroups is None:
            self._watchdog = asyncio.create_task(watch_memory(self._watched))

    def _watched(self) -> Sequence[Watched]:
        return [
            Watched(box.init_pid, box.spec.resources.memory_mib << 20)
            for box in self._boxes.values()
            if box.init_pid is not None
        ]
