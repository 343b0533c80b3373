"""The `docker` block of a configuration."""

import os
from pathlib import Path

from pydantic import Field

from gym_core.sandbox.providers.local.state import StateDir, default_state_dir
from gym_core.types.wire import Wire

_DEFAULT_HOST = "unix:///var/run/docker.sock"


class DockerSandboxConfig(Wire):
    host: str | None = None
    """The engine's socket, such as unix:///var/run/docker.sock; None takes DOCKER_HOST, else that one. It must be an
    engine of this machine: commands and files go through a socket that a container is shown."""
    image: str | None = None
    """For sandboxes whose spec names none."""
    python: str = "python3"
    """What runs process 1 inside: a path, or a name on the image's own path. Python 3.9 or newer."""
    state_dir: StateDir | None = None
    """Folder for each sandbox's socket and record, the same path for the engine as for us; None is that of `local`."""
    max_memory_mib: int | None = Field(default=None, gt=0)
    """Sum of the memory limits of all sandboxes alive at once; one more is refused. None is no limit."""

    @property
    def url(self) -> str:
        return self.host or os.environ.get("DOCKER_HOST") or _DEFAULT_HOST

    @property
    def state_path(self) -> Path:
        return (Path(self.state_dir) if self.state_dir else default_state_dir()) / "docker"
