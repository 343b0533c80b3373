"""Whether a call's arguments are what the tool declared: asked when a tool raised, to tell whose mistake it was. Pure.

Tools get the arguments as the model wrote them, as their classes expect. But a model must not be able to get its sample
masked by writing what a careless tool trips over. The schema is the class's, the arguments are anybody's: nothing is
fetched, and neither a pattern nor a schema that refers to itself takes long.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from itertools import islice

import jsonschema_rs

from gym_core.types.wire import JsonObject
from resources_servers.benchmax.looks import branches_of, count_looks, inside

MAX_SHOWN = 8
MAX_MISFIT_CHARS = 300
MAX_DEPTH = 100
"""The validator goes no deeper than 255."""
MAX_NAMED_LOOKS = 10_000
"""To name a mistake takes a hundred times as long as to see that there is one."""
_MORE_NAMES = frozenset({"patternProperties", "$ref"})
"""Words by which a schema may allow arguments that it does not name, beside `additionalProperties`."""
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)
"""In linear time but for look-arounds, which are bounded."""


def misfits(arguments: JsonObject, schema: JsonObject) -> list[str]:
    """What does not fit the schema, for the model; [] when all does.

    Numbers that no float holds fit nowhere, nor does what is nested too deep. Only the names of arguments are looked at
    where the schema is no JSON schema, or would take long: what is not looked at is no mistake.
    """
    if why := _unreadable(arguments):
        return [why]
    found = [_no_argument(name) for name in _unknown(arguments, schema)]
    looks = count_looks(arguments, schema)
    try:
        if looks is None:
            found += _missing(arguments, schema)
        elif looks <= MAX_NAMED_LOOKS:
            found += islice(_mistakes(arguments, schema), MAX_SHOWN)
        elif not _validator(schema).is_valid(arguments):
            found.append("they do not fit the schema")
    except ValueError:
        found += _missing(arguments, schema)
    return found[:MAX_SHOWN]


def names_taken(arguments: JsonObject, schema: JsonObject, method: Callable[..., object], positional: int) -> list[str]:
    """Mistakes, for the model: what nobody can give by name, because the method is called with it by position.

    A name that the schema declares all the same is the environment's mistake, and not among them.
    """
    function = getattr(method, "__func__", method)
    given = list(inspect.signature(function).parameters.values())[: positional + inspect.ismethod(method)]
    taken = {one.name for one in given if one.kind is one.POSITIONAL_OR_KEYWORD} - _names(schema)
    return [_no_argument(name) for name in arguments if name in taken]


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


def _no_argument(name: str) -> str:
    return f"there is no argument {name[:64]!r}"


def _mistakes(arguments: JsonObject, schema: JsonObject) -> Iterator[str]:
    for error in _validator(schema).iter_errors(arguments):
        place = ".".join(map(str, error.instance_path))
        yield (f"{place[:100]}: {error.message}" if place else error.message)[:MAX_MISFIT_CHARS]


def _unreadable(arguments: JsonObject) -> str | None:
    """What tools of any schema trip over, and the validator."""
    level: list[object] = [arguments]
    for _ in range(MAX_DEPTH):
        if any(isinstance(value, int | float) and not _is_number(value) for value in level):
            return "a number is too large, or is none"
        level = [inner for value in level for inner in inside(value)]
        if not level:
            return None
    return f"they are nested more than {MAX_DEPTH} deep"


def _is_number(value: float) -> bool:
    """Compared and not converted: no float is made of an int that is too large. False for NaN."""
    return abs(value) <= sys.float_info.max


def _unknown(arguments: JsonObject, schema: JsonObject) -> list[str]:
    if _allows_more(schema):
        return []
    names = _names(schema)
    return [name for name in arguments if name not in names]


def _allows_more(schema: JsonObject) -> bool:
    """Whether it may allow arguments that it does not name."""
    if schema.get("additionalProperties", False) is not False or _MORE_NAMES & schema.keys():
        return True
    return any(_allows_more(branch) for branch in branches_of(schema))


def _names(schema: JsonObject) -> set[str]:
    """Of its properties, and its branches'."""
    declared = schema.get("properties")
    names = set(declared) if isinstance(declared, dict) else set[str]()
    return names.union(*map(_names, branches_of(schema)))


def _missing(arguments: JsonObject, schema: JsonObject) -> list[str]:
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return [f"{name!r} is missing" for name in names if name not in arguments]
