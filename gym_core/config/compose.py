"""Files, `env.yaml` and overrides to one plain mapping that knows where each value came from. The only OmegaConf user.

Order, later wins: the files with what they include (depth first, so the including file wins over what it includes and
a later sibling over an earlier one; a file that is included twice counts once, where it first appears), then `env.yaml`
of the working folder, then the overrides.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gym_core.config.directives import refused_directives
from gym_core.config.layers import ENV_FILE, LayerReader, Merged, Origin
from gym_core.config.nearest import hint
from gym_core.config.overrides import Override, parse_overrides
from gym_core.config.roots import Roots
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject

MISSING = "???"

_REFERENCE = re.compile(r"\$\{\s*([A-Za-z_][\w.-]*)\s*\}")
_SELECTED = re.compile(r"\$\{\s*oc\.select\s*:\s*([\w.-]+)")
_VARIABLE = re.compile(r"\$\{\s*oc\.env\s*:\s*([A-Za-z_]\w*)\s*(,)?")
_WHOLE_VARIABLE = re.compile(r"^\$\{\s*oc\.env\s*:\s*([A-Za-z_]\w*)[^{}]*\}$")
_WHOLE_REFERENCE = re.compile(r"^\$\{\s*(?:oc\.select\s*:\s*)?([A-Za-z_][\w.-]*)\s*(?:,[^{}]*)?\}$")


@dataclass(frozen=True)
class Composed:
    """A run's whole configuration, plain and resolved, not yet checked."""

    values: JsonObject
    origin: dict[str, Origin]
    """Dotted path of each leaf (a list is one leaf) to where it was written."""
    files: tuple[Path, ...]
    roots: Roots
    interpolated: frozenset[str] = frozenset()
    """Dotted paths that some `${...}` of some file reads."""
    unresolved: dict[str, str] = field(default_factory=dict)
    """Dotted path to what is wrong: missing values and interpolations that lead nowhere; None stands in `values`."""
    deleted: frozenset[str] = frozenset()
    """Top-level blocks that a later layer set to null."""

    def origin_of(self, path: str) -> Origin | None:
        """Where a value, or the first value under a mapping, or else the nearest mapping above was written."""
        if path in self.origin:
            return self.origin[path]
        while path:
            under = next((where for known, where in self.origin.items() if known.startswith(path + ".")), None)
            if under is not None:
                return under
            path = path.rpartition(".")[0]
        return None


def compose_config(config_paths: Sequence[str | Path], overrides: Sequence[str] = (), *, roots: Roots) -> Composed:
    """Raises ConfigError with every problem that hides what the configuration is; the rest stays in `unresolved`."""
    changes = parse_overrides(overrides)
    reader = LayerReader(roots)
    for name in [*map(str, config_paths), *_added_files(changes)]:
        reader.read(name, beside=None, chain=())
    if (Path.cwd() / ENV_FILE).is_file():
        reader.read_file(Path.cwd() / ENV_FILE, source=ENV_FILE, chain=())
    merged = Merged()
    for layer in reader.layers:
        merged.add_layer(layer)
    for change in changes:
        if change.dotted != "config_paths":
            merged.apply(change)
    problems = [*reader.problems, *merged.problems]
    texts = [text for layer in reader.layers for text in _texts(layer.values)] + list(_texts(merged.values))
    problems += refused_directives(merged.values, texts)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    resolver = _Resolver(merged)
    values = resolver.resolve()
    return Composed(
        values=values,
        origin=resolver.origins(),
        files=tuple(reader.files),
        roots=roots,
        interpolated=frozenset(name for text in texts for name in _names_read(text)),
        unresolved=resolver.unresolved,
        deleted=frozenset(name for name in merged.deleted if values.get(name, "") is None),
    )


def _added_files(changes: Sequence[Override]) -> list[str]:
    added: list[str] = []
    for change in changes:
        if change.dotted == "config_paths":
            added += [str(item) for item in (change.value if isinstance(change.value, list) else [change.value])]
    return added


@dataclass(frozen=True)
class _DeadEnd:
    """An interpolation that leads nowhere."""

    raw: str
    complaint: str
    """OmegaConf's."""


