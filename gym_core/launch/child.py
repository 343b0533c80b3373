"""One server in this process: from a slice and a listening socket to a running uvicorn."""

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import uvicorn
import uvloop
from fastapi import FastAPI

from gym_core.config.blocks import CheckedConfig
from gym_core.config.roots import Roots, ServerType
from gym_core.errors import ConfigError
from gym_core.http.client import HttpPool
from gym_core.http.whole_body import WholeBodyProtocol
from gym_core.launch.children import HEAD
from gym_core.launch.listeners import BACKLOG, bind, external_urls
from gym_core.launch.logs import log_to
from gym_core.launch.plan import RUN_TOKEN_VARIABLE, cut_slice, head_slice
from gym_core.launch.state import default_state_dir
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.plugins import server_class

GRACEFUL_SHUTDOWN_S = 5
HARD_EXIT_S = 10
"""After SIGTERM, whatever still hangs."""


def run_child(name: str, fds: Sequence[int], control: socket.socket | None) -> int:
    """Body of a forked child: descriptors are the slice, the log, the listening socket and, for the head, the slice and
    the listening socket of every server. Returns the exit code."""
    slice_fd, log_fd, listener_fd, *others = fds
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.close(log_fd)
    log_to(sys.stderr, name)
    content = _read_all(slice_fd)
    listener = socket.socket(fileno=listener_fd)
    if name == HEAD:
        from gym_core.launch.head import head_app

        if control is None:
            raise ValueError("the head server needs a control socket")
        app = head_app(content, control, others)
    else:
        app = server_app(ServerSlice.model_validate_json(content))
    return serve(app, listener)


def serve_instance(checked: CheckedConfig, name: str, *, host: str | None, port: int | None) -> int:
    """One server of a configuration, alone in this process, until SIGTERM; the others are somebody else's to start.

    All of them share the token in `GYM_RUN_TOKEN`. Raises ConfigError.
    """
    token = os.environ.get(RUN_TOKEN_VARIABLE)
    if not token:
        raise ConfigError(f"serve: set {RUN_TOKEN_VARIABLE}, the one token that all servers of this gym share")
    log_to(sys.stderr, name)
    urls = external_urls(checked)
    state_dir = default_state_dir()
    with contextlib.ExitStack() as undo:
        block = None if name == HEAD else checked.blocks[name]
        own_host = checked.run.head.host if name == HEAD else getattr(block, "host", None)
        own_port = checked.run.head.port if name == HEAD else getattr(block, "port", None)
        listener = bind(host or own_host or checked.run.launch.default_host, port or own_port or 0, name, undo)
        urls.setdefault(name, listener.url)  # a server that no environment here uses has none
        tokens = dict.fromkeys(urls, token)
        if name == HEAD:
            from gym_core.launch.head import Head

            part = head_slice(
                checked, urls, tokens, url=listener.url, state_dir=state_dir, argv=sys.argv, run_token=token
            )
            app = Head(part).make_app()
        else:
            app = server_app(cut_slice(checked, name, urls, tokens, state_dir))
        logging.getLogger(__name__).info("serving", extra={"url": listener.url})
        return serve(app, listener.socket)


def server_app(part: ServerSlice) -> FastAPI:
    """The app of one plugin server. Starts nothing."""
    # Not looked up here: a nursery may have been started before the command line was read.
    roots = Roots(tuple(map(Path, part.roots)))
    found = server_class(ServerType(part.type), part.implementation, roots)
    config = found.config_type.model_validate(part.block)
    return found(config, ServerContext(part, HttpPool())).make_app()


def serve(app: FastAPI, listener: socket.socket) -> int:
    """Serve until SIGTERM or SIGINT and finish what is in flight for a few seconds. 0; 3 when it could not start."""
    config = uvicorn.Config(
        app, loop="none", http=WholeBodyProtocol, ws="none", lifespan="on", log_config=None, access_log=False,
        timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_S, timeout_keep_alive=75, backlog=BACKLOG, server_header=False,
        date_header=False, proxy_headers=False,
    )  # fmt: skip
    server = _Server(config)

    uvloop.run(server.serve(sockets=[listener]))
    return 0 if server.started else 3


class _Server(uvicorn.Server):
    """Told to end, it ends with code 0; uvicorn would end by the signal once more. It ends in time, too: a close that
    hangs (a provider's, say) must not keep a gym that was told to end."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            # A thread, because the loop's own end may be what hangs.
            timer = threading.Timer(HARD_EXIT_S, _exit_hard)
            timer.daemon = True
            timer.start()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def _exit_hard() -> None:
    logging.getLogger(__name__).error("did not stop in time", extra={"seconds": HARD_EXIT_S})
    os.kill(os.getpid(), signal.SIGKILL)


def _read_all(fd: int) -> bytes:
    # pread: the descriptor is shared with whoever may fork this server again, and so is its offset.
    try:
        return os.pread(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)
