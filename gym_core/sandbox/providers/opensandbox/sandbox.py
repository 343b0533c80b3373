"""A sandbox of an OpenSandbox server as its users see it: commands, files, time to live, end."""

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gym_core.errors import SandboxError
from gym_core.sandbox.arguments import must_be_clean, must_be_path
from gym_core.sandbox.box.layout import ENV
from gym_core.sandbox.contract import ExecResult, Launch, OnOutput, SandboxSpec
from gym_core.sandbox.ending import Ending
from gym_core.sandbox.providers.opensandbox.courier import NOT_REGULAR, NOT_WHOLE, TOO_LONG
from gym_core.sandbox.providers.opensandbox.frames import End, FrameReader, courier_argv
from gym_core.sandbox.providers.opensandbox.life import Life
from gym_core.sandbox.providers.opensandbox.sdk import Remote, Service, ServiceFault
from gym_core.sandbox.providers.opensandbox.walls import only_port
from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

_STAGING = "/tmp"
_EXEC_GRACE_S = 30.0
"""How much longer than a command's own time-out its courier may take: to start, to kill, to send the rest."""

_TRANSFER_TIMEOUT_S = 300.0
_UPLOADS = 2
"""Tries of one upload: a daemon has been seen to report one as done that was not."""

_KILLS = 3
_KILL_PAUSE_S = 0.2
_STREAMS = {"o": "stdout", "e": "stderr"}


