"""The embedded sandbox provider: bubblewrap, a small process 1 of our own, and a relay to one address."""

from gym_core.sandbox.providers.local.host import LocalSandboxConfig
from gym_core.sandbox.providers.local.provider import LocalProvider

__all__ = ["LocalProvider", "LocalSandboxConfig"]
