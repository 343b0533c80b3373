"""Whether a call's arguments are what the tool declared: asked when a tool raised, to tell whose mistake it was. Pure.

Tools get the arguments as the model wrote them, as their classes expect. But a model must not be able to get its sample
masked by leaving out what a careless tool takes for granted.
"""

from collections.abc import Mapping

from gym_core.types.wire import JsonObject

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
MAX_SHOWN = 8


def misfits(arguments: JsonObject, schema: JsonObject) -> list[str]:
    """What does not fit the schema, for the model; [] when all does, as far as one level down is looked at."""
    declared, required = schema.get("properties"), schema.get("required")
    properties = declared if isinstance(declared, dict) else {}
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    found = [f"{name!r} is missing" for name in names if name not in arguments]
    for name, value in arguments.items():
        wanted = properties.get(name)
        if wanted is None:
            found.append(f"there is no argument {name[:64]!r}")
        elif isinstance(wanted, Mapping) and (why := _misfit(value, wanted)):
            found.append(f"{name!r} {why}")
    return found[:MAX_SHOWN]


def _misfit(value: object, wanted: Mapping[str, object]) -> str | None:
    named = wanted.get("type")
    names = [named] if isinstance(named, str) else list(named) if isinstance(named, list) else []
    if names and not any(_is_of(value, name) for name in names):
        return f"is no {' or '.join(map(str, names))}"
    choices = wanted.get("enum")
    if isinstance(choices, list) and value not in choices:
        return f"is none of {choices[:MAX_SHOWN]}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        least, most = wanted.get("minimum"), wanted.get("maximum")
        if isinstance(least, int | float) and not value >= least:
            return f"is less than {least}"
        if isinstance(most, int | float) and not value <= most:
            return f"is more than {most}"
    return None


def _is_of(value: object, name: object) -> bool:
    types = _TYPES.get(name) if isinstance(name, str) else None
    if types is None:
        return True  # a word of JSON schema that is not looked at
    if isinstance(value, bool):
        return bool in types
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, types)