class OpenSandbox:
    """Made by `OpenSandboxProvider.create`."""

    def __init__(
        self,
        sandbox_id: SafeId,
        spec: SandboxSpec,
        *,
        remote: Remote,
        service: Service,
        model_url: str | None,
        on_closed: Callable[[], None],
    ) -> None:
        self._id = sandbox_id
        self._spec = spec
        self._remote = remote
        self._service = service
        self._model_url = model_url
        self._on_closed = on_closed
        self._ending = Ending(sandbox_id, self._take_down)
        self._life = Life(spec.ttl_s, self._expire)
        self._only_port: int | None = None
        self._enforced: SandboxEnforcement | None = None
        self._renewing = asyncio.Lock()

    @property
    def id(self) -> str:
        return self._id

    @property
    def remote_id(self) -> str:
        """What the server calls it."""
        return self._remote.id

    @property
    def workdir(self) -> str:
        return self._spec.workdir

    @property
    def model_url(self) -> str | None:
        return self._model_url

    @property
    def expires_at(self) -> float:
        """Unix time, seconds, if it is not used."""
        return self._life.expires_at

    @property
    def enforced(self) -> SandboxEnforcement:
        assert self._enforced is not None, "the provider looks before it lends"
        return self._enforced

    @enforced.setter
    def enforced(self, enforced: SandboxEnforcement) -> None:
        self._enforced = enforced

    async def look(self) -> End:
        """What a command is inside, as the kernel there says; the workspace is made. Raises SandboxError."""
        end = await self._ask({"op": "look", "workdir": self.workdir}, lambda kind, content: None)
        _raise_for(end.status, f"a workspace at {self.workdir!r}", self.workdir)
        self._only_port = only_port(end, self._spec.network)
        return end

    async def exec(self, launch: Launch, on_output: OnOutput | None = None) -> ExecResult:
        """Its bytes come as they were. Cancelling interrupts it, and its courier kills all that it started."""
        must_be_clean(*launch.argv, *launch.env, *launch.env.values(), launch.cwd or "")
        output = {"stdout": bytearray(), "stderr": bytearray()}

        def take(kind: str, content: bytes) -> None:
            stream = _STREAMS.get(kind)
            if stream is None:
                return
            kept = content[: launch.output_cap_bytes - len(output[stream])]  # bounded again: it came from inside
            output[stream] += kept
            if on_output and kept:
                on_output("stdout" if stream == "stdout" else "stderr", kept)

        request: JsonObject = {
            "op": "exec",
            "argv": launch.argv,
            "cwd": launch.cwd or self.workdir,
            "env": ENV | self._spec.env | launch.env,
            "timeout_s": launch.timeout_s,
            "cap": launch.output_cap_bytes,
            "only_port": self._only_port,
            "file_bytes": self._spec.resources.workspace_mib << 20,
        }
        end = await self._ask(request, take, timeout_s=launch.timeout_s + _EXEC_GRACE_S)
        status = None if end.timed_out else end.status
        if status is None and not end.timed_out:
            raise SandboxError(f"sandbox {self._id!r}: a command ended, and nobody knows how")
        return ExecResult(
            exit_code=status if status is not None and status >= 0 else None,
            signal=-status if status is not None and status < 0 else None,
            timed_out=end.timed_out,
            truncated=end.truncated,
            stdout=bytes(output["stdout"]),
            stderr=bytes(output["stderr"]),
        )

    async def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Uploaded beside, then checked and moved into its place by a process inside."""
        must_be_path(path)
        if len(content) > self._spec.resources.workspace_mib << 20:
            raise OSError(28, os.strerror(28), path)
        digest = hashlib.sha256(content).hexdigest()
        for _ in range(_UPLOADS):
            part = f"{_STAGING}/.gym-{secrets.token_hex(16)}"
            request = {"op": "place", "part": part, "path": path, "mode": mode & 0o777}
            async with self._use(f"upload for {path!r}"):
                try:
                    await self._remote.upload(part, content)
                    end = await self._ask(request | {"size": len(content), "sha256": digest}, lambda kind, part: None)
                finally:
                    await asyncio.shield(self._remove(part))
            if end.status != NOT_WHOLE:
                _raise_for(end.status, f"write to {path!r}", path)
                return
            log.warning("upload arrived in part", extra={"sandbox": self._id, "bytes": len(content)})
        raise SandboxError(f"write to {path!r}: {_UPLOADS} uploads of {len(content)} bytes did not arrive whole")

    async def read(self, path: str, max_bytes: int = 64 << 20) -> bytes:
        must_be_path(path)
        content = bytearray()

        def take(kind: str, part: bytes) -> None:
            if kind == "d" and len(content) <= max_bytes:
                content.extend(part)

        end = await self._ask({"op": "get", "path": path, "max_bytes": max_bytes}, take)
        _raise_for(end.status, f"read of {path!r}", path)
        if len(content) > max_bytes or hashlib.sha256(content).hexdigest() != end.sha256:
            raise SandboxError(f"read of {path!r}: what arrived is not what was sent")
        return bytes(content)

    async def renew(self) -> None:
        """Looks whether it lives, too, since the server is seldom told."""
        async with self._use("renewal"):
            if not self._life.must_renew and not await self._remote.is_running():
                self._ending.begin("the server has it no more")
                self._ending.must_not_have_begun()

    async def is_alive(self) -> bool:
        if self._ending.has_begun:
            return False
        try:
            return await self._remote.answers()
        except ServiceFault:
            return False

    async def close(self) -> None:
        await self._ending.finish("it was closed")

    async def _remove(self, part: str) -> None:
        with contextlib.suppress(ServiceFault):  # one that is gone already, or stays until the sandbox ends
            await self._remote.forget_upload(part)

    async def _ask(
        self, request: JsonObject, on_content: Callable[[str, bytes], None], *, timeout_s: float = _TRANSFER_TIMEOUT_S
    ) -> End:
        """Have the courier do it; one that was killed, by a command that kills all it can, ends like what it carried.

        Raises SandboxError for an answer that is none.
        """
        reader = FrameReader(on_content)
        async with self._use(f"{request['op']}"):
            if not await self._remote.run(courier_argv(request), timeout_s=timeout_s, on_text=reader.feed):
                await self._find_out(ServiceFault("its courier was killed"))
                self._ending.must_not_have_begun()
                return reader.end or End(status=-signal.SIGKILL)
        if reader.mistake or reader.end is None:
            raise SandboxError(f"sandbox {self._id!r}: {request['op']}: {reader.mistake or 'no end was said'}")
        return reader.end

    @asynccontextmanager
    async def _use(self, what: str) -> AsyncIterator[None]:
        """One use under way; a fault inside leaves as SandboxLost when the sandbox is gone, else as SandboxError."""
        self._ending.must_not_have_begun()
        self._life.begin_use()
        renewing = asyncio.ensure_future(self._keep_renewed())
        try:
            await self._renew_if_due()
            yield
        except ServiceFault as fault:
            await self._find_out(fault)
            self._ending.must_not_have_begun()
            raise SandboxError(f"sandbox {self._id!r}: {what}: {fault}") from fault
        finally:
            renewing.cancel()
            self._life.end_use()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _keep_renewed(self) -> None:
        while True:
            await asyncio.sleep(self._life.renewal_interval_s)
            self._life.touch()
            with contextlib.suppress(ServiceFault):  # the use itself tells what is wrong
                await self._renew_if_due()

    async def _renew_if_due(self) -> None:
        async with self._renewing:
            if self._life.must_renew:
                await self._remote.renew(self._life.server_ttl_s)
                self._life.renewed()

    async def _find_out(self, fault: ServiceFault) -> None:
        """A broken call means little; that the server has it no more means that it is lost."""
        if self._ending.has_begun:
            return
        with contextlib.suppress(ServiceFault):
            if not await self._remote.is_running():
                log.warning("sandbox lost", extra={"sandbox": self._id, "reason": str(fault)[:200]})
                self._ending.begin(f"the server has it no more ({fault})")

    def _expire(self) -> None:
        self._ending.begin(f"not used or renewed for {self._spec.ttl_s:g} s")

    async def _take_down(self) -> None:
        self._life.stop()
        try:
            for attempt in range(_KILLS):
                try:
                    await self._service.kill(self.remote_id)
                    return
                except ServiceFault as fault:
                    log.warning("sandbox not killed", extra={"sandbox": self._id, "reason": str(fault)[:200]})
                    await asyncio.sleep(_KILL_PAUSE_S * (attempt + 1))
        finally:
            self._on_closed()


def _raise_for(status: int | None, what: str, path: str) -> None:
    """A transfer's status as the error it stands for."""
    if status == NOT_REGULAR:
        raise ValueError(f"{what}: not a regular file")
    if status == TOO_LONG:
        raise ValueError(f"{what}: longer than allowed")
    if status is None or status < 0:
        raise SandboxError(f"{what}: ended inside, and nobody knows how")
    if status:
        raise OSError(status, os.strerror(status), path)
