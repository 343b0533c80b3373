"""The lifecycle server of the faked OpenSandbox: makes, lists, renews and kills sandboxes."""

import asyncio
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.fakes.opensandbox.daemon import Daemon, DaemonFaults
from tests.fakes.opensandbox.insides import Inside
from tests.fakes.serving import serving

API_KEY = "osb-secret-key"
_SHORTEST_TIMEOUT_S = 60
_LABEL = re.compile(r"(([A-Za-z0-9][A-Za-z0-9_.-]{0,61})?[A-Za-z0-9])?", re.ASCII)

MakeInside = Callable[[str, dict[str, object]], Awaitable[Inside]]
"""From a sandbox's id and the body of its creation."""


@dataclass
class Record:
    id: str
    body: dict[str, object]
    daemon: Daemon
    created_at: float
    expires_at: float | None
    state: str = "Running"


@dataclass
class FakeOpenSandbox:
    """Its switches are what real servers were seen to do; what was asked of it is kept."""

    make_inside: MakeInside
    address: str = ""
    """host:port, while it is open."""
    records: dict[str, Record] = field(default_factory=dict)
    creations: list[dict[str, object]] = field(default_factory=list)
    renewals: list[str] = field(default_factory=list)
    kills: list[str] = field(default_factory=list)
    other_requests: list[str] = field(default_factory=list)
    faults: DaemonFaults = field(default_factory=DaemonFaults)
    """Of all its sandboxes' daemons."""
    egress_mode: str = "dns+nft"
    extra_rules: list[dict[str, str]] = field(default_factory=list)
    """What the sidecar enforces besides what was asked for."""
    lost_replies: int = 0
    """So many creations make a sandbox and answer 504, as a gateway does before a slow server."""
    late: float = 0.0
    """Seconds that a creation takes."""
    collisions: int = 0
    """So many creations answer 500 and make none: the server's random host ports."""
    refused_kills: int = 0
    """So many kills answer 500."""
    silent_at: str | None = None
    """A pattern of "METHOD path": such requests, to sandboxes' daemons too, are accepted and never answered."""
    broken_at: str | None = None
    """A pattern of the same kind: such requests are answered with 502."""
    unanswered: list[str] = field(default_factory=list)
    makes_at_once: int = 0
    most_at_once: int = 0
    data_prefix: bool = True
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """What has no answer holds its connection until then."""

    def app(self) -> Starlette:
        async def routed(request: Request) -> Response:
            return await self._answer(request)

        methods = ["GET", "POST", "DELETE", "PATCH", "PUT"]
        return Starlette(routes=[Route("/{path:path}", routed, methods=methods)])

    async def close(self) -> None:
        self.closing.set()
        await asyncio.gather(*(self.vanish(remote_id) for remote_id in list(self.records)))

    async def vanish(self, remote_id: str) -> None:
        """The sandbox ends, as by a crash or an administrator."""
        record = self.records.pop(remote_id, None)
        if record:
            await record.daemon.close()

    async def _answer(self, request: Request) -> Response:
        parts = request.path_params["path"].split("/")
        asked = f"{request.method} {request.path_params['path']}"
        if self.silent_at and re.fullmatch(self.silent_at, asked):
            self.unanswered.append(asked)
            await self.closing.wait()
            return Response(status_code=503)
        if self.broken_at and re.fullmatch(self.broken_at, asked):
            return Response(status_code=502)
        if parts[0] == "inside":
            return await self._in_sandbox(request, parts)
        if request.headers.get("open-sandbox-api-key") != API_KEY:
            return _error(401, "INVALID_API_KEY", "Authentication credentials are invalid.")
        match (request.method, parts):
            case ("POST", ["v1", "sandboxes"]):
                return await self._create(json.loads(await request.body()))
            case ("GET", ["v1", "sandboxes"]):
                return self._list(request)
            case (_, ["v1", "sandboxes", remote_id, *rest]):
                record = self.records.get(remote_id)
                if record is None:
                    return _error(404, "DOCKER::SANDBOX_NOT_FOUND", f"Sandbox {remote_id} not found.")
                return await self._about(request, record, rest)
        self.other_requests.append(f"{request.method} {request.url.path}")
        return _error(404, "NOT_FOUND", request.url.path)

    async def _in_sandbox(self, request: Request, parts: list[str]) -> Response:
        _, remote_id, _, port, *rest = parts  # inside/ID/proxy/PORT/...
        record = self.records.get(remote_id)
        if record is None:  # its port is nobody's any more; the nearest that HTTP on a shared port can say
            return Response(status_code=502)
        return await record.daemon.answer(request, port, "/".join(rest))

    async def _create(self, body: dict[str, object]) -> Response:
        if refusal := _refusal_of(body):
            return refusal
        self.creations.append(body)
        if self.collisions:
            self.collisions -= 1
            return _error(500, "DOCKER::SANDBOX_START_FAILED", "driver failed: port is already allocated")
        self.makes_at_once += 1
        self.most_at_once = max(self.most_at_once, self.makes_at_once)
        try:
            if self.late:
                await asyncio.sleep(self.late)
            record = await self._make(body)
        finally:
            self.makes_at_once -= 1
        if self.lost_replies:
            self.lost_replies -= 1
            return _error(504, "GATEWAY_TIMEOUT", "upstream request timeout")
        return JSONResponse(_described(record), 202)

    async def _make(self, body: dict[str, object]) -> Record:
        remote_id = secrets.token_hex(16)
        asked = body.get("networkPolicy")
        assert isinstance(asked, dict)
        inside = await self.make_inside(remote_id, body)
        policy = {**asked, "egress": [*(asked.get("egress") or []), *self.extra_rules]}
        daemon = Daemon(inside, policy, self.egress_mode, self.faults, self.data_prefix)
        timeout, now = body["timeout"], time.time()
        assert isinstance(timeout, int)
        record = self.records[remote_id] = Record(remote_id, body, daemon, now, now + timeout)
        return record

    def _list(self, request: Request) -> Response:
        # The server decodes the parameter once more: keys and values may hold "&" and "=".
        wanted = dict(parse_qsl(request.query_params.get("metadata", "")))
        page, size = (int(request.query_params.get(name, default)) for name, default in (("page", 1), ("pageSize", 20)))
        found = [r for r in self.records.values() if wanted.items() <= _metadata_of(r).items()]
        pages = -(-len(found) // size)
        pagination = {
            "page": page,
            "pageSize": size,
            "totalItems": len(found),
            "totalPages": pages,
            "hasNextPage": page < pages,
        }
        items = [_described(record) for record in found[(page - 1) * size : page * size]]
        return JSONResponse({"items": items, "pagination": pagination})

    async def _about(self, request: Request, record: Record, rest: list[str]) -> Response:
        match (request.method, rest):
            case ("GET", []):
                return JSONResponse(_described(record))
            case ("DELETE", []):
                if self.refused_kills:
                    self.refused_kills -= 1
                    return _error(500, "DOCKER::SANDBOX_DELETE_FAILED", "container is busy")
                self.kills.append(record.id)
                await self.vanish(record.id)
                return Response(status_code=204)
            case ("POST", ["renew-expiration"]):
                record.expires_at = datetime.fromisoformat(json.loads(await request.body())["expiresAt"]).timestamp()
                self.renewals.append(record.id)
                return JSONResponse({"expiresAt": _stamp(record.expires_at)})
            case ("GET", ["endpoints", port]):
                return JSONResponse({"endpoint": f"{self.address}/inside/{record.id}/proxy/{port}", "headers": {}})
        self.other_requests.append(f"{request.method} {request.url.path}")
        return _error(404, "NOT_FOUND", request.url.path)


@asynccontextmanager
async def open_opensandbox(make_inside: MakeInside) -> AsyncIterator[FakeOpenSandbox]:
    server = FakeOpenSandbox(make_inside)
    async with serving(server.app()) as url:
        server.address = url.removeprefix("http://")
        try:
            yield server
        finally:
            await server.close()


def _refusal_of(body: dict[str, object]) -> Response | None:
    metadata = body.get("metadata") or {}
    assert isinstance(metadata, dict)
    for key, value in metadata.items():
        if len(value) > 63 or not _LABEL.fullmatch(value) or not _LABEL.fullmatch(key) or len(key) > 63:
            return _error(400, "SANDBOX::INVALID_METADATA_LABEL", f"Metadata {key}={value!r} is invalid")
    timeout = body.get("timeout")
    if not isinstance(timeout, int) or timeout < _SHORTEST_TIMEOUT_S:
        return _error(422, "VALIDATION_ERROR", f"timeout {timeout!r} is not >= {_SHORTEST_TIMEOUT_S}")
    if body.get("secureAccess"):
        return _error(400, "SANDBOX::INVALID_PARAMETER", "secureAccess is not supported when runtime.type='docker'.")
    image = body.get("image")
    if not isinstance(image, dict) or str(image.get("uri", "")).startswith("no/"):
        return _error(500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED", f"Failed to pull image {image!r}")
    return None


def _described(record: Record) -> dict[str, object]:
    described: dict[str, object] = {
        "id": record.id,
        "status": {"state": record.state, "lastTransitionAt": _stamp(record.created_at)},
        "createdAt": _stamp(record.created_at),
        "metadata": _metadata_of(record),
        "entrypoint": record.body.get("entrypoint") or ["tail", "-f", "/dev/null"],
        "image": record.body["image"],
    }
    return described | ({"expiresAt": _stamp(record.expires_at)} if record.expires_at else {})


def _metadata_of(record: Record) -> dict[str, str]:
    metadata = record.body.get("metadata") or {}
    assert isinstance(metadata, dict)
    return metadata


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")


def _error(status: int, code: str, message: str) -> Response:
    return JSONResponse({"code": code, "message": message}, status)
