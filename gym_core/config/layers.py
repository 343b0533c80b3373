"""The layers of a configuration: files read depth first, each once, laid over each other with each leaf's origin."""

import re
from dataclasses import dataclass
from pathlib import Path

from gym_core.config.documents import Document, read_document
from gym_core.config.overrides import Override, check_override, list_on_the_way, replaced
from gym_core.config.roots import TYPE_ALIASES, TYPE_WORDS, Roots, find_config
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject

COMMAND_LINE = "command line"
ENV_FILE = "env.yaml"
_ABOUT_THE_FILE = ("config_paths", "description")
"""Keys that speak of the file they stand in and are no values of the run."""

_ALIAS_IN_REFERENCE = re.compile(r"(?<=\.)(" + "|".join(TYPE_ALIASES) + r")(?=[.}])")


@dataclass(frozen=True)
class Origin:
    """Where a value was written."""

    source: str
    """A file, "env.yaml", "command line" or "environment variable NAME"."""
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True)
class Layer:
    source: str
    values: JsonObject
    lines: dict[str, int]


class LayerReader:
    """Reads files depth first into layers, each file once."""

    def __init__(self, roots: Roots) -> None:
        self.layers: list[Layer] = []
        self.files: list[Path] = []
        self.problems: list[str] = []
        self._roots = roots

    def read(self, name: str, *, beside: Path | None, chain: tuple[Path, ...]) -> None:
        try:
            path = find_config(name, self._roots, beside=beside)
        except ConfigError as error:
            by = f" (included by {self._roots.label(beside)})" if beside else ""
            self.problems += [problem + by for problem in error.problems]
            return
        self.read_file(path, source=self._roots.label(path), chain=chain)

    def read_file(self, path: Path, *, source: str, chain: tuple[Path, ...]) -> None:
        if path in chain:
            names = " -> ".join(self._roots.label(item) for item in (*chain[chain.index(path) :], path))
            self.problems.append(f"config: config_paths include each other in a circle: {names}")
            return
        if path in self.files:
            return
        try:
            document = read_document(path, source)
        except ConfigError as error:
            self.problems += error.problems
            return
        for name in self._includes(document):
            self.read(name, beside=path, chain=(*chain, path))
        self.files.append(path)
        values = {key: value for key, value in document.values.items() if key not in _ABOUT_THE_FILE}
        self.layers.append(_normalised(Layer(source, values, document.lines)))

    def _includes(self, document: Document) -> list[str]:
        includes = document.values.get("config_paths") or []
        if isinstance(includes, list) and all(isinstance(item, str) for item in includes):
            return includes
        self.problems.append(f"config: {document.source}: config_paths is a list of file names")
        return []


class Merged:
    """The layers laid over each other, with the origin of each leaf."""

    def __init__(self) -> None:
        self.values: JsonObject = {}
        self.origin: dict[str, Origin] = {}
        self.problems: list[str] = []
        self.deleted: set[str] = set()
        """Dotted paths of mappings that a later layer set to null."""

    def add_layer(self, layer: Layer) -> None:
        self._merge(self.values, layer.values, "", layer)

    def apply(self, change: Override) -> None:
        problem = check_override(change, self.values)
        if problem is not None:
            self.problems.append(problem)
            return
        value, path = change.value, change.path
        into_list = list_on_the_way(change, self.values)
        if into_list is not None:
            path = into_list
            value = replaced(self._at(path), change.path[len(path) :], value)
        for name in reversed(path):
            value = {name: value}
        if isinstance(value, dict):
            self.add_layer(_normalised(Layer(COMMAND_LINE, value, {})))

    def _at(self, path: tuple[str, ...]) -> object:
        here: object = self.values
        for name in path:
            here = here[name] if isinstance(here, dict) else None
        return here

    def _merge(self, into: JsonObject, values: JsonObject, above: str, layer: Layer) -> None:
        for key, value in values.items():
            path = f"{above}.{key}" if above else key
            if isinstance(value, dict) and value:
                if not isinstance(into.get(key), dict):
                    self._forget(path)
                    into[key] = {}
                self._merge(into[key], value, path, layer)
            elif isinstance(value, dict) and isinstance(into.get(key), dict):
                continue  # an empty mapping adds nothing to a mapping
            else:
                if value is None and isinstance(into.get(key), dict):
                    self.deleted.add(path)
                self._forget(path)
                into[key] = value
                self.origin[path] = Origin(layer.source, layer.lines.get(path))

    def _forget(self, path: str) -> None:
        for known in [known for known in self.origin if known == path or known.startswith(path + ".")]:
            del self.origin[known]


def _normalised(layer: Layer) -> Layer:
    """NeMo Gym's words for server types replaced by ours, so that both name one block, in keys and in `${...}`."""
    values = {key: _own_words(value) if isinstance(value, dict) else value for key, value in layer.values.items()}
    return Layer(layer.source, _own_references(values), {_own_path(path): line for path, line in layer.lines.items()})


def _own_words(block: JsonObject) -> JsonObject:
    renamed: JsonObject = {}
    for key, value in block.items():
        own = TYPE_WORDS[key].value if key in TYPE_WORDS else key
        both = isinstance(value, dict) and isinstance(renamed.get(own), dict)
        renamed[own] = {**renamed[own], **value} if both else value
    return renamed


def _own_references(value: JsonObject) -> JsonObject:
    def own(item: object) -> object:
        if isinstance(item, dict):
            return {key: own(inner) for key, inner in item.items()}
        if isinstance(item, list):
            return [own(inner) for inner in item]
        if isinstance(item, str) and "${" in item:
            return _ALIAS_IN_REFERENCE.sub(lambda match: TYPE_ALIASES[match[1]].value, item)
        return item

    return {key: own(item) for key, item in value.items()}


def _own_path(path: str) -> str:
    parts = path.split(".")
    if len(parts) > 1 and parts[1] in TYPE_WORDS:
        parts[1] = TYPE_WORDS[parts[1]].value
    return ".".join(parts)
