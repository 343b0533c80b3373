"""Mounts of a configuration beside the sandbox block that they are for, and this machine: before anything starts."""

from collections.abc import Iterator, Sequence

from gym_core.config.blocks import Contradiction
from gym_core.sandbox.contract import Mount
from gym_core.sandbox.mounts import why_not_here
from gym_core.sandbox.providers.local import LocalProvider
from gym_core.types.wire import JsonObject


def mounts_that_cannot_be(mounts: Sequence[Mount], sandbox: JsonObject, path: str) -> Iterator[Contradiction]:
    """`sandbox` is the block of the provider, `path` where `mounts` stands. Reads the folders: blocks.

    Other providers are on machines, or see folders, of which only their engine or server knows.
    """
    if LocalProvider.name not in sandbox:
        return
    for number, mount in enumerate(mounts):
        if why := why_not_here(mount):
            yield Contradiction(f"{path}.mounts.{number}.source", f"{mount.source!r} {why}")
