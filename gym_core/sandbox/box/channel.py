"""The control socket to process 1 of one sandbox: requests out, events in. `init.py` says what the messages are."""

import asyncio
import contextlib
import itertools
import json
import os
import socket
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import ValidationError

from gym_core.errors import SandboxError, SandboxLost
from gym_core.types.wire import JsonObject, Wire

_MESSAGE_BYTES = 64 << 10
"""Longer requests travel in a memory file; half of what process 1 takes in one message."""

_EVENT_BYTES = 4 << 10
_SEND_TIMEOUT_S = 10.0
_SEND_RETRY_S = 0.002


class _Event(Wire):
    event: Literal["listener", "ready", "exit"]
    id: int | None = None
    status: int | None = None


class Channel:
    """`on_gone` is called once, when process 1 has gone or talks nonsense."""

    def __init__(self, control: socket.socket, on_gone: Callable[[str], None]) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.listener: socket.socket | None = None
        """The sandbox's listening socket, once it has come; the taker closes it."""
        self._control = control
        self._on_gone = on_gone
        self._pending: dict[int, asyncio.Future[int]] = {}
        self._ids = itertools.count(1)
        self._loop = asyncio.get_running_loop()
        self._closed = False
        control.setblocking(False)
        self._loop.add_reader(control, self._receive)

    async def request(self, message: JsonObject, fds: Sequence[int] = ()) -> "Request":
        """Send it; its status comes later. The descriptors stay the caller's to close."""
        request = Request(self, next(self._ids), self._loop.create_future())
        self._pending[request.id] = request.status
        try:
            await self._send({**message, "id": request.id}, fds)
        except BaseException:
            self.forget(request.id)
            raise
        return request

    def kill(self, request_id: int) -> None:
        """Process 1 kills what that request started; without effect when it has ended."""
        with contextlib.suppress(OSError):
            self._control.send(json.dumps({"op": "kill", "id": request_id}).encode())

    def forget(self, request_id: int) -> None:
        self._pending.pop(request_id, None)

    def close(self, error: Exception) -> None:
        """Whoever still waits gets the error."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._control)
        self._control.close()
        _fail(self.ready, error)
        for status in self._pending.values():
            _fail(status, error)
        self._pending.clear()

    async def _send(self, message: JsonObject, fds: Sequence[int]) -> None:
        data = json.dumps(message).encode()
        if len(data) <= _MESSAGE_BYTES:
            await self._send_bytes(data, fds)
            return
        memory = os.memfd_create("gym-request")
        try:
            write_all(memory, data)
            await self._send_bytes(b'{"op": "long"}', [memory, *fds])
        finally:
            os.close(memory)

    async def _send_bytes(self, data: bytes, fds: Sequence[int]) -> None:
        deadline = self._loop.time() + _SEND_TIMEOUT_S
        while not self._closed:
            try:
                socket.send_fds(self._control, [data], list(fds))
            except BlockingIOError:
                if self._loop.time() > deadline:
                    raise SandboxError("process 1 of the sandbox takes no messages") from None
                await asyncio.sleep(_SEND_RETRY_S)
            except OSError as error:
                raise SandboxLost(f"sandbox is gone: {error}") from error
            else:
                return
        raise SandboxLost("sandbox is gone")

    def _receive(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, _EVENT_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        try:
            event = _Event.model_validate_json(data)
        except ValidationError:
            for fd in fds:
                os.close(fd)
            reason = "process 1 sent nonsense" if data else "process 1 ended"
            self.close(SandboxLost(f"sandbox is gone: {reason}"))
            self._on_gone(reason)
            return
        self._take(event, fds)

    def _take(self, event: _Event, fds: list[int]) -> None:
        if event.event == "listener" and fds and self.listener is None:
            self.listener = socket.socket(fileno=fds.pop())
        elif event.event == "ready" and not self.ready.done():
            self.ready.set_result(None)
        elif event.event == "exit" and event.id is not None and event.status is not None:
            future = self._pending.pop(event.id, None)
            if future and not future.done():
                future.set_result(event.status)
        for fd in fds:
            os.close(fd)


class Request:
    """One request under way; `status` is what `init.py` says of its end."""

    def __init__(self, channel: Channel, request_id: int, status: asyncio.Future[int]) -> None:
        self.id = request_id
        self.status = status
        self._channel = channel

    async def ended_within(self, seconds: float) -> bool:
        done, _ = await asyncio.wait({self.status}, timeout=seconds)
        return bool(done)

    def kill(self) -> None:
        self._channel.kill(self.id)

    def forget(self) -> None:
        self._channel.forget(self.id)


def _fail(future: asyncio.Future[int] | asyncio.Future[None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # marks it as seen: nobody may be waiting


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
