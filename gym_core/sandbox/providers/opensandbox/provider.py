"""The provider: makes sandboxes at an OpenSandbox server, and lends none whose walls are not what was asked for."""

import asyncio
import ipaddress
import logging
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress

from gym_core.errors import SandboxError, SandboxUnavailable
from gym_core.sandbox.contract import ModelOnly, NetworkPolicy, SandboxInfo, SandboxResources, SandboxSpec, SweepReport
from gym_core.sandbox.owner import Owner
from gym_core.sandbox.providers.opensandbox import labels
from gym_core.sandbox.providers.opensandbox.config import OpenSandboxConfig
from gym_core.sandbox.providers.opensandbox.life import server_ttl_s
from gym_core.sandbox.providers.opensandbox.sandbox import OpenSandbox
from gym_core.sandbox.providers.opensandbox.sdk import Listed, Order, Service, ServiceFault
from gym_core.sandbox.providers.opensandbox.walls import (
    allowed_address,
    check_policy,
    enforcement_of,
    model_address,
    unseen_enforcement,
)
from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement

log = logging.getLogger(__name__)

_NAME = "opensandbox"
_ATTEMPTS = 3
_OVERDUE_S = 120.0
"""How long after its time a sandbox must still be there before we take the server to have forgotten it."""


