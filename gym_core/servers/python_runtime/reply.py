"""The client's answer, read: one JSON object, every part of which the model's code may have had a hand in."""

import base64
import binascii
import re
from typing import Annotated

from pydantic import Field

from gym_core.servers.python_runtime.settings import Outcome
from gym_core.types.wire import BulkyWire, WholeNumber, Wire

_PNG = b"\x89PNG\r\n\x1a\n"
_MAX_NOTES, _MAX_NOTE_CHARS = 40, 300
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
"""What a terminal would act upon: colours and cursors of ECMA-48, and control characters but tab and line ends."""


class Life(Wire):
    """One process of a runtime, as it is found again in the sandbox."""

    token: str
    """Name of its socket, and its mark in the environment of all that it starts."""
    leader: WholeNumber
    """Process id of what adopts its orphans; 0 when it never said."""
    born: WholeNumber
    """When the leader was started, as the kernel there counts: process ids are used again."""


class Reply(BulkyWire):
    outcome: Outcome
    head: str
    tail: str
    dropped_bytes: WholeNumber
    """Between the two."""
    images: Annotated[list[str], Field(max_length=64)]
    """Base64."""
    notes: Annotated[list[str], Field(max_length=_MAX_NOTES)]
    is_over: bool
    """The process has ended."""
    life: Life | None = None
    """Of a start."""

    def text(self, max_chars: int) -> str:
        """At most about `max_chars` characters, the middle given up first."""
        head, tail = without_escapes(self.head), without_escapes(self.tail)
        if not self.dropped_bytes and len(head) + len(tail) <= max_chars:
            return head + tail
        half = max_chars // 2
        if not tail:
            head, tail = head[:-half], head[-half:]
        dropped = self.dropped_bytes + max(0, len(head) - half) + max(0, len(tail) - half)
        return f"{head[:half]}\n[... {dropped} characters cut ...]\n{tail[-half:]}"

    def pictures(self) -> list[bytes]:
        """Those that begin as a PNG file does."""
        found = []
        for image in self.images:
            try:
                content = base64.b64decode(image, validate=True)
            except (binascii.Error, ValueError):
                continue
            if content.startswith(_PNG):
                found.append(content)
        return found

    def words(self) -> list[str]:
        return [" ".join(without_escapes(note).split())[:_MAX_NOTE_CHARS] for note in self.notes]


def without_escapes(text: str) -> str:
    return _ESCAPES.sub("", text.replace("\r\n", "\n"))
