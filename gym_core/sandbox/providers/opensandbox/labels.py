"""Metadata of sandboxes, which OpenSandbox keeps as Kubernetes labels: short words of few characters.

What fits stands as it is, for whoever looks at the cluster; the rest is cut into pieces that fit, and comes back whole.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping

OWN = "gym."
"""Every key of ours begins so, except metadata whose key and value fit."""

MARK, ID, OWNER, PROVIDER, ATTEMPT, EXPIRES = (
    f"{OWN}{word}" for word in ("sandbox", "id", "owner", "provider", "attempt", "expires")
)
_REST = f"{OWN}rest"

_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_LONGEST = 63
_MOST_PIECES = 200


def written(metadata: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Labels for `metadata` of a user and `own`, whose keys are the constants of this module."""
    plain = {key: value for key, value in metadata.items() if _is_word(key) and _is_word(value) and not _is_own(key)}
    rest = {key: value for key, value in metadata.items() if key not in plain}
    labels = dict(plain)
    for key, value in own.items():
        labels |= _spread(key, value)
    return labels | (_spread(_REST, json.dumps(rest)) if rest else {})


def own_word(labels: Mapping[str, str], key: str) -> str:
    """The value of one of ours; "" when there is none."""
    return _gathered(labels, key)


def metadata_of(labels: Mapping[str, str]) -> dict[str, str]:
    """The user's part, as it was given."""
    plain = {key: value for key, value in labels.items() if not _is_own(key)}
    try:
        rest = json.loads(_gathered(labels, _REST) or "{}")
    except ValueError:
        rest = {}
    return plain | ({str(key): str(value) for key, value in rest.items()} if isinstance(rest, dict) else {})


def _is_word(text: str) -> bool:
    return len(text) <= _LONGEST and _WORD.fullmatch(text) is not None


def _is_own(key: str) -> bool:
    return key.startswith((OWN, "opensandbox.io/"))


def _spread(key: str, value: str) -> dict[str, str]:
    if _is_word(value):
        return {key: value}
    coded = base64.b32encode(value.encode()).decode().rstrip("=")
    pieces = [coded[start : start + _LONGEST] for start in range(0, len(coded), _LONGEST)]
    return {f"{key}.{number}": piece for number, piece in enumerate(pieces)}


def _gathered(labels: Mapping[str, str], key: str) -> str:
    if key in labels:
        return labels[key]
    coded = ""
    for number in range(_MOST_PIECES):
        if f"{key}.{number}" not in labels:
            break
        coded += labels[f"{key}.{number}"]
    try:
        return base64.b32decode(coded + "=" * (-len(coded) % 8)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