class OpenSandboxProvider:
    """Use it on one event loop."""

    name = _NAME

    def __init__(self, config: OpenSandboxConfig) -> None:
        self._config = config
        if config.shows_its_key:
            log.warning("the key of OpenSandbox goes unencrypted; set `protocol: https`", extra={"to": config.domain})
        self._service = Service(config)
        self._owner = str(Owner.here())
        self._word = secrets.token_hex(8)
        """Ours among all providers of this process."""
        self._creating = asyncio.Semaphore(config.concurrent_creates)
        self._reserved: set[str] = set()
        self._boxes: dict[str, OpenSandbox] = {}
        self._attempts: set[str] = set()
        """Of sandboxes that we have or are making; another one of ours is left over from a reply that was lost."""
        self._removing: set[asyncio.Task[None]] = set()

    async def check(self) -> SandboxEnforcement:
        """Makes a sandbox without network, runs a command in it, and says what it found. Without a configured image it
        asks the server alone, and claims the least."""
        if self._config.image is None:
            await self._find()
            return unseen_enforcement()
        resources = SandboxResources(memory_mib=256, workspace_mib=16, pids=64)
        box = await self.create(f"check-{secrets.token_hex(4)}", SandboxSpec(ttl_s=300, resources=resources))
        try:
            return box.enforced
        finally:
            await box.close()

    async def create(self, sandbox_id: SafeId, spec: SandboxSpec) -> OpenSandbox:
        """A second or more on Docker; the first time as long as the image takes to be pulled."""
        image = spec.image or self._config.image
        if image is None:
            raise SandboxUnavailable(
                "opensandbox: no image: set `sandbox_config.image`, or `image` in the provider's block"
            )
        network = model_address(spec.network, self._config.relay_address)
        if sandbox_id in self._boxes or sandbox_id in self._reserved:
            raise SandboxError(f"a sandbox with the id {sandbox_id!r} is alive")
        self._reserved.add(sandbox_id)
        try:
            async with self._creating:
                return await self._create(sandbox_id, spec.model_copy(update={"image": image, "network": network}))
        finally:
            self._reserved.discard(sandbox_id)

    async def list(self) -> list[SandboxInfo]:
        """All that a gym made at this server, whichever machine it ran on."""
        return [self._info(found) for found in await self._find()]

    async def sweep(self) -> SweepReport:
        removed, kept = [], 0
        for found in await self._find():
            if not self._is_orphan(found):
                kept += 1
                continue
            try:
                await self._service.kill(found.remote_id)
            except ServiceFault as fault:
                log.warning("leftover not removed", extra={"sandbox": found.remote_id, "reason": str(fault)[:200]})
                kept += 1
            else:
                removed.append(_id_of(found))
        return SweepReport(removed=removed, kept=kept)

    async def aclose(self) -> None:
        """Ends too what we made and never heard of."""
        await asyncio.gather(*(box.close() for box in list(self._boxes.values())))
        await asyncio.gather(*self._removing, return_exceptions=True)
        with suppress(ServiceFault):  # what cannot be reached ends by its time
            await self._remove({labels.PROVIDER: self._word})
        await self._service.aclose()

    async def _create(self, sandbox_id: SafeId, spec: SandboxSpec) -> OpenSandbox:
        for attempts_left in reversed(range(_ATTEMPTS)):
            attempt = secrets.token_hex(8)
            self._attempts.add(attempt)
            try:
                return await self._attempt(sandbox_id, spec, attempt)
            except BaseException as error:
                removing = self._abandon(attempt)
                if not isinstance(error, ServiceFault):
                    raise
                await asyncio.shield(removing)
                if error.is_refusal or not attempts_left:
                    where = f" (the server is {self._config.url})" if error.is_unreachable else ""
                    raise SandboxUnavailable(f"opensandbox: {sandbox_id!r} not made: {error}{where}") from error
                log.warning("sandbox creation failed", extra={"sandbox": sandbox_id, "reason": str(error)[:200]})
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, sandbox_id: SafeId, spec: SandboxSpec, attempt: str) -> OpenSandbox:
        remote = await self._service.create(self._order(sandbox_id, spec, attempt))
        network = spec.network
        box = OpenSandbox(
            sandbox_id,
            spec,
            remote=remote,
            service=self._service,
            model_url=_url_of(network),
            on_closed=lambda: self._forget(sandbox_id, box, attempt),
        )
        try:
            check_policy(await remote.policy(), network)
            box.enforced = enforcement_of(await box.look(), network, secure_access=self._config.secure_access)
        except SandboxUnavailable:
            await box.close()
            raise
        except (SandboxError, OSError) as error:
            await box.close()
            raise SandboxUnavailable(f"opensandbox: {sandbox_id!r} was made and is no good: {error}") from error
        except BaseException:
            await box.close()
            raise
        self._boxes[sandbox_id] = box
        return box

    def _order(self, sandbox_id: SafeId, spec: SandboxSpec, attempt: str) -> Order:
        assert spec.image is not None
        ttl_s = server_ttl_s(spec.ttl_s)
        own = {
            labels.MARK: "1",
            labels.ID: sandbox_id,
            labels.OWNER: self._owner,
            labels.PROVIDER: self._word,
            labels.ATTEMPT: attempt,
            labels.EXPIRES: str(int(time.time() + ttl_s)),
        }
        return Order(
            image=spec.image,
            ttl_s=ttl_s,
            resources=spec.resources,
            labels=labels.written(spec.metadata, own),
            allowed_address=allowed_address(spec.network),
            mounts=tuple(spec.mounts),
        )

    def _abandon(self, attempt: str) -> asyncio.Task[None]:
        """It may have made a sandbox all the same, now or later: look now, and leave the rest to sweeps."""
        self._attempts.discard(attempt)

        async def remove() -> None:
            with suppress(ServiceFault):
                await self._remove({labels.ATTEMPT: attempt})

        task = asyncio.get_running_loop().create_task(remove())
        self._removing.add(task)
        task.add_done_callback(self._removing.discard)
        return task

    async def _remove(self, wanted: dict[str, str]) -> None:
        for found in await self._service.find({labels.MARK: "1"} | wanted):
            await self._service.kill(found.remote_id)

    async def _find(self) -> Sequence[Listed]:
        try:
            return await self._service.find({labels.MARK: "1"})
        except ServiceFault as fault:
            said = str(fault)
            if fault.is_unreachable:
                advice = "start it, or correct `domain` and `protocol` of the block"
                said = f"the server at {self._config.url} cannot be reached: {said}; {advice}"
            raise SandboxUnavailable(f"opensandbox: {said}") from fault

    def _info(self, found: Listed) -> SandboxInfo:
        box = self._box_of(found)
        return SandboxInfo(
            sandbox_id=_id_of(found),
            provider=self.name,
            owner=labels.own_word(found.labels, labels.OWNER),
            is_orphan=self._is_orphan(found),
            created_at=found.created_at,
            expires_at=box.expires_at if box else _end_of(found),
            metadata=labels.metadata_of(found.labels),
        )

    def _is_orphan(self, found: Listed) -> bool:
        if self._box_of(found):
            return False
        if labels.own_word(found.labels, labels.PROVIDER) == self._word:
            return labels.own_word(found.labels, labels.ATTEMPT) not in self._attempts
        owner, end = Owner.parse(labels.own_word(found.labels, labels.OWNER)), _end_of(found)
        is_overdue = end is not None and end + _OVERDUE_S < time.time()
        return is_overdue or (owner is not None and owner.is_known_dead)

    def _box_of(self, found: Listed) -> OpenSandbox | None:
        return next((box for box in self._boxes.values() if box.remote_id == found.remote_id), None)

    def _forget(self, sandbox_id: SafeId, box: OpenSandbox, attempt: str) -> None:
        self._attempts.discard(attempt)
        if self._boxes.get(sandbox_id) is box:
            del self._boxes[sandbox_id]


def _id_of(found: Listed) -> str:
    return labels.own_word(found.labels, labels.ID) or found.remote_id


def _end_of(found: Listed) -> float | None:
    """The server's word, which knows of renewals; else what was meant at the start."""
    if found.expires_at is not None:
        return found.expires_at
    word = labels.own_word(found.labels, labels.EXPIRES)
    return float(word) if word.isdecimal() else None


def _url_of(network: NetworkPolicy) -> str | None:
    if not isinstance(network, ModelOnly):
        return None
    host = f"[{network.host}]" if ipaddress.ip_address(network.host).version == 6 else network.host
    return f"http://{host}:{network.port}/v1"
