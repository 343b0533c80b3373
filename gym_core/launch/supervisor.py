"""Keeps the servers of a gym running: starts them, waits until they are ready, starts a crashed one again."""

import asyncio
import logging
import os
import signal
import time
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from gym_core.http.client import HttpPool
from gym_core.launch.children import ChildExit, Children
from gym_core.launch.logs import log_tail

log = logging.getLogger(__name__)

READY_TIMEOUT_S = 60.0
READY_POLL_S = 0.01
PROBE_TIMEOUT_S = 0.5
"""Short: a server that died is noticed between two probes, and the next probe costs nothing."""
RESTART_PAUSES_S = (0.1, 0.5, 2.0, 5.0)
MAX_RESTARTS = 5
RESTART_WINDOW_S = 300.0
"""More restarts than that within the window and a server is given up."""


START_ERROR_FILE = "start_error.txt"
"""In a gym's state folder: why its servers did not start, for whoever started it."""


class ServerStatus(StrEnum):
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"


@dataclass
class Supervised:
    """One server as its supervisor sees it."""

    name: str
    url: str
    fds: tuple[int, int]
    """Its slice and its listening socket; held here too, so that calls queue while it is started again."""
    log_path: Path
    pid: int | None = None
    status: ServerStatus = ServerStatus.STARTING
    started_at: float = 0.0
    restarts: deque[float] = field(default_factory=deque)
    """Monotonic times of recent ones."""


class StartError(Exception):
    """A server did not become ready; the message has the end of its log."""


class Supervisor:
    def __init__(self, children: Children, servers: list[Supervised], pool: HttpPool) -> None:
        self.servers = {server.name: server for server in servers}
        self._children = children
        self._pool = pool
        self._restarting: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def start(self) -> None:
        """All at once; returns when all are ready. Raises StartError."""
        await asyncio.gather(*(self._start(server) for server in self.servers.values()))

    def stop(self) -> None:
        """From now on an exit is an exit."""
        self._stopping = True
        for task in self._restarting:
            task.cancel()

    def failed(self) -> list[str]:
        return [server.name for server in self.servers.values() if server.status is ServerStatus.FAILED]

    def on_exit(self, exit_: ChildExit) -> None:
        server = self.servers.get(exit_.name)
        if server is None or server.pid != exit_.pid or self._stopping:
            return
        server.pid = None
        if server.status is ServerStatus.STARTING:
            server.status = ServerStatus.FAILED
            return
        log.warning("server exited", extra={"name_": server.name, "code": exit_.code, "pid": exit_.pid})
        task = asyncio.get_running_loop().create_task(self._restart(server), name=f"restart-{server.name}")
        self._restarting.add(task)
        task.add_done_callback(self._restarting.discard)

    async def _start(self, server: Supervised) -> None:
        server.status, server.started_at = ServerStatus.STARTING, time.time()
        await self._fork(server)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not await self._is_ready(server):
            if server.status is ServerStatus.FAILED or time.monotonic() > deadline:
                server.status = ServerStatus.FAILED
                self._kill(server)
                raise StartError(
                    f"server {server.name!r} did not start; {server.log_path}:\n{log_tail(server.log_path)}"
                )
            await asyncio.sleep(READY_POLL_S)
        server.status = ServerStatus.READY

    async def _restart(self, server: Supervised) -> None:
        """Until it is ready again, or was restarted too often."""
        while self._count_restarts(server) < MAX_RESTARTS:
            server.status = ServerStatus.RESTARTING
            await asyncio.sleep(RESTART_PAUSES_S[min(len(server.restarts), len(RESTART_PAUSES_S) - 1)])
            server.restarts.append(time.monotonic())
            try:
                await self._start(server)
            except StartError as error:
                log.error("server did not start again", extra={"name_": server.name, "reason": str(error)})
            except ConnectionError as error:
                self._give_up(server, str(error))
                return
            else:
                log.info("server started again", extra={"name_": server.name, "pid": server.pid})
                return
        self._give_up(server, f"{MAX_RESTARTS} restarts within {RESTART_WINDOW_S:g} s")

    def _count_restarts(self, server: Supervised) -> int:
        now = time.monotonic()
        while server.restarts and now - server.restarts[0] > RESTART_WINDOW_S:
            server.restarts.popleft()
        return len(server.restarts)

    def _kill(self, server: Supervised) -> None:
        if server.pid is not None:
            self._children.signal(server.pid, signal.SIGKILL)
            server.pid = None

    def _give_up(self, server: Supervised, reason: str) -> None:
        """Calls are refused from now on; nobody waits for a server that will not come."""
        server.status = ServerStatus.FAILED
        os.close(server.fds[1])
        log.error("server given up", extra={"name_": server.name, "reason": reason})

    async def _fork(self, server: Supervised) -> None:
        server.log_path.parent.mkdir(parents=True, exist_ok=True)
        log_fd = os.open(server.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        slice_fd, listener_fd = server.fds
        try:
            server.pid = await self._children.fork(server.name, [slice_fd, log_fd, listener_fd])
        finally:
            os.close(log_fd)

    async def _is_ready(self, server: Supervised) -> bool:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S), self._pool.session.get(f"{server.url}/readyz") as response:
                return response.status == 200
        except (OSError, TimeoutError):
            return False
