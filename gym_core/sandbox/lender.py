"""Makes sandboxes of one provider and lends them: each looked at first, so many at once, none forgotten."""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.admission import Admission
from gym_core.sandbox.contract import ModelOnly, NetworkPolicy, Sandbox, SandboxProvider, SandboxSpec
from gym_core.sandbox.lease import Grant, LeaseTable
from gym_core.sandbox.mounts import must_be_read_only
from gym_core.sandbox.probe import Decoys, Door, must_be_closed
from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement

log = logging.getLogger(__name__)

_MAX_WAIT_S = 120.0
"""For a place. Whoever asks gives up after 180 s (`episode.SEED_TIMEOUT_S`), and the sandbox must be made by then."""

_SWEEP_TIMEOUT_S = 120.0
"""A service that does not answer must hold up neither the start nor the janitor."""

WeakestNetwork = Literal["exact_port", "host"]


@dataclass(frozen=True)
class LendingRules:
    ttl_s: float
    """Of a lease that is not used."""
    sweep_every_s: float
    max_sandboxes: int | None
    weakest_network: WeakestNetwork = "exact_port"
    """Under "host", every port of the model server's address may be reachable beside the model's own."""


@dataclass(frozen=True)
class Lent:
    sandbox: Sandbox
    grant: Grant
    enforced: SandboxEnforcement
    """By the provider's word, and what was seen from inside."""


class Lender:
    """`table` holds the leases, and with them what is lent."""

    def __init__(self, provider: SandboxProvider, rules: LendingRules, table: LeaseTable) -> None:
        self._provider = provider
        self._rules = rules
        self._table = table
        self._admission = Admission(rules.max_sandboxes, max_wait_s=_MAX_WAIT_S)
        self._decoys = Decoys()
        self._janitor: asyncio.Task[None] | None = None

    @property
    def doors(self) -> Sequence[Door]:
        """What no lent sandbox reaches."""
        return self._decoys.doors

    async def open(self, network: NetworkPolicy, *, trial: SandboxSpec | None = None) -> None:
        """Raises SandboxUnavailable: better no gym than one whose every rollout is masked. `trial` is made once, and
        its mounts are looked at: whether there are such folders, only the provider can say."""
        await self._provider.check()
        if trial:
            await self._try(trial)
        await self._sweep()
        await self._decoys.open(network.host if isinstance(network, ModelOnly) else None)
        self._janitor = asyncio.create_task(self._sweep_for_ever(), name="sandbox-janitor")

    async def close(self) -> None:
        """Destroys what the provider made, and only that."""
        if self._janitor:
            self._janitor.cancel()
            await asyncio.gather(self._janitor, return_exceptions=True)
        await self._decoys.close()
        await self._provider.aclose()

    async def lend(self, sandbox_id: SafeId, spec: SandboxSpec) -> Lent:
        """A new sandbox whose network was looked at from inside. Raises SandboxUnavailable; nothing is left then."""
        await self._admission.enter()
        try:
            sandbox = await self._provider.create(sandbox_id, spec)
            try:
                await must_be_tight(sandbox, spec.network, self.doors, weakest=self._rules.weakest_network)
                seen = await must_be_read_only(sandbox, spec.mounts)
                grant = self._table.lend(sandbox, ttl_s=self._rules.ttl_s, on_end=self._admission.leave)
            except BaseException:
                await sandbox.close()
                raise
        except BaseException:
            self._admission.leave()
            raise
        return Lent(sandbox, grant, sandbox.enforced.model_copy(update={"mounts": seen}))

    async def _try(self, spec: SandboxSpec) -> None:
        sandbox = await self._provider.create(f"trial-{secrets.token_hex(4)}", spec)
        try:
            await must_be_read_only(sandbox, spec.mounts)
        finally:
            await sandbox.close()

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._rules.sweep_every_s)
            await self._sweep()

    async def _sweep(self) -> None:
        """Living neighbours' sandboxes, another gym's on this host or this service, stay. A failure is only told."""
        try:
            async with asyncio.timeout(_SWEEP_TIMEOUT_S):
                report = await self._provider.sweep()
        except Exception:
            log.exception("sweeping sandboxes failed")
            return
        if report.removed:
            log.warning("leftovers of dead owners removed", extra={"removed": report.removed, "kept": report.kept})


async def must_be_tight(
    sandbox: Sandbox, network: NetworkPolicy, doors: Sequence[Door], *, weakest: WeakestNetwork
) -> Sequence[Door]:
    """First by the provider's own word, then by what is seen from inside. The doors that were tried: all but those on
    an address that the provider opens as a whole. Raises SandboxUnavailable."""
    said, allowed = sandbox.enforced.network, {"none"}
    if isinstance(network, ModelOnly):
        allowed = {"exact_port", weakest}
        if said == "host":
            open_host = urlsplit(sandbox.model_url or "").hostname
            doors = [door for door in doors if door.host != open_host]
    if said not in allowed:
        raise SandboxUnavailable(
            f"sandbox {sandbox.id!r} is not lent: its network is {said!r} by its provider's own word, and "
            f"{' or '.join(sorted(allowed))} is asked for (`sandbox_config.weakest_network`)"
        )
    await must_be_closed(sandbox, doors)
    return doors
