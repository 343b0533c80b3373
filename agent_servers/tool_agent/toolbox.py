"""The tools of a session as the agent reaches them: over HTTP, in the resources server that offered them."""

import asyncio
import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from agent_servers.tool_agent.dialects.contract import BadCall, ToolCall
from agent_servers.tool_agent.shown_images import ShownPixels, shown_body, shown_parts
from gym_core.capture.images import parse_data_url
from gym_core.errors import FailureKind, InvalidTask, TransportError, boundary
from gym_core.http.client import HttpPool, ServiceClient
from gym_core.types.responses import InputImage, InputMessage, InputPart, InputText, ResponsesBody
from gym_core.types.tool import REFUSED, ToolAccess, ToolFunction, ToolReply, ToolRequest

CALL_TIMEOUT_S = 600.0
"""The server's own limit of a call lies below it."""
_ASKED_AGAIN = frozenset({FailureKind.TRANSPORT_PEER_DROP, FailureKind.TRANSPORT_TIMEOUT})
"""The reply was lost; by its id the call still runs once."""


@dataclass(frozen=True)
class _Place:
    access: ToolAccess
    client: ServiceClient


class Toolbox:
    def __init__(self, accesses: Sequence[ToolAccess], pool: HttpPool, shown_pixels: ShownPixels | None = None) -> None:
        """`shown_pixels`: what pictures are scaled to on their way to the model; None leaves them as they are."""
        self._shown_pixels = shown_pixels
        self._places = [_Place(access, pool.service(access.url, access.token)) for access in accesses]
        self._place_of = {
            function.name: place for place in reversed(self._places) for function in place.access.functions
        }
        self._n_calls = 0

    @property
    def functions(self) -> list[ToolFunction]:
        return [function for place in self._places for function in place.access.functions]

    async def put_images(self, body: ResponsesBody) -> None:
        """Give the prompt's images to the tools that need them. Raises InvalidTask and what the server raises."""
        needing = [place for place in self._places if place.access.needs_images]
        if not needing:
            return
        with boundary(InvalidTask, "images of the task"):
            contents = [parse_data_url(part.image_url) for part in prompt_images(body)]
        for place in needing:
            for index, content in enumerate(contents):
                await place.client.call_raw("PUT", f"/images/{index}", content)

    async def shown(self, body: ResponsesBody) -> ResponsesBody:
        """The body as the model is shown it. Raises InvalidTask."""
        if self._shown_pixels is None:
            return body
        with boundary(InvalidTask, "images of the task"):
            return await asyncio.to_thread(shown_body, body, self._shown_pixels)

    async def call(self, call: ToolCall | BadCall) -> ToolReply:
        """What a call gives; a bad one, or one of no tool, gives words for the model.

        Raises EpisodeError: the tool broke, or its server is gone.
        """
        if isinstance(call, BadCall):
            return _error(f"{call.reason}.")
        place = self._place_of.get(call.name)
        if place is None:
            names = ", ".join(self._place_of) or "none"
            return _error(f"there is no tool {call.name[:64]!r}; there are: {names}")
        # An id of our own: endpoints give one id to calls of different turns.
        asked = ToolRequest(call_id=f"call-{self._n_calls}", name=call.name, arguments=call.arguments)
        self._n_calls += 1
        body = asked.model_dump_json().encode()
        try:
            raw = await place.client.call_raw("POST", "/tools", body, timeout_s=CALL_TIMEOUT_S)
        except TransportError as error:
            if error.kind not in _ASKED_AGAIN:
                raise
            raw = await place.client.call_raw("POST", "/tools", body, timeout_s=CALL_TIMEOUT_S)
        try:
            reply = ToolReply.from_json(raw)
            if self._shown_pixels is None:
                return reply
            content = await asyncio.to_thread(shown_parts, reply.content, self._shown_pixels)
            return reply.model_copy(update={"content": content})
        except ValueError as error:
            raise TransportError(f"{place.client.url}/tools: not a tool's reply: {error}") from error


def _error(text: str) -> ToolReply:
    return ToolReply(content=[InputText(text=f"{REFUSED}{text}")], is_error=True)


def prompt_images(body: ResponsesBody) -> list[InputImage]:
    messages = (item for item in body.items if isinstance(item, InputMessage) and item.role == "user")
    return [part for message in messages for part in message.parts if isinstance(part, InputImage)]


def pixels_of(content: Sequence[InputPart]) -> list[int]:
    """Width times height of each picture, by its header. Raises ValueError."""
    return [_pixels(parse_data_url(part.image_url)) for part in content if isinstance(part, InputImage)]


def _pixels(content: bytes) -> int:
    with Image.open(io.BytesIO(content)) as image:
        return image.width * image.height
