"""Secrets, by type and by taint: a value that some block declares as `SecretStr` is masked wherever it turns up.

Key names are never guessed at: `max_output_tokens` stays readable, and `policy_api_key` is masked because
`${policy_api_key}` fills a typed field.
"""

import html
import json
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import get_args, get_origin
from urllib.parse import quote

from pydantic import BaseModel, SecretStr

from gym_core.config.layers import COMMAND_LINE, Origin
from gym_core.config.violations import is_union, unwrapped
from gym_core.types.wire import JsonObject

MASK = "****"
SHORTEST_INSIDE = 4
"""A shorter secret is masked only where it is the whole value: "x" stands inside nearly every word."""

SHORTEST_KEY = 8
"""Shorter text is no key that somebody gave out."""

Secrets = frozenset[str]


def secret_values(owner: type[BaseModel], block: JsonObject) -> Secrets:
    """What stands in the `SecretStr` fields of a block, whether or not the rest of the block is right."""
    return frozenset(_typed_secrets(owner, block))


def redact(values: JsonObject, secrets: Secrets) -> JsonObject:
    """A copy with every leaf masked that is a secret or contains one; keys too."""
    return {_masked_text(key, secrets): _masked(value, secrets) for key, value in values.items()}


def redact_text(text: str, secrets: Secrets) -> str:
    """Text with every occurrence of a secret masked, as it is or as JSON, HTML, a URL or Python's repr spell it."""
    if text in secrets:
        return MASK
    long_enough = [secret for secret in secrets if len(secret) >= SHORTEST_INSIDE]
    forms = {form for secret in long_enough for form in _spellings(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, MASK)
    return text


def reveal(block: BaseModel) -> JsonObject:
    """A block as JSON with its secrets readable: for the one child that needs them, over its private channel."""
    plain = _plain(block.model_dump(by_alias=True, context={"reveal": True}))
    assert isinstance(plain, dict)
    return plain


def literal_secret_warnings(values: JsonObject, origin: Mapping[str, Origin], secrets: Secrets) -> list[str]:
    """A line for each secret that was typed on the command line, where other users of the machine can read it.

    What stands in for a key where none is needed ("EMPTY", "none") is too short to be one.
    """
    typed: dict[str, str] = {}
    for path in sorted((path for path, where in origin.items() if where.source == COMMAND_LINE), key=len):
        value: object = values
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, (str, int, float)) and str(value) in secrets and len(str(value)) >= SHORTEST_KEY:
            typed.setdefault(str(value), path)  # the shortest path: the others read it by ${...}
    return [
        f"warning: {path} stands in the process list while this runs; write it into env.yaml, or pass it as "
        f"'++{path}=${{oc.env:{path.rpartition('.')[2].upper()}}}' (in single quotes)"
        for path in typed.values()
    ]


def _typed_secrets(annotation: object, value: object) -> Iterable[str]:
    annotation = unwrapped(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is SecretStr:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and str(value):
            yield str(value)
    elif is_union(annotation):
        for argument in arguments:
            yield from _typed_secrets(argument, value)
    elif origin is None and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if isinstance(value, dict):
            for name, info in annotation.model_fields.items():
                yield from _typed_secrets(info.annotation, value.get(info.alias or name))
    elif origin is dict and isinstance(value, dict):
        for item in value.values():
            yield from _typed_secrets(arguments[1], item)
    elif origin in (list, tuple, set, frozenset) and isinstance(value, list):
        for item in value:
            yield from _typed_secrets(arguments[0], item)


def _spellings(secret: str) -> Iterable[str]:
    in_json = json.dumps(secret)[1:-1]
    yield from (secret, in_json, json.dumps(secret, ensure_ascii=False)[1:-1])
    yield in_json.replace("/", "\\/")  # as PHP and others write it
    yield json.dumps(in_json)[1:-1]  # an error within an error
    yield from (quote(secret, safe=""), quote(secret), html.escape(secret), repr(secret)[1:-1])


def _masked(value: object, secrets: Secrets) -> object:
    if isinstance(value, dict):
        return {_masked_text(key, secrets): _masked(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, secrets) for item in value]
    if value is None or isinstance(value, bool):
        return value
    text = str(value)
    return value if _masked_text(text, secrets) == text else MASK


def _masked_text(text: str, secrets: Secrets) -> str:
    return text if redact_text(text, secrets) == text else MASK


def _plain(value: object) -> object:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value
