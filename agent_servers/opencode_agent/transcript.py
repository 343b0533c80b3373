"""A journal as Responses items, with the pictures that `read` returned as image parts. Pure.

A message becomes its reasoning, its text, its calls, then their outputs: the order in which the model and OpenCode
spoke, also when calls ran side by side. What cannot be carried is left out and named in `notes`; nothing raises.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_servers.opencode_agent.journal import AgentMessage, Attachment, Journal, Part, Tokens, ToolState
from gym_core.capture.images import parse_data_url, sniff_media_type
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputMessage,
    InputPart,
    InputText,
    OutputItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Usage,
)

_KNOWN_PARTS = frozenset({"text", "reasoning", "tool", "step-start", "step-finish", "snapshot", "patch"})
_MAX_TOOL_NAMES = 32
"""Names come from the sandbox; a report stays small whatever is in them."""


@dataclass(frozen=True)
class Transcript:
    items: Sequence[OutputItem]
    usage: Usage
    tool_calls: dict[str, int]
    images_read: int
    notes: Sequence[str]
    """Stable phrases, each once."""


def make_transcript(journal: Journal) -> Transcript:
    notes: Counter[str] = Counter()
    if journal.unreadable:
        notes["unreadable_parts"] = journal.unreadable
    items = [item for message in journal.messages for item in _items(message, notes)]
    tools = Counter((tool.tool or "unknown")[:64] for message in journal.messages for tool in message.tools)
    outputs = [item.output for item in items if isinstance(item, FunctionCallOutput)]
    images = sum(isinstance(part, InputImage) for output in outputs if isinstance(output, list) for part in output)
    return Transcript(items, _usage(journal), dict(tools.most_common(_MAX_TOOL_NAMES)), images, list(notes))


def _items(message: AgentMessage, notes: "Counter[str]") -> Iterator[OutputItem]:
    if message.role != "assistant":
        notes["made_up_user_message"] += 1
        yield InputMessage(role="user", content=message.text)
        return
    if message.is_compaction:
        notes["compaction"] += 1
    for part in message.parts:
        if part.type == "reasoning" and part.text:
            yield ReasoningItem(id=part.id, content=[ReasoningText(text=part.text)])
        elif part.type not in _KNOWN_PARTS:
            notes["unknown_part"] += 1
    texts = [OutputText(text=part.text) for part in message.parts if part.type == "text" and part.text]
    if texts:
        yield OutputMessage(id=message.id, content=texts, status="completed" if message.finish else "incomplete")
    yield from (_call(part) for part in message.tools)
    yield from (_output(part, part.state, notes) for part in message.tools if part.state and _has_ended(part.state))


def _has_ended(state: ToolState) -> bool:
    return state.status in ("completed", "error")


def _call(part: Part) -> FunctionCall:
    state = part.state or ToolState()
    return FunctionCall(
        id=part.id,
        call_id=part.call_id or part.id,
        name=part.tool or "unknown",
        arguments=state.arguments,
        status="completed" if _has_ended(state) else "incomplete",
    )


def _output(part: Part, state: ToolState, notes: "Counter[str]") -> FunctionCallOutput:
    text = (state.error if state.status == "error" else state.output) or ""
    images = [image for attachment in state.attachments if (image := _image(attachment, notes))]
    parts: list[InputPart] = [InputText(text=text), *images]
    return FunctionCallOutput(call_id=part.call_id or part.id, output=parts if images else text)


def _image(attachment: Attachment, notes: "Counter[str]") -> InputImage | None:
    """Checked here, since a bad URL would break whoever stores the transcript."""
    if not attachment.mime.startswith("image/"):
        notes["attachment_dropped"] += 1
        return None
    try:
        if sniff_media_type(parse_data_url(attachment.url)) is None:
            raise ValueError("not a known image")
    except ValueError:
        notes["unreadable_image"] += 1
        return None
    return InputImage(image_url=attachment.url)


def _usage(journal: Journal) -> Usage:
    """Summed over the steps; 0 where the endpoint told OpenCode nothing."""
    finishes = [part for message in journal.messages for part in message.parts if part.type == "step-finish"]
    tokens = [part.tokens or Tokens() for part in finishes]
    read = sum(_count(t.input) for t in tokens)
    total = sum(max(_count(t.total), _count(t.input) + _count(t.output)) for t in tokens)
    return Usage(input_tokens=read, output_tokens=total - read, total_tokens=total)


def _count(number: float | None) -> int:
    return int(number) if number is not None and 0 < number < 1e12 else 0
