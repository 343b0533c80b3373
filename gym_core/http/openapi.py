"""Entries of `/openapi.json` for routes that answer something else than one JSON object."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic.json_schema import models_json_schema

from gym_core.http.ndjson import NDJSON
from gym_core.types.wire import JsonObject, Wire

if TYPE_CHECKING:
    from fastapi import FastAPI

_REF = "#/components/schemas/{model}"


def json_body(body: type[Wire]) -> JsonObject:
    """`openapi_extra` of a route that reads its own body; the class is to be published, too."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _ref(body)}}}}


def line_replies(kinds: Sequence[type[Wire]]) -> dict[int | str, JsonObject]:
    """`responses` of a route that streams lines, each of one of these classes by its `type`."""
    schema = {"oneOf": [_ref(kind) for kind in kinds], "discriminator": {"propertyName": "type"}}
    return {200: {"description": "One JSON object a line", "content": {NDJSON: {"schema": schema}}}}


def publish(app: "FastAPI", classes: Sequence[type[Wire]]) -> None:
    """Put the classes, and those they are made of, under `components.schemas` of the app's description."""
    describe = app.openapi

    def openapi() -> JsonObject:
        is_new = app.openapi_schema is None
        found = describe()
        if is_new:
            _, schemas = models_json_schema([(kind, "validation") for kind in classes], ref_template=_REF)
            found.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
        return found

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's guide has it


def _ref(kind: type[Wire]) -> JsonObject:
    return {"$ref": _REF.format(model=kind.__name__)}
