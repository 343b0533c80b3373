"""A lender for tests: a real server on loopback that lends any sandboxes, and the borrower's side of them."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from fastapi import FastAPI

from gym_core.http.client import HttpPool
from gym_core.sandbox.contract import Sandbox
from gym_core.sandbox.lease import LeaseTable
from gym_core.sandbox.lease_routes import add_lease_routes
from gym_core.sandbox.leased import LeasedSandbox
from gym_core.types.session import SandboxLease


class _QuietServer(uvicorn.Server):
    """Leaves signals alone, and stops at once instead of at the next tenth of a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()

    async def main_loop(self) -> None:
        await self.stopping.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Lender:
    def __init__(self, url: str, table: LeaseTable, pool: HttpPool) -> None:
        self.url = url
        self.table = table
        self._pool = pool

    def lend(self, sandbox: Sandbox, ttl_s: float = 60.0) -> LeasedSandbox:
        lease = self.lease(sandbox, ttl_s)
        return LeasedSandbox(lease, self._pool.service(self.url, lease.token))

    def lease(self, sandbox: Sandbox, ttl_s: float = 60.0) -> SandboxLease:
        grant = self.table.lend(sandbox, ttl_s=ttl_s)
        return SandboxLease(
            lease_id=grant.lease_id,
            url=self.url,
            token=grant.token,
            expires_at=grant.expires_at,
            workdir=sandbox.workdir,
            model_url=sandbox.model_url,
            enforced=sandbox.enforced,
        )


@contextlib.asynccontextmanager
async def open_lender(table: LeaseTable | None = None) -> AsyncIterator[Lender]:
    app, table = FastAPI(), table or LeaseTable()
    add_lease_routes(app, table)
    server = _QuietServer(uvicorn.Config(app, log_config=None, lifespan="off", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.002)
        try:
            async with HttpPool() as pool:
                yield Lender(f"http://127.0.0.1:{listener.getsockname()[1]}", table, pool)
        finally:
            await table.stop()
            server.force_exit = True
            server.stopping.set()
            await serving
