"""The lines of a lent sandbox's `exec` reply: output as it comes, then one result or one error.

    {"stream": "stdout", "data": "<base64>"}
    {"result": {"exit_code": 0, "signal": null, "timed_out": false, "truncated": false}}
    {"error": {"kind": "sandbox_lost", "message": "...", "type": null}}

An empty line says only that the command still runs.
"""

import base64
import binascii
from typing import Literal

from pydantic import TypeAdapter, field_serializer, field_validator

from gym_core.http.problem import ErrorReply
from gym_core.sandbox.contract import ExecResult
from gym_core.types.wire import Wire

BEAT = b"\n"


class ExecEnd(Wire):
    """An `ExecResult` without the output, which went ahead."""

    exit_code: int | None
    signal: int | None
    timed_out: bool
    truncated: bool


class OutputFrame(Wire):
    stream: Literal["stdout", "stderr"]
    data: bytes

    @field_serializer("data", when_used="json")
    def _to_text(self, data: bytes) -> str:
        return base64.b64encode(data).decode()

    @field_validator("data", mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise ValueError(f"not base64: {error}") from error


class ResultFrame(Wire):
    result: ExecEnd

    @classmethod
    def of(cls, result: ExecResult) -> "ResultFrame":
        return cls(result=ExecEnd(**result.model_dump(exclude={"stdout", "stderr"})))


def line(frame: Wire) -> bytes:
    return frame.model_dump_json().encode() + b"\n"


ExecFrame = OutputFrame | ResultFrame | ErrorReply
_FRAMES: TypeAdapter[ExecFrame] = TypeAdapter(ExecFrame)


def parse_line(text: bytes) -> ExecFrame:
    """Raises ValueError."""
    return _FRAMES.validate_json(text)
