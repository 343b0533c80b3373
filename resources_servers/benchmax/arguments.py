"""Whether a call's arguments are what the tool declared: asked when a tool raised, to tell whose mistake it was. Pure.

Tools get the arguments as the model wrote them, as their classes expect. But a model must not be able to get its sample
masked by writing what a careless tool trips over. The schema is the class's, the arguments are anybody's: nothing is
fetched, and neither a pattern nor a schema that refers to itself takes long.
"""

import sys
from collections.abc import Iterator
from itertools import islice

import jsonschema_rs

from gym_core.types.wire import JsonObject

MAX_SHOWN = 8
MAX_MISFIT_CHARS = 300
MAX_DEPTH = 100
"""The validator goes no deeper than 255."""
MAX_LOOKS = 10_000
"""At values, by a schema that refers to itself: each level of theirs may be looked at once for each of its choices."""
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)
"""In linear time but for look-arounds, which are bounded."""
_CHOICES = ("anyOf", "oneOf", "allOf")
_MORE_NAMES = frozenset({"additionalProperties", "patternProperties", "$ref", "if", *_CHOICES})
"""Words by which a schema may allow arguments that its `properties` do not name."""


def misfits(arguments: JsonObject, schema: JsonObject) -> list[str]:
    """What does not fit the schema, for the model; [] when all does.

    Numbers that no float holds fit nowhere, nor does what is too deep or too much to be looked at. Of what is no JSON
    schema only the names of arguments are taken.
    """
    if why := _unreadable(arguments, schema):
        return [why]
    found = [f"there is no argument {name[:64]!r}" for name in _unknown(arguments, schema)]
    try:
        found += islice(_mistakes(arguments, schema), MAX_SHOWN)
    except ValueError:
        found += _missing(arguments, schema)
    return found[:MAX_SHOWN]


def schema_fault(schema: JsonObject) -> str | None:
    """Why arguments cannot be held to it; None for a JSON schema that stands on its own."""
    try:
        _validator(schema)
    except ValueError as error:
        return str(error).partition("\n")[0][:MAX_MISFIT_CHARS]
    return None


def _validator(schema: JsonObject) -> jsonschema_rs.Validator:
    """Raises ValueError for what is no schema, and for one that refers to another place."""
    return jsonschema_rs.validator_for(schema, mask="it", pattern_options=_PATTERNS, offline=True)


def _mistakes(arguments: JsonObject, schema: JsonObject) -> Iterator[str]:
    for error in _validator(schema).iter_errors(arguments):
        place = ".".join(map(str, error.instance_path))
        yield (f"{place[:100]}: {error.message}" if place else error.message)[:MAX_MISFIT_CHARS]


def _unreadable(arguments: JsonObject, schema: JsonObject) -> str | None:
    """What tools of any schema trip over, and the validator."""
    choices, looks = _choices(schema), 0
    level: list[object] = [arguments]
    for depth in range(MAX_DEPTH):
        if any(isinstance(value, int | float) and not _is_number(value) for value in level):
            return "a number is too large, or is none"
        looks += len(level) * choices**depth
        if choices and looks > MAX_LOOKS:
            return "they are too large to be held to the schema"
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return None
    return f"they are nested more than {MAX_DEPTH} deep"


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _is_number(value: float) -> bool:
    """Compared and not converted: no float is made of an int that is too large. False for NaN."""
    return abs(value) <= sys.float_info.max


def _choices(schema: JsonObject) -> int:
    """The most schemas that lie upon one value of one that refers to itself; 0 without a reference."""
    most, refers, left = 1, False, list[object]([schema])
    while left:
        part = left.pop()
        left += _inside(part)
        if isinstance(part, dict):
            refers = refers or any(word.endswith("ef") and word.startswith("$") for word in part)
            lists = sum(len(_inside(part.get(word))) for word in (*_CHOICES, "patternProperties"))
            most = max(most, lists + 2 * ("if" in part) + ("not" in part))
    return most if refers else 0


def _unknown(arguments: JsonObject, schema: JsonObject) -> list[str]:
    if _MORE_NAMES & schema.keys():
        return []
    declared = schema.get("properties")
    return [name for name in arguments if not isinstance(declared, dict) or name not in declared]


def _missing(arguments: JsonObject, schema: JsonObject) -> list[str]:
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return [f"{name!r} is missing" for name in names if name not in arguments]
