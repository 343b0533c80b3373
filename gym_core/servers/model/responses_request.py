"""A Responses body from a stranger, read within bounds: what it becomes is a chat-completions body."""

import asyncio

import msgspec
from pydantic import ValidationError

from gym_core.http.app import first_mistakes
from gym_core.servers.model.dialect import chat_body
from gym_core.servers.model.refusal import bad_request
from gym_core.servers.model.request import MAX_MESSAGES
from gym_core.types.responses import ResponsesBody

MAX_COMMAS = 200_000
"""One validation of a body cannot be interrupted, not in a thread either, and takes microseconds a value; at this many
the server stands still for less than a second."""
_OFF_LOOP_BYTES = 64 << 10
"""A body larger than this is read in a thread."""
_MAX_LISTED_MISTAKES = 1000
"""With more, to list them takes longer than to find them."""


async def read_as_chat(content: bytes) -> bytes:
    """The body in the dialect of chat completions. Raises Refusal."""
    if content.count(b",") > MAX_COMMAS:
        raise bad_request(f"the body has more than {MAX_COMMAS} commas")
    if len(content) > _OFF_LOOP_BYTES:
        return await asyncio.to_thread(_read, content)
    return _read(content)


def _read(content: bytes) -> bytes:
    try:
        found = msgspec.json.decode(content)
        items = found.get("input") if isinstance(found, dict) else None
        if isinstance(items, list) and len(items) > MAX_MESSAGES:
            raise bad_request(f"input: more than {MAX_MESSAGES} items")
        return msgspec.json.encode(chat_body(ResponsesBody.model_validate(found)))
    except ValidationError as error:
        n_mistakes = error.error_count()
        what = first_mistakes(error) if n_mistakes <= _MAX_LISTED_MISTAKES else f"{n_mistakes} mistakes"
        raise bad_request(f"not a Responses body: {what}") from error
    except (ValueError, RecursionError) as error:
        raise bad_request(f"not a Responses body: {error}"[:300]) from error
