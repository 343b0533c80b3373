"""A tool call as a reader wants it: the shell command itself, the path that is read, and the arguments as written."""

import msgspec

from gym_core.types.wire import JsonObject
from gym_core.viewer.texts import Texts
from gym_core.viewer.types import Clip, Picture, ToolPart

_COMMAND_KEYS = ("command", "cmd", "code", "script")
_TITLE_KEYS = ("description", "filePath", "file_path", "path", "pattern", "url")
_MAX_TITLE = 300


def tool_part(
    name: str,
    call_id: str,
    arguments: str,
    texts: Texts,
    *,
    output: Clip | None = None,
    images: list[Picture] | None = None,
    status: str = "",
) -> ToolPart:
    fields = _fields(arguments)
    command = _first(fields, _COMMAND_KEYS)
    return ToolPart(
        name=name[:100],
        call_id=call_id[:200],
        title=_first(fields, _TITLE_KEYS)[:_MAX_TITLE],
        command=texts.clip(command) if command else None,
        arguments=texts.clip(arguments),
        status=status,
        output=output,
        images=images or [],
    )


def _fields(arguments: str) -> JsonObject:
    """{} for what is no JSON object: a model may write anything."""
    try:
        found = msgspec.json.decode(arguments)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _first(fields: JsonObject, keys: tuple[str, ...]) -> str:
    return next((fields[key] for key in keys if isinstance(fields.get(key), str) and fields[key]), "")
