"""The OpenSandbox provider with the real SDK: before a faked server, by heart or with embedded sandboxes inside; and
before the real one that `python -m tests.live.opensandbox_server` started.
"""

import asyncio
import ctypes
import ipaddress
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import docker
import pytest

from gym_core.errors import SandboxUnavailable
from gym_core.sandbox.contract import Sandbox
from gym_core.sandbox.providers.local import LocalProvider, LocalSandboxConfig
from gym_core.sandbox.providers.opensandbox import OpenSandboxConfig, OpenSandboxProvider
from gym_core.sandbox.providers.opensandbox.courier import LANDLOCK_CREATE_RULESET
from gym_core.sandbox.providers.opensandbox.sandbox import OpenSandbox
from gym_core.types.wire import JsonObject
from tests.fakes.opensandbox import BoxInside, FakeOpenSandbox, Inside, MemoryInside, open_opensandbox
from tests.fakes.opensandbox.server import API_KEY
from tests.live.docker_engine import client
from tests.live.opensandbox_server import ADDRESS, DOCKER, KEY, PIDS, SANDBOX_IMAGE, WHY_NONE
from tests.sandboxes.memory import run_by_heart
from tests.sandboxes.subject import Ability, Stage, Subject

_ABI_OF_PORTS = 4
IMAGE = "visual-coding-opencode"


def settings_for(server: FakeOpenSandbox, **changes: object) -> OpenSandboxConfig:
    return OpenSandboxConfig.model_validate(block_for(server) | changes)


def block_for(server: FakeOpenSandbox) -> JsonObject:
    return {"domain": server.address, "api_key": API_KEY, "image": IMAGE}


async def by_heart(name: str, body: dict[str, object]) -> Inside:
    return MemoryInside(run_by_heart)


@asynccontextmanager
async def open_by_heart(folder: Path) -> AsyncIterator[Stage]:
    async with open_opensandbox(by_heart) as server, _staged(server) as stage:
        yield stage


@asynccontextmanager
async def open_with_boxes(folder: Path) -> AsyncIterator[Stage]:
    boxes = LocalProvider(LocalSandboxConfig(state_dir=str(folder / "state")))
    try:
        await boxes.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))

    async def make(name: str, body: dict[str, object]) -> Inside:
        limits = body["resourceLimits"]
        assert isinstance(limits, dict)
        return await BoxInside.open(boxes, name, int(limits["memory"].removesuffix("Mi")))

    try:
        async with open_opensandbox(make) as server, _staged(server) as stage:
            yield stage
    finally:
        await boxes.aclose()


@asynccontextmanager
async def _staged(server: FakeOpenSandbox) -> AsyncIterator[Stage]:
    async def vanish(sandbox: Sandbox) -> None:
        assert isinstance(sandbox, OpenSandbox)
        await server.vanish(sandbox.remote_id)

    provider = OpenSandboxProvider(settings_for(server))
    try:
        yield Stage(provider, block={"opensandbox": block_for(server)}, vanish=vanish)
    finally:
        await provider.aclose()


@asynccontextmanager
async def open_real(folder: Path) -> AsyncIterator[Stage]:
    if ADDRESS not in os.environ:
        pytest.skip(os.environ.get(WHY_NONE, "no OpenSandbox server for tests: `make test-opensandbox` starts one"))
    block: JsonObject = {"domain": os.environ[ADDRESS], "api_key": os.environ[KEY], "image": SANDBOX_IMAGE}
    engine = client(os.environ[DOCKER])

    async def vanish(sandbox: Sandbox) -> None:
        assert isinstance(sandbox, OpenSandbox)
        await asyncio.to_thread(engine.remove_container, f"sandbox-{sandbox.remote_id}", force=True)

    provider, gateway = OpenSandboxProvider(OpenSandboxConfig.model_validate(block)), gateway_of(engine)
    try:
        yield Stage(
            provider,
            block={"opensandbox": block},
            vanish=vanish,
            model_host=gateway,
            network="host",
            open_beside=not has_landlock(),
            pids=PIDS,
            weaker=_WEAKER if has_landlock() else {**_WEAKER, f"tcp decoy at {gateway}": _EVERY_PORT},
        )
    finally:
        await provider.aclose()
        engine.close()


def has_landlock() -> bool:
    """Whether this kernel, which the containers share, can hold a process to one TCP port."""
    return int(ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)) >= _ABI_OF_PORTS


def gateway_of(engine: docker.APIClient) -> str:
    """The engine's machine, as containers see it."""
    subnet = engine.inspect_network("bridge")["IPAM"]["Config"][0]["Subnet"]
    return str(ipaddress.ip_network(subnet)[1])


_NO_PROGRAMS = "its sandboxes are in memory and run no programs"
_NO_NETWORK = "the faked server's sandboxes have no network of their own"
NO_SIZE = "OpenSandbox has no word for the size of a workspace; single files are bounded"
_MADE = "its server's engine makes a folder that is not there, an empty one"
_NO_MOUNTS = "the faked server mounts nothing"

_EVERY_PORT = "it lets through every port of an address; tests/live/test_opensandbox.py shows what the look makes of it"
_SLOW_END = "its server takes seconds to end one; tests/live/test_opensandbox.py waits for it"

_PROFILE = "what the engine's own system-call filter lets through; ours is not there"
_WEAKER = {
    "vsock": _PROFILE,
    "io_uring": _PROFILE,
    "no CapBnd": "those that the server drops are gone; no new privileges means that none of the others can be had",
    "quota of /workspace": NO_SIZE,
    "quota of /tmp": NO_SIZE,
}

OPENSANDBOX = Subject(
    "opensandbox",
    open_real,
    lacks={
        Ability.MISSING_MOUNTS: _MADE,
        Ability.MODEL_ONLY: _EVERY_PORT,
        Ability.SIZED_WORKSPACE: NO_SIZE,
        Ability.SHORT_TTL: _SLOW_END,
    },
    mark="opensandbox",
)
OPENSANDBOX_BY_HEART = Subject(
    "opensandbox by heart",
    open_by_heart,
    lacks=dict.fromkeys(set(Ability) - {Ability.LIST, Ability.SHORT_TTL}, _NO_PROGRAMS),
    is_live=False,
)
OPENSANDBOX_FAKED = Subject(
    "opensandbox faked",
    open_with_boxes,
    lacks={
        Ability.MODEL: _NO_NETWORK,
        Ability.MODEL_ONLY: _NO_NETWORK,
        Ability.MOUNTS: _NO_MOUNTS,
        Ability.MISSING_MOUNTS: _NO_MOUNTS,
        Ability.SIZED_WORKSPACE: NO_SIZE,
    },
)
