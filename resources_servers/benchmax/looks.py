"""How often a validator looks at arguments by a schema that refers to itself. Pure.

A validator forgets what it has looked at: where two parts of a schema lie upon one value, all inside of it is looked at
twice, and so on at each level. Here equal looks are counted together, and no more of them than the limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from gym_core.types.wire import JsonObject

MAX_LOOKS = 200_000
"""So many take a validator less than a tenth of a second."""
MAX_PARTS = 1000
"""That lie upon one value: without end where a part refers to itself in place."""
_BRANCHES = ("anyOf", "oneOf", "allOf", "if", "then", "else", "dependentSchemas", "dependencies")
"""Words whose schemas lie upon the same value as their own."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_OF_MEMBERS = ("patternProperties", "additionalProperties", "unevaluatedProperties")
_OF_ITEMS = ("prefixItems", "items", "additionalItems", "unevaluatedItems", "contains")
_BY_NAME = ("dependentSchemas", "dependencies", "patternProperties")


class _TooMany(Exception):
    """More looks than the limit, or a reference that is not followed here."""


@dataclass
class _Look:
    part: JsonObject
    value: object
    times: int = 0


@dataclass
class _Looks:
    schema: JsonObject
    count: int = 0
    upon: dict[int, list[JsonObject]] = field(default_factory=dict)
    """By the id of a part: it, and what lies upon the same value."""

    def below(self, level: list[_Look]) -> list[_Look]:
        found: dict[tuple[int, int], _Look] = {}
        for look in level:
            for part in self._parts_upon(look.part):
                self._add(look.times)
                for inner, value in _inner_looks(part, look.value):
                    self._add(look.times)
                    if isinstance(inner, dict):
                        found.setdefault((id(inner), id(value)), _Look(inner, value)).times += look.times
        return list(found.values())

    def _add(self, times: int) -> None:
        self.count += times
        if self.count > MAX_LOOKS:
            raise _TooMany

    def _parts_upon(self, part: JsonObject) -> list[JsonObject]:
        if id(part) not in self.upon:
            parts = [part]
            for each in parts:
                referred = [_referred(self.schema, each[word]) for word in _REFERENCES if word in each]
                parts += branches_of(each) + _schemas(each, "not")
                parts += [schema for schema in referred if isinstance(schema, dict)]
                if len(parts) > MAX_PARTS:
                    raise _TooMany
            self.upon[id(part)] = parts
        return self.upon[id(part)]


def count_looks(arguments: JsonObject, schema: JsonObject) -> int | None:
    """At most so many; 0 for a schema without references. None where they are more than `MAX_LOOKS`, or not known.

    Of references only `#` and those like `#/$defs/a` are followed.
    """
    if not _refers(schema):
        return 0
    looks, level = _Looks(schema), [_Look(schema, arguments, 1)]
    try:
        while level:
            level = looks.below(level)
    except _TooMany:
        return None
    return looks.count


def inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def branches_of(part: JsonObject) -> list[JsonObject]:
    return [schema for word in _BRANCHES for schema in _schemas(part, word)]


def _schemas(part: JsonObject, word: str) -> list[JsonObject]:
    """That a word of it holds: one, a list, or one by each name. Without true and false."""
    found = part.get(word)
    schemas = inside(found) if word in _BY_NAME or isinstance(found, list) else [found]
    return [schema for schema in schemas if isinstance(schema, dict)]


def _inner_looks(part: JsonObject, value: object) -> Iterator[tuple[object, object]]:
    """Schemas, each with what it lies upon inside of the value."""
    if isinstance(value, dict):
        named = part.get("properties")
        if isinstance(named, dict):
            yield from ((named[name], value[name]) for name in named.keys() & value.keys())
    words = _OF_MEMBERS if isinstance(value, dict) else _OF_ITEMS
    schemas = [schema for word in words for schema in _schemas(part, word)]
    yield from ((schema, inner) for inner in inside(value) for schema in schemas)


def _refers(schema: JsonObject) -> bool:
    left: list[object] = [schema]
    while left:
        part = left.pop()
        left += inside(part)
        if isinstance(part, dict) and any(word in part for word in _REFERENCES):
            return True
    return False


def _referred(schema: JsonObject, reference: object) -> object:
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise _TooMany
    found: object = schema
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise _TooMany
    return found