class _Resolver:
    """Replaces every `${...}` by its value and notes every `???` and every dead end."""

    def __init__(self, merged: Merged) -> None:
        self.unresolved: dict[str, str] = {}
        self._merged = merged
        self._raw_of: dict[str, str] = {}
        """Of leaves outside lists: where their values come from can be followed."""
        self._dead: dict[str, _DeadEnd] = {}

    def resolve(self) -> JsonObject:
        from omegaconf import OmegaConf

        raw = self._merged.values
        config = OmegaConf.create({key: self._readable(value, key) for key, value in raw.items()})
        values = {key: self._plain(config, key, value, key) for key, value in raw.items()}
        for path, dead in self._dead.items():
            self._explain(path, dead)
        return values

    def origins(self) -> dict[str, Origin]:
        """Origins with `${key}` followed to where `key` was written, and `${oc.env:X}` to the variable."""
        origin = self._merged.origin
        return {path: self._origin_behind(path, frozenset({path})) for path in origin}

    def _readable(self, value: object, path: str, *, in_list: bool = False) -> object:
        """The value without what OmegaConf would choke on as a whole, so that each mistake gets its own message."""
        from omegaconf import OmegaConf
        from omegaconf.errors import GrammarParseError

        if isinstance(value, dict):
            return {key: self._readable(item, f"{path}.{key}", in_list=in_list) for key, item in value.items()}
        if isinstance(value, list):
            return [self._readable(item, path, in_list=True) for item in value]
        if value == MISSING:
            self.unresolved[path] = f"config: {path}: missing; give ++{path}=VALUE{self._at(path)}"
        if isinstance(value, str) and "${" in value:
            try:
                OmegaConf.create({"value": value})
            except GrammarParseError:
                self.unresolved[path] = f"config: {path}: not a well-formed ${{...}}{self._at(path)}"
                return None
            if not in_list:
                self._raw_of[path] = value
        return value

    def _plain(self, node: Any, key: str | int, raw: object, path: str) -> object:  # Any: an OmegaConf container
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        if isinstance(raw, dict):
            return {name: self._plain(node[key], name, item, f"{path}.{name}") for name, item in raw.items()}
        if isinstance(raw, list):
            return [self._plain(node[key], index, item, path) for index, item in enumerate(raw)]
        if raw == MISSING or path in self.unresolved:
            return None
        if not (isinstance(raw, str) and "${" in raw):
            return raw
        try:
            value = node[key]
            return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
        except OmegaConfBaseException as error:
            self._dead[path] = _DeadEnd(raw, str(error).splitlines()[0])
            return None

    def _explain(self, path: str, dead: "_DeadEnd") -> None:
        """Note why an interpolation has no value, at the key that lacks it: ten users of a key make one problem."""
        raw, values = dead.raw, self._merged.values
        names = _REFERENCE.findall(raw)
        unset = [name for name, default in _VARIABLE.findall(raw) if not default and name not in os.environ]
        absent = [name for name in names if not _exists(values, name)]
        if unset:
            self.unresolved[path] = f"config: {path}: the environment variable {unset[0]} is not set{self._at(path)}"
        elif absent:
            name = absent[0]
            near = hint(name, _paths_like(values, name)) if "." in name else ""
            used = f"config: {name}: missing, used by {path}; give ++{name}=VALUE{near}{self._at(path)}"
            is_said = any(text.startswith(f"config: {name}: ") for text in self.unresolved.values())
            self.unresolved[path] = "" if is_said else used
        elif "Recursive" not in dead.complaint and any(name in self._dead or name in self.unresolved for name in names):
            self.unresolved[path] = self.unresolved.get(path, "")
        else:
            self.unresolved[path] = f"config: {path}: {dead.complaint}{self._at(path)}"

    def _origin_behind(self, path: str, seen: frozenset[str]) -> Origin:
        raw = self._raw_of.get(path, "")
        variable = _WHOLE_VARIABLE.match(raw)
        if variable and variable[1] in os.environ:
            return Origin(f"environment variable {variable[1]}")
        reference = _WHOLE_REFERENCE.match(raw)
        if reference and reference[1] in self._merged.origin and reference[1] not in seen:
            return self._origin_behind(reference[1], seen | {path})
        return self._merged.origin[path]

    def _at(self, path: str) -> str:
        origin = self._merged.origin.get(path)
        return "" if origin is None else f" ({origin})"


def _texts(value: object) -> Iterator[str]:
    """Every string with an interpolation."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str) and "${" in value:
        yield value


def _names_read(text: str) -> list[str]:
    return [*_REFERENCE.findall(text), *_SELECTED.findall(text)]


def _exists(values: JsonObject, dotted: str) -> bool:
    here: object = values
    for name in dotted.split("."):
        if not isinstance(here, dict) or name not in here:
            return False
        here = here[name]
    return True


def _paths_like(values: JsonObject, dotted: str) -> list[str]:
    """Every path of the same depth."""

    def paths(here: JsonObject, above: str, depth: int) -> Iterator[str]:
        for key, value in here.items():
            path = f"{above}.{key}" if above else key
            if depth == 1:
                yield path
            elif isinstance(value, dict):
                yield from paths(value, path, depth - 1)

    return list(paths(values, "", dotted.count(".") + 1))
