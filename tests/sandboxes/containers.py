"""The Docker provider, on the engine that `python -m tests.live.docker_engine` started or the environment names."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.providers.docker import DockerProvider, DockerSandboxConfig
from tests.live.docker_engine import HOST, IMAGE, WHY_NONE
from tests.sandboxes.embedded import kill
from tests.sandboxes.subject import Stage, Subject


def docker_settings(folder: Path) -> DockerSandboxConfig:
    """Skips where no engine is named."""
    if HOST not in os.environ:
        pytest.skip(os.environ.get(WHY_NONE, "no Docker engine for tests: `make test-docker` starts one"))
    return DockerSandboxConfig(host=os.environ[HOST], image=os.environ.get(IMAGE), state_dir=str(folder / "state"))


@asynccontextmanager
async def open_docker(folder: Path) -> AsyncIterator[Stage]:
    settings = docker_settings(folder)
    provider = DockerProvider(settings)
    try:
        await provider.check()
    except SandboxUnavailable as error:
        pytest.fail(f"an engine was named, but: {error}")
    try:
        yield Stage(provider, block={"docker": settings.model_dump(exclude_none=True)}, vanish=kill)
    finally:
        await provider.aclose()


DOCKER = Subject("docker", open_docker, mark="docker")
