"""The borrower's side: a sandbox lent by another process, used over HTTP, that cannot be told from one's own."""

import asyncio
import contextlib
import posixpath
import time
from collections.abc import AsyncIterator, Mapping
from typing import Protocol
from urllib.parse import quote

from gym_core.errors import EpisodeError, FailureKind, SandboxError, SandboxLost, SessionError, TransportError
from gym_core.http.problem import error_of
from gym_core.sandbox.contract import ExecResult, Launch, OnOutput
from gym_core.sandbox.exec_frames import ExecEnd, OutputFrame, ResultFrame, parse_line
from gym_core.sandbox.lease_routes import LeaseStatus
from gym_core.types.session import SandboxEnforcement, SandboxLease

_CALL_TIMEOUT_S = 30.0
_TRANSFER_TIMEOUT_S = 330.0
_EXEC_GRACE_S = 60.0
"""How long past a command's own time-out its reply may take."""

_RENEWALS_PER_TTL = 3
_SHORTEST_RENEWAL_S = 0.05


class LeaseReply(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def body(self) -> bytes: ...


class LeaseTransport(Protocol):
    """HTTP to the lender, with the lease's token. Raises TransportError when nothing came back."""

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float = _CALL_TIMEOUT_S,
    ) -> LeaseReply:
        """Any status is a reply."""
        ...

    def stream(
        self, method: str, path: str, *, body: bytes = b"", timeout_s: float = _CALL_TIMEOUT_S
    ) -> AsyncIterator[bytes]:
        """The reply's lines as they come. An error status raises what `error_of` makes of it."""
        ...


class LeasedSandbox:
    """`close` gives the sandbox back for good: the lender destroys it."""

    def __init__(self, lease: SandboxLease, transport: LeaseTransport) -> None:
        self._lease = lease
        self._transport = transport
        self._base = f"/v1/sandboxes/{lease.lease_id}"
        self._renew_every_s = max(_SHORTEST_RENEWAL_S, (lease.expires_at - time.time()) / _RENEWALS_PER_TTL)
        self._closing: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return self._lease.lease_id

    @property
    def workdir(self) -> str:
        return self._lease.workdir

    @property
    def model_url(self) -> str | None:
        return self._lease.model_url

    @property
    def enforced(self) -> SandboxEnforcement:
        return self._lease.enforced

    async def exec(self, launch: Launch, on_output: OnOutput | None = None) -> ExecResult:
        """One request; cancelling it hangs up, and the lender kills the command. Never tried twice."""
        self._must_be_open()
        renewing = asyncio.ensure_future(self._keep_renewed())
        try:
            return await self._exec(launch, on_output)
        except SessionError as error:
            raise self._lost(error) from error
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _exec(self, launch: Launch, on_output: OnOutput | None) -> ExecResult:
        output = {"stdout": bytearray(), "stderr": bytearray()}
        lines = self._transport.stream(
            "POST",
            f"{self._base}/exec",
            body=launch.model_dump_json().encode(),
            timeout_s=launch.timeout_s + _EXEC_GRACE_S,
        )
        end: ExecEnd | None = None
        async for text in lines:
            if not text.strip():
                continue
            try:
                frame = parse_line(text)
            except ValueError as error:
                raise TransportError(f"exec in lease {self.id!r}: not a line of a reply: {text[:200]!r}") from error
            if isinstance(frame, OutputFrame):
                output[frame.stream] += frame.data
                if on_output:
                    on_output(frame.stream, frame.data)
            elif isinstance(frame, ResultFrame):
                end = frame.result
            else:
                raise error_of(500, text, f"exec in lease {self.id!r}")
        if end is None:
            reason = f"exec in lease {self.id!r}: the reply ended before the command"
            raise TransportError(reason, kind=FailureKind.TRANSPORT_PEER_DROP)
        return ExecResult(**end.model_dump(), stdout=bytes(output["stdout"]), stderr=bytes(output["stderr"]))

    async def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        headers = {"Content-Type": "application/octet-stream"}
        query = {"mode": f"{mode & 0o777:03o}"}
        await self._send("PUT", self._file(path), query=query, headers=headers, body=content)

    async def read(self, path: str, max_bytes: int = 64 << 20) -> bytes:
        return await self._send("GET", self._file(path), query={"max_bytes": str(max_bytes)})

    async def renew(self) -> None:
        await self._send("POST", f"{self._base}/renew")

    async def is_alive(self) -> bool:
        """False when the lender says so, has no such lease, or does not answer."""
        if self._closing:
            return False
        try:
            reply = await self._transport.send("GET", self._base, timeout_s=_CALL_TIMEOUT_S)
            return reply.status < 400 and LeaseStatus.model_validate_json(reply.body).alive
        except (EpisodeError, ValueError):
            return False

    async def close(self) -> None:
        """A lender that is gone, or has ended the lease, is fine. The request goes out even if we are cancelled."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._release())
        await asyncio.shield(self._closing)

    async def _release(self) -> None:
        with contextlib.suppress(EpisodeError):  # what did not arrive, the lender's reaper does
            await self._transport.send("DELETE", self._base, timeout_s=_CALL_TIMEOUT_S)

    async def _keep_renewed(self) -> None:
        while True:
            await asyncio.sleep(self._renew_every_s)
            with contextlib.suppress(EpisodeError):  # the command's own reply tells what is wrong
                await self.renew()

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> bytes:
        self._must_be_open()
        reply = await self._transport.send(
            method, path, query=query, headers=headers, body=body, timeout_s=_TRANSFER_TIMEOUT_S
        )
        if reply.status < 400:
            return reply.body
        error = error_of(reply.status, reply.body, f"{method} {path}")
        raise self._lost(error) if isinstance(error, SessionError) else error

    def _file(self, path: str) -> str:
        """Dots are resolved here: HTTP clients would do it on the way, and differently."""
        if not posixpath.isabs(path):
            raise ValueError(f"{path!r} is not an absolute path")
        if "\n" in path:
            raise ValueError(f"{path!r} holds a line break, which no route takes")
        return f"{self._base}/files{quote(posixpath.normpath('/' + path.lstrip('/')))}"

    def _must_be_open(self) -> None:
        if self._closing:
            raise SandboxLost(f"lease {self.id!r} was closed")

    def _lost(self, error: Exception) -> SandboxError:
        return SandboxLost(f"lease {self.id!r}: {error}")
