"""Some servers of a configuration inside this process, for a look at them: no head server, no children."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from gym_core.config.blocks import CheckedConfig
from gym_core.errors import TransportError
from gym_core.http.auth import new_token
from gym_core.http.client import HttpPool, ServiceClient
from gym_core.launch.child import server_app
from gym_core.launch.listeners import Listener, listen
from gym_core.launch.plan import cut_slice
from gym_core.servers.resources import ResourcesServerConfig

_STARTED_POLL_S = 0.01


@contextlib.asynccontextmanager
async def serving_parts(
    checked: CheckedConfig, names: Sequence[str], *, state_dir: Path
) -> AsyncIterator[Callable[[str], ServiceClient]]:
    """Clients of those servers by name, while they are up; what they refer to must be among them, or is never called.

    Resources servers lend no sandbox. Raises ConfigError for an address that cannot be had, TransportError for a
    server that does not start.
    """
    checked = without_sandboxes(checked)
    async with contextlib.AsyncExitStack() as stack:
        undo = stack.enter_context(contextlib.ExitStack())
        listeners = {name: listen(checked, checked.run.servers[name], undo) for name in names}
        urls = {name: "http://127.0.0.1:1" for name in checked.run.servers}
        urls |= {name: listener.url for name, listener in listeners.items()}
        tokens = {name: new_token() for name in checked.run.servers}
        for name, listener in listeners.items():
            app = server_app(cut_slice(checked, name, urls, tokens, state_dir))
            await stack.enter_async_context(_served(app, listener, name))
        pool = await stack.enter_async_context(HttpPool())
        yield lambda name: pool.service(urls[name], tokens[name])


def without_sandboxes(checked: CheckedConfig) -> CheckedConfig:
    """The configuration with resources servers that grade and lend nothing."""
    alone = {"sandbox_provider": None, "sandbox_network_access": "none"}
    blocks = {
        name: block.model_copy(update=alone) if isinstance(block, ResourcesServerConfig) else block
        for name, block in checked.blocks.items()
    }
    return replace(checked, blocks=blocks)


class _Server(uvicorn.Server):
    """Leaves the signals of this process alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def _served(app: FastAPI, listener: Listener, name: str) -> AsyncIterator[None]:
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", ws="none", timeout_graceful_shutdown=1
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener.socket]), name=f"serve-{name}")
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn offers a flag and no event
            await asyncio.sleep(_STARTED_POLL_S)
        if not server.started:
            raise TransportError(f"server {name!r} did not start")
        yield
    finally:
        server.should_exit = True
        await asyncio.wait({task})
