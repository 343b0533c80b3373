"""A real server on a loopback port inside a test's own event loop."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import uvicorn
from starlette.types import ASGIApp

from gym_core.http.whole_body import WholeBodyProtocol


@contextlib.asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[str]:
    """Base URL of the app, served until the block ends."""
    # Named, as asyncio sends without delay only where it knows that it is TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", ws="none", timeout_graceful_shutdown=1,
        http=WholeBodyProtocol,
    )  # fmt: skip
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # the test runner keeps its own
    task = asyncio.create_task(server._serve([listener]))  # without capture_signals: same reason
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn offers a flag and no event
            await asyncio.sleep(0.002)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()
