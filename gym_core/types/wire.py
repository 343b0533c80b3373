"""The base class of everything that crosses a process or a file, and the name for JSON that is only carried."""

from typing import Annotated, Any, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, SecretStr, SerializationInfo
from pydantic.fields import FieldInfo

JsonObject = dict[str, Any]
"""JSON we carry and do not look into. Any: its shape belongs to somebody else."""

MAX_WHOLE = 2**63 - 1


def whole(least: int = 0, most: int = MAX_WHOLE) -> FieldInfo:
    """An integer as JSON writes it, neither true nor "2", from `least` to `most`: `Annotated[int, whole(1, 9)]`.

    Limits stand here alone: pydantic lets those of an annotation win over a field's own `le=`.
    """
    found: FieldInfo = Field(strict=True, ge=least, le=most)
    return found


WholeNumber = Annotated[int, whole()]
"""Of 63 bits: not more than other programs can hold."""


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
