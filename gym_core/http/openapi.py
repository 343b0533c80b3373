"""Entries of `/openapi.json` for routes that read and write their own bytes; every class is there once, by name."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic.json_schema import models_json_schema

from gym_core.http.ndjson import NDJSON
from gym_core.types.wire import JsonObject, Wire

if TYPE_CHECKING:
    from fastapi import FastAPI

_IN_PATH = re.compile(r"\{(\w+)(?::\w+)?\}")
_REF = "#/components/schemas/{model}"


def ref(kind: type[Wire]) -> JsonObject:
    """Where the schema of a class is, once it is published."""
    return {"$ref": _REF.format(model=kind.__name__)}


def json_body(schema: JsonObject) -> JsonObject:
    """`openapi_extra` of a route that reads a JSON body."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def line_replies(kinds: Sequence[type[Wire]]) -> dict[int | str, JsonObject]:
    """`responses` of a route that streams lines, each of one of these classes by its `type`."""
    schema = {"oneOf": [ref(kind) for kind in kinds], "discriminator": {"propertyName": "type"}}
    return {200: {"description": "One JSON object a line", "content": {NDJSON: {"schema": schema}}}}


def publish(app: "FastAPI", classes: Sequence[type[Wire]]) -> None:
    """Put the classes, and those they are made of, under `components.schemas` of the app's description."""
    published: list[type[Wire]] | None = getattr(app.state, "published", None)
    if published is not None:
        published += classes
        return
    app.state.published = [*classes]
    describe = app.openapi

    def openapi() -> JsonObject:
        is_new = app.openapi_schema is None
        found = describe()
        if is_new:
            kinds = dict.fromkeys(app.state.published)
            _, schemas = models_json_schema([(kind, "validation") for kind in kinds], ref_template=_REF)
            found.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
            _name_path_parameters(found)
        return found

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's guide has it


def _name_path_parameters(found: JsonObject) -> None:
    """Our endpoints take a request, so FastAPI sees no parameters; a description without them is not valid."""
    for path, operations in found["paths"].items():
        for name in _IN_PATH.findall(path):
            for operation in operations.values():
                parameter = {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
                operation["parameters"] = [*operation.get("parameters", []), parameter]
