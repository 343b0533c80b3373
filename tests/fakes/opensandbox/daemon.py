"""The daemon in each faked sandbox, and the sidecar beside it: their HTTP, word by word as the SDK reads it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from tests.fakes.opensandbox.insides import Inside

_ids = count(1)


@dataclass
class DaemonFaults:
    """Each is what a real daemon, or something before it, was seen to do."""

    streams_cut: int = 0
    """So many commands' streams end after their first event."""
    streams_mute: int = 0
    """So many commands' output does not come."""
    silent: int = 0
    """So many commands start and say nothing for ever."""
    uploads_lost: int = 0
    """So many uploads are reported as done and are not there."""
    uploads_cut: int = 0
    """The same, of which half is there."""
    nonsense: int = 0
    """So many commands' streams hold something else than what the program wrote."""
    stderr: str = ""
    """What each command says besides."""
    exit_code: int | None = None
    """What each command ends with, whatever it did."""


@dataclass
class Daemon:
    inside: Inside
    policy: dict[str, object]
    egress_mode: str = "dns+nft"
    faults: DaemonFaults = field(default_factory=DaemonFaults)
    data_prefix: bool = True
    """Whether events have the "data: " that older daemons leave out."""
    interrupted: list[str] = field(default_factory=list)
    keys_seen: set[str] = field(default_factory=set)
    """API keys that came along: none may, in direct mode."""
    uids: set[int] = field(default_factory=set)
    """Who commands were asked to be."""
    commands: dict[str, asyncio.Task[int]] = field(default_factory=dict)

    async def answer(self, request: Request, port: str, path: str) -> Response:
        if key := request.headers.get("open-sandbox-api-key"):
            self.keys_seen.add(key)
        match (port, request.method, path):
            case ("18080", "GET", "policy"):
                return JSONResponse(
                    {"status": "ok", "mode": "deny_all", "enforcementMode": self.egress_mode, "policy": self.policy}
                )
            case ("44772", "GET", "ping"):
                return JSONResponse({})
            case ("44772", "POST", "command"):
                body = json.loads(await request.body())
                return StreamingResponse(self._events(body), media_type="text/event-stream")
            case ("44772", "DELETE", "command"):
                return self._interrupt(request.query_params["id"])
            case ("44772", "DELETE", "files"):
                for name in request.query_params.getlist("path"):
                    await self.inside.remove(name)
                return Response(status_code=200)
            case ("44772", "POST", "files/upload"):
                return await self._upload(request)
        return JSONResponse({"code": "NOT_FOUND", "message": path}, 404)

    async def close(self) -> None:
        for task in self.commands.values():
            task.cancel()
        await asyncio.gather(*self.commands.values(), return_exceptions=True)
        await self.inside.close()

    def _interrupt(self, command: str) -> Response:
        self.interrupted.append(command)
        if command not in self.commands:
            return JSONResponse({"code": "NOT_FOUND", "message": command}, 400)
        self.commands[command].cancel()
        return Response(status_code=200)

    async def _events(self, body: dict[str, Any]) -> AsyncIterator[bytes]:  # Any: parsed JSON
        faults, command = self.faults, f"cmd-{next(_ids)}"
        self.uids.add(body.get("uid", 0))
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        task = self.commands[command] = asyncio.create_task(self.inside.run(body["argv"], lines.put_nowait))
        task.add_done_callback(lambda _: lines.put_nowait(None))
        yield self._event(type="init", text=command)
        if faults.silent:
            faults.silent -= 1
            await asyncio.Event().wait()
        if faults.streams_cut:
            faults.streams_cut -= 1
            return
        if faults.stderr:
            yield self._event(type="stderr", text=faults.stderr)
        if faults.nonsense:
            faults.nonsense -= 1
            yield self._event(type="stdout", text="hello, world>")
        mute = faults.streams_mute > 0
        faults.streams_mute -= mute
        while (text := await lines.get()) is not None:
            for line in () if mute else text.splitlines():
                yield self._event(type="stdout", text=line)
        if task.cancelled() or task.exception():
            return
        code = task.result() if faults.exit_code is None else faults.exit_code
        if code:
            error = {"ename": "CommandExecError", "evalue": str(code), "traceback": []}
            yield self._event(type="error", error=error)
        else:
            yield self._event(type="execution_complete", execution_time=1)

    def _event(self, **fields: object) -> bytes:
        text = json.dumps({**fields, "timestamp": int(time.time() * 1000)})
        return (f"data: {text}\n\n" if self.data_prefix else f"{text}\n\n").encode()

    async def _upload(self, request: Request) -> Response:
        boundary = request.headers["content-type"].partition("boundary=")[2].strip('"').encode()
        about: dict[str, object] = {}
        for part in (await request.body()).split(b"--" + boundary)[1:-1]:
            head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
            content = content.removesuffix(b"\r\n")
            if b'name="metadata"' in head:
                about = json.loads(content)
                continue
            if self.faults.uploads_lost:
                self.faults.uploads_lost -= 1
                continue
            if self.faults.uploads_cut:
                self.faults.uploads_cut -= 1
                content = content[: len(content) // 2]
            await self.inside.upload(str(about["path"]), content, int(str(about["mode"]), 8))
        return Response(status_code=200)
