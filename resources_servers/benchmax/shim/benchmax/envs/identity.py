"""Ids of examples by their content."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence

_MAX_SAFE = 2**53 - 1
"""The largest whole number that every JSON reader keeps exactly."""


def canonical_example_id(value: object) -> str:
    """SHA-256 of the value as sorted, compact JSON; 1.0 and 1 are one number. Raises ValueError for what is no JSON."""
    canonical = json.dumps(
        {"v": 1, "value": _canonical(value)}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def _canonical(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        value.encode("utf-8")  # a lone surrogate is a UnicodeEncodeError, which is a ValueError
        return value
    if isinstance(value, int | float):
        return _canonical_number(value)
    if isinstance(value, Mapping):
        if any(not isinstance(key, str) for key in value):
            raise ValueError("keys that an id is made of must be texts")
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_canonical(item) for item in value]
    raise ValueError(f"no id can be made of a {type(value).__name__}")


def _canonical_number(value: float) -> float:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"no id can be made of {value!r}")
        if not value.is_integer():
            return value
        value = int(value)
    if abs(value) > _MAX_SAFE:
        raise ValueError(f"no id can be made of {value}: beyond ±(2^53 - 1)")
    return value
