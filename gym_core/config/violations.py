"""What pydantic found wrong, in words for people: dotted path, what is wrong with which value, nearest known field."""

import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gym_core.config.nearest import hint, nearest
from gym_core.config.user_info import without_user_info

SHOWN_CHARACTERS = 80
_COMPARISONS = {
    "greater_than": ("gt", ">"),
    "greater_than_equal": ("ge", ">="),
    "less_than": ("lt", "<"),
    "less_than_equal": ("le", "<="),
}


def violations(error: ValidationError, owner: type[BaseModel], path: str) -> list[tuple[str, str]]:
    """Pairs of dotted path and sentence, in the order of the fields; one for a value that fits no form of a union."""
    found = []
    listed = error.errors(include_url=False)
    places = [_place(details["loc"], owner) for details in listed]
    has_right_form = {
        p.union for p, details in zip(places, listed, strict=True) if p.union and not _is_of_another_form(details, p)
    }
    forms: dict[tuple[int | str, ...], list[ErrorDetails]] = {}
    for place, details in zip(places, listed, strict=True):
        if place.union and _is_of_another_form(details, place):
            forms.setdefault(place.union, []).append(details)
    for place, details in zip(places, listed, strict=True):
        where = ".".join([path, *map(str, place.visible)]).strip(".")
        if place.union and _is_of_another_form(details, place):
            if place.union not in has_right_form and details is forms[place.union][0]:
                found.append((where, _no_form(forms[place.union], owner)))
        else:
            found.append((where, _sentence(details, owner)))
    return list(dict.fromkeys(found))


def _is_of_another_form(details: ErrorDetails, place: "_Place") -> bool:
    """Whether it says of one branch of a union only that the value is not of its kind, as text is no list."""
    return details["type"].endswith("_type") and place.visible == place.union


def _no_form(of_each: Sequence[ErrorDetails], owner: type[BaseModel]) -> str:
    first, *others = of_each
    forms = list(dict.fromkeys(details["msg"].removeprefix("Input should be ") for details in of_each))
    return f"{_shown(first['input'])}: should be {' or '.join(forms)}" if others else _sentence(first, owner)


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
    message = without_user_info(details["msg"].removeprefix("Value error, "))
    if kind == "value_error" and isinstance(value, dict):
        return f"{message[:1].lower()}{message[1:]}"  # a block's own check, which names its fields
    return f"{_shown(value)}: {message[:1].lower()}{message[1:]}"


def _meant(value: object, words: Sequence[str]) -> str:
    match = nearest(str(value), words)
    return "" if match is None else f"; did you mean {match!r}?"


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = "null" if value is None else without_user_info(repr(value))
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


@dataclass(frozen=True)
class _Place:
    """Where an error is, without pydantic's own words for the branches of a union."""

    visible: tuple[int | str, ...]
    union: tuple[int | str, ...]
    """The place of the innermost union on the way whose branch pydantic named; empty without one."""


def _place(loc: Sequence[int | str], owner: type[BaseModel]) -> _Place:
    visible: list[int | str] = []
    union: tuple[int | str, ...] = ()
    here: object = owner
    for part in loc:
        forms = _forms(here)
        if len(forms) > 1:
            here, union = _form_named(part, forms), tuple(visible)
            continue
        visible.append(part)
        here = _step(here, part)
    return _Place(tuple(visible), union)


def _forms(annotation: object) -> list[object]:
    """The branches of a union, null apart; a single one for anything else."""
    annotation = unwrapped(annotation)
    if not is_union(annotation):
        return [annotation]
    return [form for item in get_args(annotation) if item is not types.NoneType for form in _forms(item)]


def _form_named(word: int | str, forms: Sequence[object]) -> object | None:
    """The branch that pydantic's word stands for: a class or a tag of its, `list[...]`, `dict[...]`."""
    for form in forms:
        kind = get_origin(form) or form
        if any(word in _branch_words(model) for model in block_classes(form)) and kind not in (list, dict):
            return form
        if isinstance(kind, type) and str(word).startswith(f"{kind.__name__}["):
            return form
    return None


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
