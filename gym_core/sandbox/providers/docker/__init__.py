"""The Docker provider: a container for each sandbox, on an engine of this machine."""

from gym_core.sandbox.providers.docker.provider import DockerProvider
from gym_core.sandbox.providers.docker.settings import DockerSandboxConfig

__all__ = ["DockerProvider", "DockerSandboxConfig"]
