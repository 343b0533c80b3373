"""What the courier is asked and what it answers: JSON in arguments one way, frames in text the other."""

import base64
import binascii
import json
from collections.abc import Callable
from importlib.resources import files

from pydantic import ValidationError

from gym_core.types.wire import JsonObject, Wire

COURIER = files(__package__).joinpath("courier.py").read_text(encoding="utf-8")

_ARGUMENT_CHARACTERS = 100_000
"""The kernel takes no argument longer than 128 KiB."""

_LONGEST_FRAME = 64 << 10


class End(Wire):
    """What the courier says last. What it does not say is None."""

    status: int | None
    """Of a command as `Popen.returncode`, None when it was killed for its time-out; of a file 0, an errno, or below."""
    timed_out: bool = False
    truncated: bool = False
    sha256: str | None = None
    uid: int | None = None
    daemon_is_apart: bool | None = None
    """Whether commands cannot end the daemon that starts them."""
    effective: int | None = None
    """Capabilities, as the kernel's bits."""
    bounding: int | None = None
    seccomp: bool | None = None
    no_new_privileges: bool | None = None
    one_port: bool | None = None
    """Whether commands can be held to one TCP port, so that none reaches the daemon."""


def courier_argv(request: JsonObject) -> list[str]:
    """The command line that carries out a request in a sandbox whose image has Python."""
    text = json.dumps(request)
    pieces = [text[start : start + _ARGUMENT_CHARACTERS] for start in range(0, len(text), _ARGUMENT_CHARACTERS)]
    return ["python3", "-I", "-c", COURIER, *pieces]


class FrameReader:
    """Takes text as it comes, cut anywhere. Does not raise: what is wrong stays in `mistake`, and ends the reading."""

    def __init__(self, on_content: Callable[[str, bytes], None]) -> None:
        """`on_content` gets the kind and the bytes of each frame but the first and the last."""
        self.end: End | None = None
        self.mistake: str | None = None
        self._on_content = on_content
        self._text = ""

    def feed(self, text: str) -> None:
        if self.mistake or self.end:
            return
        self._text += text.replace("\n", "").replace("\r", "")
        while not self.mistake and not self.end and (close := self._text.find(">")) >= 0:
            frame, self._text = self._text[:close], self._text[close + 1 :]
            self._take(frame)
        if len(self._text) > _LONGEST_FRAME:
            self.mistake = "a frame without an end"

    def _take(self, frame: str) -> None:
        opening, colon, content = frame[:2], frame[2:3], frame[3:]
        if not opening.startswith("<") or colon != ":" or len(content) > _LONGEST_FRAME:
            self.mistake = f"not a frame: {frame[:100]!r}"
            return
        try:
            decoded = base64.b64decode(content, validate=True)
            if opening == "<x":
                self.end = End.model_validate_json(decoded)
            elif opening != "<p":
                self._on_content(opening[1:], decoded)
        except (binascii.Error, ValidationError) as error:
            self.mistake = f"not a frame: {frame[:100]!r}: {error}"
