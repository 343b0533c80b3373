"""`gym config show`: the merged configuration, secrets masked, each value with where it was written."""

import argparse
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gym_core.cli.selection import Selection
from gym_core.cli.terminal import printable, say, tell

if TYPE_CHECKING:
    from gym_core.config.compose import Composed
    from gym_core.types.wire import JsonObject

_PLAIN = re.compile(r"[A-Za-z0-9_./$(~-][A-Za-z0-9_./:$()=+~-]*(?<!:)")
"""Text that YAML takes as it stands, by a wide margin."""
_MAX_VALUE_COLUMN = 72
"""Longer values push only their own comment to the right."""


def show_command(args: argparse.Namespace) -> int:
    from gym_core.config.secrets import literal_secret_warnings, redact

    checked = Selection.of(args).check()
    composed = checked.composed
    view = redact(composed.values, checked.secrets)
    if args.json:
        origin = {path: str(where) for path, where in composed.origin.items()}
        say(json.dumps({"values": view, "origin": origin}, indent=2))
        return 0
    for line in commented_lines(view, composed):
        say(line)
    for warning in literal_secret_warnings(composed.values, composed.origin, checked.secrets):
        tell(warning)
    return 0


def commented_lines(view: "JsonObject", composed: "Composed") -> list[str]:
    """YAML of the values with aligned comments that name each one's origin."""
    lines = list(_lines(view, "", 0, composed))
    width = min(max((len(text) for text, comment in lines if comment), default=0), _MAX_VALUE_COLUMN)
    return [f"{text.ljust(width)}  # {comment}" if comment else text for text, comment in lines]


def _lines(values: "JsonObject", above: str, depth: int, composed: "Composed") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        path = f"{above}.{key}" if above else key
        indent = "  " * depth
        if isinstance(value, dict) and value and path not in composed.origin:
            yield f"{indent}{_scalar(key)}:", ""
            yield from _lines(value, path, depth + 1, composed)
        else:
            where = composed.origin_of(path)
            yield f"{indent}{_scalar(key)}: {_inline(value)}", printable(str(where)) if where else ""


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return _scalar(value)


def _scalar(value: object) -> str:
    """As YAML reads it back: plain where that is the same value, else quoted."""
    from gym_core.config.documents import parse_value

    if not isinstance(value, str):
        return json.dumps(value)
    is_plain = _PLAIN.fullmatch(value) is not None and parse_value(value) == value
    return value if is_plain else json.dumps(value)
