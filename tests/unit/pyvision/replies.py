"""Replies of an agent, turn by turn, as tool_agent hands them in."""

import json
from dataclasses import dataclass

from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputPart,
    InputText,
    OutputItem,
    OutputMessage,
    OutputText,
    ResponseError,
    ResponsesReply,
)
from resources_servers.pyvision.observation import Observation

IMAGE = "sha256:" + "0" * 64


@dataclass(frozen=True)
class Ran:
    """A turn whose code was executed."""

    code: str = "print(1)"
    said: str = "1"
    images: int = 0
    is_whole: bool = True


@dataclass(frozen=True)
class Refused:
    """A turn whose block was none."""

    text: str = "<code>"


@dataclass(frozen=True)
class Unrun:
    """The turn at which a budget ended."""

    code: str = "print(2)"


Turn = Ran | Refused | Unrun


def reply_of(*turns: Turn, said: str = "", ending: str | None = "finished", error: str | None = None) -> ResponsesReply:
    output: list[OutputItem] = []
    for number, turn in enumerate(turns):
        output += _items(f"call_{number}_0", turn)
    if said:
        output.append(OutputMessage(id="m", content=[OutputText(text=said)]))
    return ResponsesReply(
        id="r",
        created_at=0,
        status="incomplete" if error else "completed",
        output=output,
        error=ResponseError(code=error, message="so it is") if error else None,
        metadata={"ending": ending} if ending else None,
    )


def _items(call_id: str, turn: Turn) -> list[OutputItem]:
    if isinstance(turn, Refused):
        call = FunctionCall(call_id=call_id, name="unknown_tool", arguments=turn.text, status="incomplete")
        return [call, FunctionCallOutput(call_id=call_id, output="Error: the code block is not closed.")]
    call = FunctionCall(call_id=call_id, name="python", arguments=json.dumps({"code": turn.code}))
    if isinstance(turn, Unrun):
        return [call]
    observed = Observation(turn.said, [b""] * turn.images, turn.is_whole).parts(1)
    parts: list[InputPart] = [
        InputText(text=part) if isinstance(part, str) else InputImage(image_url=IMAGE) for part in observed
    ]
    text = "".join(part.text for part in parts if isinstance(part, InputText))
    return [call, FunctionCallOutput(call_id=call_id, output=parts if turn.images else text)]
