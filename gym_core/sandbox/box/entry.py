"""What a provider whose sandboxes are on this machine asks of a new one before it makes it."""

import ipaddress
from collections.abc import Mapping

from gym_core.errors import SandboxError, SandboxUnavailable
from gym_core.sandbox.box.box import BoxSandbox
from gym_core.sandbox.contract import ModelOnly, SandboxSpec
from gym_core.types.ids import SafeId


def must_be_new(sandbox_id: SafeId, alive: Mapping[SafeId, BoxSandbox]) -> None:
    """Raises SandboxError."""
    if sandbox_id in alive:
        raise SandboxError(f"a sandbox with the id {sandbox_id!r} is alive")


def must_be_admissible(
    spec: SandboxSpec, alive: Mapping[SafeId, BoxSandbox], *, max_memory_mib: int | None, provider: str
) -> None:
    """A literal address to reach, and memory for it beside those alive. Raises SandboxUnavailable."""
    if isinstance(spec.network, ModelOnly):
        _must_be_literal(spec.network.host, provider)
    asked = spec.resources.memory_mib
    lent = sum(box.spec.resources.memory_mib for box in alive.values())
    if max_memory_mib is not None and lent + asked > max_memory_mib:
        raise SandboxUnavailable(
            f"{provider}: {asked} MiB more than the {lent} MiB lent would pass max_memory_mib {max_memory_mib}"
        )


def _must_be_literal(host: str, provider: str) -> None:
    """A name would be looked up anew at every connection, and could lead elsewhere."""
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise SandboxUnavailable(f"{provider}: model_only needs a literal address, not {host!r}") from error
