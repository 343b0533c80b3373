"""The sandbox as its users see it: commands, files, time to live, end."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

from gym_core.errors import SandboxError
from gym_core.sandbox.arguments import must_be_clean, must_be_path
from gym_core.sandbox.box.channel import Channel, Request, write_all
from gym_core.sandbox.box.init import NO_FORK, NOT_REGULAR, TOO_LONG
from gym_core.sandbox.box.layout import inside_port, longest_s
from gym_core.sandbox.box.output import OutputPipe
from gym_core.sandbox.contract import ExecResult, Launch, ModelOnly, OnOutput, SandboxSpec
from gym_core.sandbox.ending import Ending
from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

_TRANSFER_TIMEOUT_S = 300.0
_PING_TIMEOUT_S = 10.0
_KILL_TIMEOUT_S = 10.0
_DRAIN_TIMEOUT_S = 30.0
_LEFTOVER_S = 0.25
"""How long output is still collected after the command ended, when something keeps its pipes open."""

_CHUNK_BYTES = 2 << 20


class Cell(Protocol):
    """One sandbox's processes, and everything outside that belongs to them."""

    name: str
    """Nobody else's, ever: two providers may use one sandbox id."""

    @property
    def channel(self) -> Channel:
        """To process 1. Raises SandboxLost while it is not open."""
        ...

    @property
    def init_pid(self) -> int | None:
        """Process 1 as the host numbers it; None while there is none, or where the host cannot see it."""
        ...

    @property
    def env(self) -> dict[str, str]:
        """Of every command, under what the spec says. Known once it is open."""
        ...

    @property
    def enforced(self) -> SandboxEnforcement: ...

    async def open(self) -> None:
        """When it raises, `close` takes away what there is by then. Raises SandboxUnavailable."""
        ...

    async def close(self) -> None:
        """Leaves nothing. Called once."""
        ...


MakeCell = Callable[[Callable[[str], None]], Cell]
"""Its argument is to be called once, with the reason, when the sandbox ends without `close`."""


