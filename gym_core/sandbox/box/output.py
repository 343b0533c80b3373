"""The host's end of a pipe that a process inside writes to: collected up to a cap, without a thread."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable

_CHUNK_BYTES = 1 << 18


class OutputPipe:
    """Use as a context. `write_fd` goes to the process; close our copy with `close_write` once it has it."""

    def __init__(self, cap_bytes: int, on_chunk: Callable[[bytes], None] | None = None) -> None:
        self.content = bytearray()
        self.truncated = False
        self.ended = asyncio.Event()
        """No process holds the other end any more."""
        self.failure: Exception | None = None
        """What `on_chunk` raised; it is not called again then."""
        self._cap_bytes = cap_bytes
        self._on_chunk = on_chunk
        self._loop = asyncio.get_running_loop()
        self._read_fd, self.write_fd = os.pipe2(os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a big pipe saves wake-ups; the host may limit them
            fcntl.fcntl(self._read_fd, fcntl.F_SETPIPE_SZ, _CHUNK_BYTES)
        os.set_blocking(self._read_fd, False)
        self._loop.add_reader(self._read_fd, self._take)

    def __enter__(self) -> "OutputPipe":
        return self

    def __exit__(self, *_: object) -> None:
        self.close_write()
        self._close_read()

    def close_write(self) -> None:
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    async def ended_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ended.wait()
        return self.ended.is_set()

    def _take(self) -> None:
        try:
            chunk = os.read(self._read_fd, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._close_read()
            self.ended.set()
            return
        kept = chunk[: self._cap_bytes - len(self.content)]
        self.truncated |= len(kept) < len(chunk)
        self.content += kept
        if kept and self._on_chunk and self.failure is None:
            try:
                self._on_chunk(kept)
            except Exception as error:  # noqa: BLE001 - the caller's code, run by the event loop; raised to him later
                self.failure = error

    def _close_read(self) -> None:
        if self._read_fd >= 0:
            self._loop.remove_reader(self._read_fd)
            os.close(self._read_fd)
            self._read_fd = -1
