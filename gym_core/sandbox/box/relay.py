"""Carries bytes between the sandbox's one listening socket and the one address it may reach.

The socket was made inside, so it hears only the sandbox; we accept on it here, on the host, and dial `ModelOnly`'s
address and nothing else, whatever the bytes say. No credential is added: the session key travels in the request. On the
host's loopback the relay calls from an address of its own, so that the model server can tell sandboxes apart.
"""

import asyncio
import contextlib
import logging
import secrets
import socket
from dataclasses import dataclass

from gym_core.sandbox.contract import ModelOnly

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 32
"""Per sandbox, so that a task cannot use up our descriptors; more wait in the kernel's queue."""

_CHUNK_BYTES = 1 << 16
_DIAL_TIMEOUT_S = 10.0
_LINGER_S = 30.0
"""How long a client may stay after the server has finished. The other way round there is no limit: a client that has
finished sending may wait long for its answer."""

_RETRY_S = 0.1


@dataclass(frozen=True)
class _End:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Relay:
    """Adds about 0.1 ms to a request; two descriptors a connection."""

    def __init__(self, listener: socket.socket, model: ModelOnly) -> None:
        self._listener = listener
        self._model = model
        self._loop = asyncio.get_running_loop()
        self._source = own_loopback_address() if model.host.startswith("127.") else None
        self._connections: dict[asyncio.Task[None], socket.socket] = {}
        self._is_accepting = False
        self._is_closed = False
        listener.setblocking(False)
        self._resume()

    async def close(self) -> None:
        self._is_closed = True
        self._pause()
        while self._connections:
            for task in self._connections:
                task.cancel()
            await asyncio.wait(set(self._connections), timeout=_RETRY_S)
        self._listener.close()

    def _resume(self) -> None:
        if not (self._is_accepting or self._is_closed):
            self._loop.add_reader(self._listener, self._accept)
            self._is_accepting = True

    def _pause(self) -> None:
        if self._is_accepting:
            self._loop.remove_reader(self._listener)
            self._is_accepting = False

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:  # out of descriptors, most likely; it passes
            log.warning("relay cannot accept", extra={"error": str(error)})
            self._pause()
            self._loop.call_later(_RETRY_S, self._resume)
            return
        task = self._loop.create_task(self._serve(accepted))
        self._connections[task] = accepted
        task.add_done_callback(self._finished)
        if len(self._connections) >= MAX_CONNECTIONS:
            self._pause()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._connections.pop(task).close()  # here, since a task that is cancelled before it starts closes nothing
        self._resume()
        if not task.cancelled() and (error := task.exception()):
            log.warning("relay connection failed", extra={"error": f"{type(error).__name__}: {error}"})

    async def _serve(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        client = _End(*await asyncio.open_connection(sock=accepted))
        try:
            async with asyncio.timeout(_DIAL_TIMEOUT_S):
                source = (self._source, 0) if self._source else None
                server = _End(*await asyncio.open_connection(self._model.host, self._model.port, local_addr=source))
            try:
                await _couple(client, server)
            finally:
                server.writer.transport.abort()
            await _flush(client.writer)
        except OSError as error:  # time-outs are one too; the client sees its connection closed
            log.warning("model server not reached", extra={"error": str(error)})
        finally:
            client.writer.transport.abort()


def own_loopback_address() -> str:
    """One of the 16 million of 127.0.0.0/8, by chance, outside 127.0.0.0/16 where services listen."""
    return f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"


async def _flush(writer: asyncio.StreamWriter) -> None:
    """Let the last bytes out, if they are wanted."""
    writer.close()
    with contextlib.suppress(OSError):
        async with asyncio.timeout(_LINGER_S):
            await writer.wait_closed()


async def _couple(client: _End, server: _End) -> None:
    up = asyncio.ensure_future(_pump(client.reader, server.writer))
    down = asyncio.ensure_future(_pump(server.reader, client.writer))
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        if down.done():
            await asyncio.wait({up}, timeout=_LINGER_S if down.result() else 0)
        elif up.result():
            await down
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Copies until the sender has finished, and passes that on. False when one side broke off."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        return True
    return False
