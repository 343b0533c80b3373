"""Mounts of a configuration beside the sandbox block that they are for, and this machine: before anything starts."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from gym_core.config.blocks import Contradiction
from gym_core.launch.state import state_root
from gym_core.sandbox.contract import Mount
from gym_core.sandbox.mounts import why_not_here, why_ours
from gym_core.sandbox.providers.local import LocalProvider
from gym_core.sandbox.providers.local.state import default_state_dir
from gym_core.types.wire import JsonObject

_REMOTE = "opensandbox"
"""Its sandboxes are on other machines, with folders of their own. Not imported: its SDK is needed only by its users."""


def mounts_that_cannot_be(mounts: Sequence[Mount], sandbox: JsonObject, path: str) -> Iterator[Contradiction]:
    """`sandbox` is the block of the provider, `path` where `mounts` stands. Reads the folders: blocks.

    What there is of other folders, only the engine or server of another provider knows.
    """
    for number, mount in enumerate(mounts):
        why = None if _REMOTE in sandbox else why_ours(mount, _own_folders(sandbox))
        if why is None and LocalProvider.name in sandbox:
            why = why_not_here(mount)
        if why:
            yield Contradiction(f"{path}.mounts.{number}.source", f"{mount.source!r} {why}")


def _own_folders(sandbox: JsonObject) -> list[Path]:
    named = [settings.get("state_dir") for settings in sandbox.values() if isinstance(settings, dict)]
    return [state_root(), default_state_dir(), *(Path(name) for name in named if name and isinstance(name, str))]
