"""Sandboxes of an OpenSandbox server: containers on a Docker host or a Kubernetes cluster, by its public SDK."""

from gym_core.sandbox.providers.opensandbox.config import OpenSandboxConfig
from gym_core.sandbox.providers.opensandbox.provider import OpenSandboxProvider

__all__ = ["OpenSandboxConfig", "OpenSandboxProvider"]
