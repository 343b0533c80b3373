"""The request of a captured call, as the endpoint got it: out of its record, with the pictures back in."""

import msgspec

from gym_core.capture.images import REFERENCE_PREFIX, AssetStore, parse_reference
from gym_core.capture.recorder import CapturedCall
from gym_core.types.model_call import ModelCall
from gym_core.types.wire import JsonObject


def rebuild_request(call: ModelCall | CapturedCall, assets: AssetStore) -> JsonObject:
    """The body of the last attempt. Its messages and tools encode to the very JSON that was sent, white space aside.

    Raises ValueError for a call of which nothing was kept, FileNotFoundError when `assets` lacks one of its pictures.
    """
    model_call = call if isinstance(call, ModelCall) else call.as_model_call()
    if not model_call.messages:
        raise ValueError(f"call {model_call.call_id!r} was sent and nothing was kept of it")
    pictures = _Pictures(model_call, assets)
    messages = [_with_pictures(message, pictures) for message in model_call.messages]
    tools: JsonObject = {"tools": model_call.tools} if model_call.tools else {}
    return {"messages": messages} | tools | model_call.sampling


class _Pictures:
    """A call's pictures as data URLs, in order."""

    def __init__(self, call: ModelCall, assets: AssetStore) -> None:
        self._heads = call.image_url_heads
        self._assets = assets
        self._n_given = 0

    def next_url(self, reference: str) -> str:
        head = self._heads.get(self._n_given)
        self._n_given += 1
        sha256 = parse_reference(reference)
        if head is None:
            return self._assets.data_url(sha256)
        return head + str(msgspec.to_builtins(self._assets.get(sha256)))


def _with_pictures(message: JsonObject, pictures: _Pictures) -> JsonObject:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return message | {"content": [_with_picture(part, pictures) for part in content]}


def _with_picture(part: JsonObject, pictures: _Pictures) -> JsonObject:
    picture = part.get("image_url")
    if picture is None or not picture["url"].startswith(REFERENCE_PREFIX):
        return part
    return part | {"image_url": picture | {"url": pictures.next_url(picture["url"])}}
