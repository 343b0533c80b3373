"""The routes under which a lent sandbox is used from another process. Each checks the lease's own token."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gym_core.errors import EpisodeError
from gym_core.http.app import first_mistakes
from gym_core.http.auth import bearer_token
from gym_core.http.departure import caller_gone
from gym_core.http.problem import BAD_REQUEST, problem_response, response_of
from gym_core.sandbox.contract import Launch, Sandbox
from gym_core.sandbox.exec_frames import BEAT, OutputFrame, ResultFrame, line
from gym_core.sandbox.lease import LeaseTable
from gym_core.types.wire import Wire

if TYPE_CHECKING:
    from fastapi import FastAPI

_BEAT_S = 15.0
"""A silent command's reply gets an empty line this often, so that a broken connection is seen by both ends."""

_MAX_OUTPUT_BYTES = 256 << 20
"""Output waits in memory when the borrower reads slowly; a command may ask for no more than this."""

_Endpoint = Callable[[Request], Awaitable[Response]]


class LeaseStatus(Wire):
    alive: bool
    seconds_left: float
    """Until the lease ends, if it is not used."""


class _WriteQuery(Wire):
    mode: str = Field(default="644", pattern="^[0-7]{3,4}$")
    """Octal."""


class _ReadQuery(Wire):
    max_bytes: int = Field(default=64 << 20, ge=0)


def add_lease_routes(app: "FastAPI", table: LeaseTable) -> None:
    """`/v1/sandboxes/{lease}/...`; put that prefix among the app's `own_paths`."""
    routes = _LeaseRoutes(table)
    base = "/v1/sandboxes/{lease}"
    for method, path, endpoint in (
        ("POST", "/exec", routes.exec),
        ("PUT", "/files/{path:path}", routes.write),
        ("GET", "/files/{path:path}", routes.read),
        ("POST", "/renew", routes.renew),
        ("GET", "", routes.status),
        ("DELETE", "", routes.release),
    ):
        app.add_api_route(
            base + path, _answering(endpoint), methods=[method], response_model=None, name=endpoint.__name__
        )


class _LeaseRoutes:
    def __init__(self, table: LeaseTable) -> None:
        self._table = table

    async def exec(self, request: Request) -> Response:
        """Body: a `Launch`. Reply: lines as in `exec_frames`. A borrower that hangs up ends the command."""
        self._table.redeem(*_credentials(request))
        launch = Launch.model_validate_json(await request.body())
        if launch.output_cap_bytes > _MAX_OUTPUT_BYTES:
            raise ValueError(f"output_cap_bytes: {launch.output_cap_bytes} is more than {_MAX_OUTPUT_BYTES}")
        return _ExecReply(self._table, _credentials(request), launch)

    async def write(self, request: Request) -> Response:
        with self._table.using(*_credentials(request)) as sandbox:
            query = _WriteQuery.model_validate(dict(request.query_params))
            await sandbox.write(_path(request), await request.body(), int(query.mode, 8))
        return Response(status_code=204)

    async def read(self, request: Request) -> Response:
        with self._table.using(*_credentials(request)) as sandbox:
            query = _ReadQuery.model_validate(dict(request.query_params))
            content = await sandbox.read(_path(request), query.max_bytes)
        return Response(content, media_type="application/octet-stream")

    async def renew(self, request: Request) -> Response:
        await self._table.renew(*_credentials(request))
        return await self.status(request)

    async def status(self, request: Request) -> Response:
        credentials = _credentials(request)
        alive = await self._table.is_alive(*credentials)
        return _json(LeaseStatus(alive=alive, seconds_left=self._table.seconds_left(*credentials)))

    async def release(self, request: Request) -> Response:
        await self._table.give_back(*_credentials(request))
        return Response(status_code=204)


class _ExecReply(Response):
    """Streams one command's output. Plain ASGI, to hear that the client has gone while the command is silent."""

    def __init__(self, table: LeaseTable, credentials: tuple[str, str], launch: Launch) -> None:
        super().__init__(media_type="application/x-ndjson")
        del self.headers["content-length"]
        self._table = table
        self._credentials = credentials
        self._launch = launch
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._table.using(*self._credentials) as sandbox:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            running = asyncio.ensure_future(self._run(sandbox))
            leaving = asyncio.ensure_future(caller_gone(receive))
            sending = asyncio.ensure_future(self._send(send))
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (running, leaving, sending):
                    task.cancel()
                await asyncio.gather(running, leaving, sending, return_exceptions=True)

    async def _run(self, sandbox: Sandbox) -> None:
        def put(stream: Literal["stdout", "stderr"], data: bytes) -> None:
            self._lines.put_nowait(line(OutputFrame(stream=stream, data=data)))

        try:
            last = line(ResultFrame.of(await sandbox.exec(self._launch, put)))
        except Exception as error:  # noqa: BLE001 - the edge of the route: the error is the reply's last line
            last = bytes(response_of(error).body) + b"\n"
        self._lines.put_nowait(last)
        self._lines.put_nowait(b"")

    async def _send(self, send: Send) -> None:
        while True:
            try:
                async with asyncio.timeout(_BEAT_S):
                    text = await self._lines.get()
            except TimeoutError:
                text = BEAT
            await send({"type": "http.response.body", "body": text, "more_body": bool(text)})
            if not text:
                return


def _answering(endpoint: _Endpoint) -> _Endpoint:
    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ValidationError as error:
            return problem_response(422, BAD_REQUEST, first_mistakes(error))
        except (EpisodeError, OSError, ValueError) as error:
            return response_of(error)

    return answer


def _credentials(request: Request) -> tuple[str, str]:
    lease_id: str = request.path_params["lease"]
    return lease_id, bearer_token(request.headers.raw) or ""


def _path(request: Request) -> str:
    path: str = request.path_params["path"]
    return "/" + path.lstrip("/")


def _json(reply: Wire) -> Response:
    return Response(reply.model_dump_json(), media_type="application/json")
