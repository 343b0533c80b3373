"""What pydantic found wrong, in words for people: dotted path, what is wrong with which value, nearest known field."""

import types
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gym_core.config.nearest import hint, nearest

SHOWN_CHARACTERS = 80
_COMPARISONS = {
    "greater_than": ("gt", ">"),
    "greater_than_equal": ("ge", ">="),
    "less_than": ("lt", "<"),
    "less_than_equal": ("le", "<="),
}


def violations(error: ValidationError, owner: type[BaseModel], path: str) -> list[tuple[str, str]]:
    """Pairs of dotted path and sentence, in the order of the fields."""
    found = []
    for details in error.errors(include_url=False):
        place = ".".join([path, *map(str, _visible(details["loc"], owner))]).strip(".")
        found.append((place, _sentence(details, owner)))
    return list(dict.fromkeys(found))


def block_classes(annotation: object) -> Iterable[type[BaseModel]]:
    """Every model class that an annotation can stand for, through unions, lists, mappings and `Annotated`."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        if issubclass(annotation, BaseModel):
            yield annotation
        return
    for argument in get_args(annotation):
        yield from block_classes(argument)


def is_union(annotation: object) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def unwrapped(annotation: object) -> object:
    """`Annotated[X, ...]` as X."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _sentence(details: ErrorDetails, owner: type[BaseModel]) -> str:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "extra_forbidden":
        name = str(details["loc"][-1])
        return f"unknown field{hint(name, _fields_beside(details['loc'], owner))}"
    if kind == "missing":
        return "missing"
    if kind in _COMPARISONS:
        bound, sign = _COMPARISONS[kind]
        return f"{_shown(value)} is not {sign} {context[bound]:g}"
    if kind == "string_type" and isinstance(value, (int, float)):
        return "is a number or a truth value, not text; put it in quotes"
    if kind in ("literal_error", "enum"):
        words = [word.strip("' ") for word in str(context["expected"]).replace(" or ", ", ").split(",")]
        return f"{_shown(value)} is not one of {', '.join(words)}{_meant(value, words)}"
    message = details["msg"].removeprefix("Value error, ")
    return f"{_shown(value)}: {message[:1].lower()}{message[1:]}"


def _meant(value: object, words: Sequence[str]) -> str:
    match = nearest(str(value), words)
    return "" if match is None else f"; did you mean {match!r}?"


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = "null" if value is None else repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def _visible(loc: Sequence[int | str], owner: type[BaseModel]) -> list[int | str]:
    """The place without pydantic's own words for the branches of a union (class names, tags, `function-after[...]`)."""
    visible: list[int | str] = []
    here: object = owner
    for position, part in enumerate(loc):
        is_last = position == len(loc) - 1
        step = _step(here, part)
        if step is None and not is_last:
            branches = list(block_classes(here))
            here = next((item for item in branches if part in _branch_words(item)), branches[0] if branches else here)
            continue
        if step is None and is_last and part in {word for item in block_classes(here) for word in _branch_words(item)}:
            continue
        visible.append(part)
        here = step
    return visible


def _branch_words(model: type[BaseModel]) -> set[str]:
    words = {model.__name__}
    for info in model.model_fields.values():
        words |= {item for item in get_args(info.annotation) if isinstance(item, str)}
    return words


def _step(annotation: object, part: int | str) -> object | None:
    """The annotation one step down, or None when `part` is no step into it."""
    annotation = unwrapped(annotation)
    if isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, BaseModel):
        info = annotation.model_fields.get(str(part))
        return info.annotation if info is not None else None
    if is_union(annotation):
        real = [item for item in get_args(annotation) if item is not types.NoneType]
        return _step(real[0], part) if len(real) == 1 else None
    arguments = get_args(annotation)
    if get_origin(annotation) is list and isinstance(part, int):
        return arguments[0] if arguments else Any
    if get_origin(annotation) is dict:
        return arguments[1] if arguments else Any
    return None


def _fields_beside(loc: Sequence[int | str], owner: type[BaseModel]) -> list[str]:
    """The fields that could have stood where an unknown one stands."""
    here: object = owner
    for part in loc[:-1]:
        here = _step(here, part) or next((item for item in block_classes(here) if part in _branch_words(item)), here)
    return [name for item in block_classes(here) for name in item.model_fields]
