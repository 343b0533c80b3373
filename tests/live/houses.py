"""A whole gym on each real provider: the overrides by which `live_gym` uses it, with OpenCode in its sandboxes.

A house is opened once for a test; entering it skips, with the reason, where the provider cannot be had.
"""

import asyncio
import os
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gym_core.sandbox import toolkit
from tests.live.docker_engine import SANDBOX, client
from tests.live.gyms import POLICY, RESOURCES
from tests.live.opensandbox_server import ADDRESS, DOCKER, KEY, SANDBOX_IMAGE, SECOND, WHY_NONE
from tests.sandboxes.containers import docker_settings

OPENCODE_IMAGE = f"{SANDBOX_IMAGE}-opencode"

_SERVER = f"{RESOURCES}.resources_servers.visual_coding_opencode"
_RECEIVE_BYTES = 1 << 16


@dataclass(frozen=True)
class House:
    changes: dict[str, object]
    provider: str
    network: str
    """What rows say of these."""


OpenHouse = Callable[[Path], AbstractAsyncContextManager[House]]


@asynccontextmanager
async def local_house(folder: Path) -> AsyncIterator[House]:
    yield House({}, "local", "exact_port")


@asynccontextmanager
async def docker_house(folder: Path) -> AsyncIterator[House]:
    settings = docker_settings(folder)
    changes: dict[str, object] = {
        "containers.docker": settings.model_dump(exclude_none=True, exclude={"image"}),
        f"{_SERVER}.sandbox_provider": "containers",
        f"{_SERVER}.sandbox_config.image": SANDBOX,
    }
    yield House(changes, "docker", "exact_port")


@asynccontextmanager
async def opensandbox_house(folder: Path) -> AsyncIterator[House]:
    """The policy server stays on loopback; at an address of its own, a relay leads to it."""
    if ADDRESS not in os.environ:
        pytest.skip(os.environ.get(WHY_NONE, "no OpenSandbox server for tests: `make test-opensandbox` starts one"))
    await asyncio.to_thread(make_opencode_image)
    policy_port = _free_port()
    async with _relay(SECOND, policy_port) as relay_port:
        changes: dict[str, object] = {
            "cluster.opensandbox.domain": os.environ[ADDRESS],
            "cluster.opensandbox.api_key": os.environ[KEY],
            "cluster.opensandbox.relay_address": f"{SECOND}:{relay_port}",
            f"{_SERVER}.sandbox_provider": "cluster",
            f"{_SERVER}.sandbox_config.image": OPENCODE_IMAGE,
            f"{_SERVER}.sandbox_config.weakest_network": "host",
            f"{POLICY}.model_servers.vllm_model.port": policy_port,
        }
        yield House(changes, "opensandbox", "host")


every_house = pytest.mark.parametrize(
    "open_house",
    [
        pytest.param(local_house, id="local"),
        pytest.param(docker_house, id="docker", marks=pytest.mark.docker),
        pytest.param(opensandbox_house, id="opensandbox", marks=pytest.mark.opensandbox),
    ],
)


def make_opencode_image() -> None:
    """The toolkit of this machine in the image of the other tests: both are of one distribution."""
    engine = client(os.environ[DOCKER])
    try:
        if engine.images(OPENCODE_IMAGE):
            return
        container = engine.create_container(SANDBOX_IMAGE, ["true"])["Id"]
        with tempfile.TemporaryFile() as archive:
            path = str(toolkit.toolkit_dir())
            words = ["tar", "--create", "--directory", path, "--transform", "s,^\\.,opt/toolkit,", "."]
            subprocess.run(words, stdout=archive, check=True)
            archive.seek(0)
            assert engine.put_archive(container, "/", archive)
        engine.commit(container, OPENCODE_IMAGE, "latest")
        engine.remove_container(container)
    finally:
        engine.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def _relay(host: str, to_port: int) -> AsyncIterator[int]:
    """A forwarder to a port of loopback, as an administrator runs one; its own port."""

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while content := await reader.read(_RECEIVE_BYTES):
                writer.write(content)
                await writer.drain()
        except ConnectionError:
            pass  # either side may go at any time
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", to_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(passed(reader, there_writer), passed(there_reader, writer))

    async with await asyncio.start_server(serve, host, 0) as server:
        port: int = server.sockets[0].getsockname()[1]
        yield port
