"""One container, its folder on the host, the socket to its process 1: made in order, unmade in reverse."""

import asyncio
import logging
import os
import secrets
import shutil
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gym_core.errors import SandboxError, SandboxLost, SandboxUnavailable
from gym_core.sandbox.box.channel import Channel
from gym_core.sandbox.box.layout import longest_s
from gym_core.sandbox.box.relay import Relay
from gym_core.sandbox.contract import ModelOnly, SandboxSpec
from gym_core.sandbox.providers.docker.container import (
    CONTROL,
    FILTER,
    INIT,
    Ground,
    Place,
    container_body,
    enforcement,
)
from gym_core.sandbox.providers.docker.engine import Engine, EngineInfo, Stderr
from gym_core.sandbox.providers.local.state import BoxRecords, own_folder
from gym_core.types.ids import SafeId
from gym_core.types.session import SandboxEnforcement
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

_READY_TIMEOUT_S = 60.0
_LOOK_S = 0.5
_PEER_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class Site:
    """What all containers of one provider share."""

    engine: Engine
    info: EngineInfo
    state_path: Path
    records: BoxRecords
    python: str
    seccomp: bytes
    init: bytes


class DockerCell:
    """`on_gone` is called with the reason when the sandbox ends without `close`."""

    def __init__(
        self, sandbox_id: SafeId, spec: SandboxSpec, site: Site, ground: Ground, on_gone: Callable[[str], None]
    ) -> None:
        self.name = f"gym-{os.getpid()}-{secrets.token_hex(6)}"
        """Of the container and of its folder."""
        self.init_pid: int | None = None
        self._sandbox_id = sandbox_id
        self._spec = spec
        self._site = site
        self._ground = ground
        self._on_gone = on_gone
        self._starting: asyncio.Task[Stderr] | None = None
        self._channel: Channel | None = None
        self._relay: Relay | None = None

    @property
    def channel(self) -> Channel:
        if self._channel is None:
            raise SandboxLost(f"sandbox {self._sandbox_id!r} is not open")
        return self._channel

    @property
    def env(self) -> dict[str, str]:
        return self._ground.env

    @property
    def enforced(self) -> SandboxEnforcement:
        return enforcement(self._ground.engine, self._spec.network)

    async def open(self) -> None:
        """About half a second, most of it the engine's. When it raises, `close` takes away what there is by then."""
        records = self._site.records
        claim = records.claim(longest_s=longest_s(self._spec))
        records.write(self.name, self._sandbox_id, claim=claim, cgroups=[], metadata=self._spec.metadata)
        with self._listening() as listener:
            control = await self._start(listener, Place(self._folder, self._site.python, claim))
        self._channel = channel = Channel(control, self._on_gone)
        self.init_pid = _peer_pid(control)
        async with asyncio.timeout(_READY_TIMEOUT_S):
            await channel.ready
        if isinstance(self._spec.network, ModelOnly):
            if channel.listener is None:
                raise SandboxUnavailable("docker: process 1 handed out no listening socket")
            self._relay = Relay(channel.listener, self._spec.network)
            channel.listener = None

    async def close(self) -> None:
        """Process 1 ends when our end of its socket closes, and the engine removes what has ended: asking it to do so
        is for the case that it hangs, and to know when it has."""
        if self._channel:
            self._channel.close(SandboxLost(f"sandbox {self._sandbox_id!r} was closed"))
            if self._channel.listener:
                self._channel.listener.close()
        if self._relay:
            await self._relay.close()
        if self._starting is None:
            self._clear()
            return
        await asyncio.wait({self._starting})  # what is not made yet cannot be removed
        if not self._starting.exception():
            self._starting.result().close()
        try:
            await self._site.engine.remove(self.name)
        except (SandboxError, TimeoutError) as error:
            # Its record stays, so that a sweep tries again.
            log.warning("container not removed", extra={"container": self.name, "error": str(error)})
        else:
            self._clear()

    def _clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._site.records.remove(self.name)

    @property
    def _folder(self) -> Path:
        return self._site.state_path / self.name

    @contextmanager
    def _listening(self) -> Iterator[socket.socket]:
        """The folder that the container sees, with the socket that process 1 calls. Nobody but it can: the folder
        around is closed to others, and before a command can run inside, nobody listens any more."""
        own_folder(self._site.state_path)
        self._folder.mkdir(mode=0o755)
        for name, content in ((INIT, self._site.init), (FILTER, self._site.seccomp)):
            (self._folder / name).write_bytes(content)
            (self._folder / name).chmod(0o644)
        self._folder.chmod(0o755)
        folder_fd = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as listener:
                listener.bind(f"/proc/self/fd/{folder_fd}/{CONTROL}")  # the path itself may be too long for a socket
                (self._folder / CONTROL).chmod(0o666)
                listener.listen(1)
                yield listener
        finally:
            os.close(folder_fd)
            (self._folder / CONTROL).unlink(missing_ok=True)

    async def _start(self, listener: socket.socket, place: Place) -> socket.socket:
        """The socket to process 1, once it has called. Raises SandboxUnavailable when it does not."""
        body = container_body(self._sandbox_id, self._spec, self._ground, place)
        self._starting = asyncio.create_task(self._started(body))
        return await self._called(listener, await asyncio.shield(self._starting))

    async def _started(self, body: JsonObject) -> Stderr:
        await self._site.engine.create(self.name, body)
        return await self._site.engine.start(self.name)

    async def _called(self, listener: socket.socket, stderr: Stderr) -> socket.socket:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _READY_TIMEOUT_S
        while loop.time() < deadline:
            try:
                async with asyncio.timeout(_LOOK_S):
                    control, _ = await loop.sock_accept(listener)
                stderr.close()
                return control
            except TimeoutError:
                if not await self._site.engine.is_running(self.name):
                    break
        said = await asyncio.to_thread(stderr.read)
        raise SandboxUnavailable(_why_silent(said, self._site.python))


def _why_silent(said: str, python: str) -> str:
    reason = f"docker: process 1 of the container did not call: {said[-500:] or 'it said nothing'}"
    if "Connect" in said or "Permission" in said:
        reason += (
            "; the engine must run on this machine, not in a virtual one (as Docker Desktop does), and `state_dir` "
            "must be the same folder for the engine and for us"
        )
    elif not said:
        reason += f"; the image needs {python!r}, 3.9 or newer"
    return reason


def _peer_pid(control: socket.socket) -> int | None:
    raw = control.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    pid: int = _PEER_CREDENTIALS.unpack(raw)[0]
    return pid or None