class BoxSandbox:
    """Made by the provider that makes its cell."""

    def __init__(
        self, sandbox_id: SafeId, spec: SandboxSpec, make_cell: MakeCell, on_closed: Callable[[], None]
    ) -> None:
        self._id = sandbox_id
        self._spec = spec
        self._on_closed = on_closed
        self._cell = make_cell(self._gone)
        self._ending = Ending(sandbox_id, self._take_down)
        self._loop = asyncio.get_running_loop()
        self._deadline = 0.0
        self._last_end = self._loop.time() + longest_s(spec)
        self._timer: asyncio.TimerHandle | None = None
        self._uses = 0

    async def open(self) -> None:
        await self._cell.open()
        self._touch()
        self._expire_later()

    @property
    def id(self) -> str:
        return self._id

    @property
    def workdir(self) -> str:
        return self._spec.workdir

    @property
    def spec(self) -> SandboxSpec:
        return self._spec

    @property
    def record_name(self) -> str:
        """Of its record among those of all providers."""
        return self._cell.name

    @property
    def expires_at(self) -> float:
        """Unix time, seconds, if it is not used."""
        return time.time() + self._deadline - self._loop.time()

    @property
    def is_ending(self) -> bool:
        """It has ended, and what belongs to it is being taken away."""
        return self._ending.has_begun

    @property
    def init_pid(self) -> int | None:
        """Process 1 as the host numbers it; None while there is none."""
        return self._cell.init_pid

    @property
    def model_url(self) -> str | None:
        network = self._spec.network
        return f"http://127.0.0.1:{inside_port(network)}/v1" if isinstance(network, ModelOnly) else None

    @property
    def enforced(self) -> SandboxEnforcement:
        return self._cell.enforced

    async def exec(self, launch: Launch, on_output: OnOutput | None = None) -> ExecResult:
        """About 3 ms beyond the command's own time; four descriptors while it runs."""
        cap = launch.output_cap_bytes
        message: JsonObject = {
            "op": "exec",
            "argv": launch.argv,
            "cwd": launch.cwd,
            "env": self._cell.env | self._spec.env | launch.env,
        }
        must_be_clean(*launch.argv, *launch.env, *launch.env.values(), launch.cwd or "")
        with (
            OutputPipe(cap, on_output and partial(on_output, "stdout")) as stdout,
            OutputPipe(cap, on_output and partial(on_output, "stderr")) as stderr,
        ):
            async with self._request(message, stdout.write_fd, stderr.write_fd) as running:
                stdout.close_write()
                stderr.close_write()
                timed_out = not await running.ended_within(launch.timeout_s)
                status = await self._killed(running) if timed_out else running.status.result()
                await asyncio.gather(stdout.ended_within(_LEFTOVER_S), stderr.ended_within(_LEFTOVER_S))
            if status == NO_FORK:
                raise SandboxError(f"exec in sandbox {self._id!r}: no process to be had; its limit is used up")
            if failure := stdout.failure or stderr.failure:
                raise failure
            return ExecResult(
                exit_code=None if timed_out or status < 0 else status,
                signal=-status if status < 0 else None,
                timed_out=timed_out,
                truncated=stdout.truncated or stderr.truncated,
                stdout=bytes(stdout.content),
                stderr=bytes(stderr.content),
            )

    async def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """The content goes through a memory file that process 1's child copies: about 1.5 ms a MiB."""
        must_be_path(path)
        memory = os.memfd_create("gym-file")
        try:
            for start in range(0, len(content), _CHUNK_BYTES):
                write_all(memory, content[start : start + _CHUNK_BYTES])
                await asyncio.sleep(0)  # copying must not hold the loop for more than a millisecond or two
            async with self._request({"op": "put", "path": path, "mode": mode & 0o777}, memory) as running:
                status = await self._transferred(running, path)
        finally:
            os.close(memory)
        _raise_for(status, f"write to {path!r}", path)

    async def read(self, path: str, max_bytes: int = 64 << 20) -> bytes:
        must_be_path(path)
        with OutputPipe(max_bytes) as pipe:
            message = {"op": "get", "path": path, "max_bytes": max_bytes}
            async with self._request(message, pipe.write_fd) as running:
                pipe.close_write()
                status = await self._transferred(running, path)
            _raise_for(status, f"read of {path!r}", path)
            if not await pipe.ended_within(_DRAIN_TIMEOUT_S):
                raise SandboxError(f"read of {path!r}: the last bytes did not come")
            return bytes(pipe.content)

    async def renew(self) -> None:
        """Process 1 hears of it too: it ends a sandbox whose owner does not."""
        async with self._request({"op": "ping"}) as running:
            if not await running.ended_within(_PING_TIMEOUT_S):
                raise SandboxError(f"sandbox {self._id!r}: process 1 does not answer")

    async def is_alive(self) -> bool:
        if self._ending.has_begun:
            return False
        try:
            request = await self._cell.channel.request({"op": "ping"})
            return await request.ended_within(_PING_TIMEOUT_S) and request.status.result() == 0
        except SandboxError:
            return False

    async def close(self) -> None:
        await self._ending.finish("it was closed")

    def _gone(self, reason: str) -> None:
        if not self._ending.has_begun:
            log.warning("sandbox lost", extra={"sandbox": self._id, "reason": reason})
        self._ending.begin(reason)

    async def _take_down(self) -> None:
        if self._timer:
            self._timer.cancel()
        try:
            await self._cell.close()
        finally:
            self._on_closed()

    def _touch(self) -> None:
        self._deadline = min(self._loop.time() + self._spec.ttl_s, self._last_end)

    def _expire_later(self) -> None:
        self._timer = self._loop.call_at(self._deadline, self._expire)

    def _expire(self) -> None:
        if self._uses:  # a running command has a time-out of its own
            self._touch()
        now = self._loop.time()
        if now >= self._last_end:
            self._gone(f"it lived for {longest_s(self._spec):g} s, and none lives longer")
        elif now >= self._deadline:
            self._gone(f"not used or renewed for {self._spec.ttl_s:g} s")
        elif not self._ending.has_begun:
            self._expire_later()

    @asynccontextmanager
    async def _request(self, message: JsonObject, *fds: int) -> AsyncIterator[Request]:
        """One request under way; leaving early, by cancellation too, kills what it started."""
        self._ending.must_not_have_begun()
        self._touch()
        self._uses += 1
        try:
            running = await self._cell.channel.request(message, fds)
            try:
                yield running
            finally:
                if not running.status.done():
                    running.kill()
                    running.forget()
        finally:
            self._uses -= 1
            self._touch()

    async def _killed(self, running: Request) -> int:
        running.kill()
        if not await running.ended_within(_KILL_TIMEOUT_S):
            raise SandboxError(f"sandbox {self._id!r}: a command did not end when it was killed")
        return running.status.result()

    async def _transferred(self, running: Request, path: str) -> int:
        if not await running.ended_within(_TRANSFER_TIMEOUT_S):
            raise SandboxError(f"sandbox {self._id!r}: transfer of {path!r} took longer than {_TRANSFER_TIMEOUT_S} s")
        return running.status.result()


def _raise_for(status: int, what: str, path: str) -> None:
    """A transfer's status as the error it stands for."""
    if status == NOT_REGULAR:
        raise ValueError(f"{what}: not a regular file")
    if status == TOO_LONG:
        raise ValueError(f"{what}: longer than allowed")
    if status == NO_FORK:
        raise SandboxError(f"{what}: no process to be had inside; its limit is used up")
    if status < 0:
        raise SandboxError(f"{what}: killed inside by signal {-status}")
    if status:
        raise OSError(status, os.strerror(status), path)
