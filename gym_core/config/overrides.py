"""The words of the command line that change single values: `++a.b=v`, `+a.b=v`, `a.b=v`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gym_core.config.documents import parse_value
from gym_core.config.nearest import hint
from gym_core.config.roots import TYPE_WORDS
from gym_core.config.user_info import without_user_info
from gym_core.errors import ConfigError

_WORD = re.compile(r"(?s)^(?P<kind>\+{0,2})(?P<path>[^\s.=+~-][^\s.=]*(?:\.[^\s.=]+)*)=(?P<value>.*)$")

GRAMMAR = "write ++key=value (add or replace), +key=value (add) or key=value (replace)"


class OverrideKind(StrEnum):
    ADD_OR_REPLACE = "++"
    ADD = "+"
    REPLACE = ""


@dataclass(frozen=True)
class Override:
    kind: OverrideKind
    path: tuple[str, ...]
    value: object

    @property
    def dotted(self) -> str:
        return ".".join(self.path)


def parse_overrides(words: Sequence[str]) -> list[Override]:
    """Raises ConfigError with every malformed word. Values are never shown: they may be keys."""
    overrides: list[Override] = []
    problems: list[str] = []
    for word in words:
        try:
            overrides.append(parse_override(word))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return overrides


def parse_override(word: str) -> Override:
    key = word.partition("=")[0]
    if key.startswith("~"):
        raise ConfigError(f"config: {key!r}: deleting is not supported; set the key to null: {key.lstrip('~')}=null")
    match = _WORD.match(word)
    if match is None:
        raise ConfigError(f"config: {without_user_info(repr(key))} is not an override; {GRAMMAR}")
    try:
        value = parse_value(match["value"])
    except ValueError as cause:
        raise ConfigError(f"config: {match['path']}: the value on the command line has {cause}") from cause
    return Override(OverrideKind(match["kind"]), _normalised(tuple(match["path"].split("."))), value)


def check_override(override: Override, values: Mapping[str, object]) -> str | None:
    """What is wrong with applying it to the values so far, or None."""
    here: object = values
    for depth, name in enumerate(override.path):
        above = ".".join(override.path[:depth])
        if isinstance(here, list):
            if not (name.isdecimal() and int(name) < len(here)):
                return (
                    f"config: {override.dotted}: {above!r} is a list of {len(here)}; give an index, or replace it whole"
                )
            here = here[int(name)]
        elif isinstance(here, dict):
            if name not in here:
                return None if override.kind is not OverrideKind.REPLACE else _absent(override, hint(name, here))
            here = here[name]
        elif here is None and override.kind is not OverrideKind.REPLACE:
            return None
        else:
            return f"config: {override.dotted}: {above!r} is a single value, with nothing under it"
    if override.kind is OverrideKind.ADD:
        return f"config: {override.dotted}: exists, and +key=value only adds; use ++ to replace it"
    return None


def list_on_the_way(override: Override, values: Mapping[str, object]) -> tuple[str, ...] | None:
    """The path of the first list that the override goes into, or None."""
    here: object = values
    for depth, name in enumerate(override.path):
        if isinstance(here, list):
            return override.path[:depth]
        here = here.get(name) if isinstance(here, dict) else None
    return None


def replaced(value: object, path: Sequence[str], new: object) -> object:
    """A copy of a value with `new` at a path inside it; mappings on the way are made where there are none."""
    if not path:
        return new
    name, rest = path[0], path[1:]
    if isinstance(value, list):
        return [replaced(item, rest, new) if index == int(name) else item for index, item in enumerate(value)]
    inside = value if isinstance(value, dict) else {}
    return {**inside, name: replaced(inside.get(name), rest, new)}


def _absent(override: Override, near: str) -> str:
    return f"config: {override.dotted}: does not exist, and key=value only replaces; use ++ to add it{near}"


def _normalised(path: tuple[str, ...]) -> tuple[str, ...]:
    if len(path) > 1 and path[1] in TYPE_WORDS:
        return (path[0], TYPE_WORDS[path[1]].value, *path[2:])
    return path
