"""What the two `<tool_call>` dialects share: finding the blocks, and the user message with `<tool_response>` blocks."""

from collections.abc import Iterator, Sequence

from agent_servers.tool_agent.dialects.contract import RESPONSE_CLOSE, RESPONSE_OPEN, CallResult
from gym_core.servers.chat import chat_content
from gym_core.types.responses import InputPart, InputText
from gym_core.types.tool import ToolFunction
from gym_core.types.wire import JsonObject

OPEN, CLOSE = "<tool_call>", "</tool_call>"


def find_all(text: str, what: str, limit: int) -> Iterator[int]:
    """Where `what` begins, at most `limit` times."""
    at = text.find(what)
    while at >= 0 and limit > 0:
        yield at
        limit -= 1
        at = text.find(what, at + len(what))


def observe_in_user_message(results: Sequence[CallResult]) -> list[JsonObject]:
    """One user message, a `<tool_response>` block for each call, its pictures where the tool put them."""
    parts: list[InputPart] = []
    for result in results:
        parts += [InputText(text=RESPONSE_OPEN), *result.content, InputText(text=RESPONSE_CLOSE)]
    return [{"role": "user", "content": chat_content(_joined(parts))}]


def _joined(parts: Sequence[InputPart]) -> list[InputPart]:
    """Texts that follow each other made one, a line each."""
    joined: list[InputPart] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, InputText) and isinstance(last, InputText):
            joined[-1] = InputText(text=f"{last.text}\n{part.text}")
        else:
            joined.append(part)
    return joined


def parameter_schema(functions: Sequence[ToolFunction], tool: str, parameter: str) -> JsonObject:
    """The JSON schema of one parameter; {} when there is none."""
    for function in functions:
        if function.name == tool:
            found = function.parameters.get("properties", {}).get(parameter, {})
            return found if isinstance(found, dict) else {}
    return {}
