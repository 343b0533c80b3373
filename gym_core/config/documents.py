"""YAML text to plain values, with the line of every key. Only the scalars of YAML 1.2 are special.

PyYAML's own rules read `no` as false, `12:30:00` as a number and `2024-01-01` as a date; model names and ids look like
that, so these stay text here.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject

MAX_FILE_BYTES = 4 << 20
"""A configuration is written by hand; something larger is the wrong file."""


MAX_NODES = 100_000
"""Values of one file, those behind an alias counted each time: a few lines of aliases of aliases stand for billions."""


@dataclass(frozen=True)
class Document:
    """One configuration file as written: nothing included, nothing interpolated."""

    source: str
    """The name that messages use."""
    values: JsonObject
    lines: dict[str, int]
    """Dotted path to line, counted from 1."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # PyYAML's own way to start without the rules of YAML 1.1


for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    # A number with leading zeros is an id and stays text.
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("float", r"^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$", "-+."),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("merge", r"^<<$", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))


def read_document(path: Path, source: str) -> Document:
    """Raises ConfigError when the file cannot be read, is not YAML or is not a mapping."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"config: {source}: larger than {MAX_FILE_BYTES >> 20} MiB, not a configuration")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise ConfigError(f"config: {source}: cannot be read: {cause}") from cause
    return parse_document(text, source)


def parse_document(text: str, source: str) -> Document:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(source, {}, {})
        lines: dict[str, int] = {}
        _Walk().walk(node, (), lines, ())
        values = loader.construct_document(node)
    except RecursionError as cause:
        raise ConfigError(f"config: {source}: {_TOO_DEEP}") from cause
    except yaml.YAMLError as cause:
        raise ConfigError(f"config: {source}: not valid YAML: {_one_line(cause)}") from cause
    except _Malformed as cause:
        raise ConfigError(f"config: {source}:{cause.line}: {cause}") from cause
    finally:
        loader.dispose()
    if not isinstance(values, dict):
        raise ConfigError(f"config: {source}: holds a {type(values).__name__}, not a mapping of names")
    return Document(source, values, lines)


def parse_value(text: str) -> object:
    """The value of an override: flow YAML when it opens like it, else one plain scalar, never a comment or an anchor.

    Raises ValueError when brackets or quotes do not close. `key #1`, `&x` and `a: b` are text: keys look like that.
    """
    stripped = text.strip()
    if not stripped:
        return ""
    loader = _Loader(stripped)
    try:
        node = loader.get_single_node()
        is_plain = isinstance(node, yaml.ScalarNode) and node.value == stripped
        if node is not None and (is_plain or stripped[0] in "[{\"'"):
            _Walk().walk(node, (), {}, ())
            return loader.construct_document(node)
    except RecursionError as cause:
        raise ValueError(_TOO_DEEP) from cause
    except (yaml.YAMLError, _Malformed) as cause:
        if stripped[0] in "[{\"'":
            raise ValueError("brackets or quotes that do not close") from cause
    finally:
        loader.dispose()
    return stripped


class _Malformed(Exception):
    def __init__(self, message: str, node: yaml.Node) -> None:
        super().__init__(message)
        self.line = node.start_mark.line + 1


_TOO_DEEP = "lists and mappings nested too deeply"


class _Walk:
    """One pass over a document before anything is made of it: where each key stands, and what JSON cannot hold."""

    def __init__(self) -> None:
        self._nodes = 0

    def walk(
        self, node: yaml.Node, path: tuple[str, ...], lines: dict[str, int], parents: tuple[yaml.Node, ...]
    ) -> None:
        """Fill in `lines`; refuse repeated keys, keys that are not text, a node inside itself, and too many nodes."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _Malformed(f"more than {MAX_NODES:,} values, each counted as often as an alias repeats it", node)
        if node in parents:
            raise _Malformed("an alias stands inside its own anchor", node)
        parents = (*parents, node)
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self.walk(item, (*path, "[]"), {}, parents)
        if not isinstance(node, yaml.MappingNode):
            return
        seen: set[str] = set()
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                self.walk(value, path, {}, parents)
                continue
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise _Malformed(f"the key {key.value!r} is not text; quote it", key)
            if key.value in seen:
                raise _Malformed(f"the key {'.'.join((*path, key.value))!r} is written twice", key)
            seen.add(key.value)
            lines[".".join((*path, key.value))] = key.start_mark.line + 1
            self.walk(value, (*path, key.value), lines, parents)


def _one_line(cause: yaml.YAMLError) -> str:
    return " ".join(str(cause).split())
