"""One chat completion: the request made of a body, the turn made of a reply. Pure."""

import msgspec

from gym_core.errors import EpisodeError
from gym_core.servers.agent import Turn
from gym_core.servers.chat import MODEL_ALIAS, chat_messages, read_completion, sampling_fields
from gym_core.types.responses import ResponsesBody
from gym_core.types.session import ModelAccess


def make_request(body: ResponsesBody, access: ModelAccess) -> bytes:
    """The JSON of a chat-completions request. Raises InvalidTask for what one call without tools cannot carry."""
    request = {
        "model": MODEL_ALIAS,
        "messages": chat_messages(body),
        "max_tokens": min(body.max_output_tokens or access.max_output_tokens, access.max_output_tokens),
    }
    return msgspec.json.encode(request | sampling_fields(body))


def turn_of(status: int, content: bytes, *, context_tokens: int) -> Turn:
    """The turn in a reply of the policy server; never raises."""
    try:
        completion = read_completion(status, content)
    except EpisodeError as failure:
        return Turn(output=[], failure=failure)
    output = [*completion.reasoning_items(), *completion.message_items(completion.text)]
    return Turn(output, completion.usage, completion.cut(context_tokens=context_tokens) or completion.empty())
