"""Tools that run in a resources server: what an agent is told of them, and one call with its result."""

from typing import Annotated

from pydantic import Field, StringConstraints

from gym_core.types.ids import SafeId
from gym_core.types.responses import InputPart
from gym_core.types.wire import BulkyWire, JsonObject, Wire

ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]

REFUSED = "Error: "
"""How the words begin that a call gives which was not run; a trajectory tells it by them."""


class ToolFunction(Wire):
    """One tool as a model is told of it."""

    name: ToolName
    description: str
    parameters: JsonObject
    """JSON schema of the arguments, an object."""

    def as_openai(self) -> JsonObject:
        """An entry of `tools` in a chat-completions request."""
        return {"type": "function", "function": self.model_dump()}


class ToolAccess(Wire):
    """The right to call one session's tools: an address and a token for that session alone."""

    url: str
    """Base of the session's routes: `PUT {url}/images/{index}` and `POST {url}/tools`."""
    token: str
    functions: list[ToolFunction]
    needs_images: bool = False
    """The tools work on the prompt's images: put them there before the first call, in order, from index 0."""
    max_turns: int | None = Field(default=None, gt=0)
    """The environment's own limit, where it has one: a harness plays by that, or by its own when it is tighter."""
    max_tool_calls: int | None = Field(default=None, ge=0)
    """The same, of all calls together."""


class ToolRequest(Wire):
    call_id: SafeId
    """New for each call of the session; asking again with the same one gives the first one's reply."""
    name: str
    arguments: str
    """JSON text as the model wrote it: the server says to the model what is wrong with it."""


class ToolReply(BulkyWire):
    content: list[InputPart]
    """For the model; pictures as `data:` URLs."""
    is_error: bool = False
    """The call was not what the tool takes; `content` tells the model."""
    ends: bool = False
    """The episode is over with this call."""
