"""Server-sent events: one event to bytes, and lines back to events."""

from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True)
class ServerEvent:
    name: str
    data: str


def encode_event(name: str, data: str) -> bytes:
    """`data` is one line (JSON)."""
    return f"event: {name}\ndata: {data}\n\n".encode()


async def decode_events(lines: AsyncIterable[bytes]) -> AsyncIterator[ServerEvent]:
    """Lines without their ends to events; comments and unknown fields are skipped."""
    name = "message"
    data: list[str] = []
    async for raw in lines:
        line = raw.rstrip(b"\r").decode("utf-8", "replace")
        if not line:
            if data:
                yield ServerEvent(name, "\n".join(data))
            name, data = "message", []
        elif line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
