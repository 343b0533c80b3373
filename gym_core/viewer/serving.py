"""The viewer's server in this process, on this machine's own address alone."""

import asyncio
import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING

from gym_core.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI

LOOPBACK = "127.0.0.1"
GRACEFUL_SHUTDOWN_S = 2
_BACKLOG = 128


def listen(port: int) -> socket.socket:
    """Bound to 127.0.0.1; 0 takes a free port. Raises ConfigError."""
    # TCP by name: asyncio turns off the delay of small writes, 40 ms a reply, only on sockets that say so.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise ConfigError(f"view: --port {port}: cannot listen on {LOOPBACK}: {error}") from error
    listener.listen(_BACKLOG)
    return listener


def serve(app: "FastAPI", listener: socket.socket) -> None:
    """Until Ctrl-C or SIGTERM."""
    import uvicorn

    config = uvicorn.Config(
        app, http="httptools", ws="none", lifespan="on", log_config=None, access_log=False, server_header=False,
        timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_S, proxy_headers=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    # A thread that still reads a slow disk is not waited for: it writes nothing.
    end = threading.Timer(GRACEFUL_SHUTDOWN_S, os._exit, (0,))
    end.daemon = True

    async def serve_until_told() -> None:
        try:
            await server.serve(sockets=[listener])
        finally:
            end.start()

    try:
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn sends itself the signal once more when it has ended
            asyncio.run(serve_until_told())
    finally:
        end.cancel()
