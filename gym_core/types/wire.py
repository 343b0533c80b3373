"""The base class of everything that crosses a process or a file, and the name for JSON that is only carried."""

from typing import Any

from pydantic import BaseModel, ConfigDict

JsonObject = dict[str, Any]
"""JSON we carry and do not look into. Any: its shape belongs to somebody else."""


class Wire(BaseModel):
    """Frozen, extras forbidden: a typo on our own wire is an error and never a silence."""

    model_config = ConfigDict(frozen=True, extra="forbid")
