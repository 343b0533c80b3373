"""The base class of everything that crosses a process or a file, and the name for JSON that is only carried."""

from typing import Annotated, Any, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, SecretStr, SerializationInfo

JsonObject = dict[str, Any]
"""JSON we carry and do not look into. Any: its shape belongs to somebody else."""

MAX_WHOLE = 2**63 - 1
WholeNumber = Annotated[int, Field(strict=True, ge=0, le=MAX_WHOLE)]
"""An integer as JSON writes it, of 63 bits: neither true, nor "2", nor more than other programs can hold."""


class Wire(BaseModel):
    """Frozen, extras forbidden: a typo on our own wire is an error and never a silence."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BulkyWire(Wire):
    """One that may carry pictures: msgspec reads and writes their text in a third of pydantic's time."""

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Raises ValueError: pydantic's for what does not fit, a plain one for what is no JSON."""
        try:
            found = msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"not JSON: {error}") from error
        return cls.model_validate(found)

    def to_json(self, *, exclude_none: bool = False) -> bytes:
        return msgspec.json.encode(self.model_dump(exclude_none=exclude_none))


def _serialize_secret(secret: SecretStr, info: SerializationInfo) -> str:
    context = info.context
    return secret.get_secret_value() if isinstance(context, dict) and context.get("reveal") else "****"


Secret = Annotated[SecretStr, PlainSerializer(_serialize_secret, return_type=str)]
"""A secret field: "****" wherever it is written, but for `model_dump(context={"reveal": True})` towards its owner."""
