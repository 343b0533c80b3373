"""A trajectory as turns: what the model said in one answer, and what its tools gave back."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from gym_core.capture.images import parse_reference
from gym_core.types.responses import (
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputMessage,
    InputPart,
    InputText,
    OutputItem,
    OutputMessage,
    ReasoningItem,
)
from gym_core.viewer.calls import SessionCalls
from gym_core.viewer.pictures import Gallery
from gym_core.viewer.shell import tool_part
from gym_core.viewer.texts import Texts
from gym_core.viewer.types import MessagePart, Part, Picture, TextPart, ToolPart, Turn


@dataclass
class _Group:
    """The items of one answer, tool outputs left out: they are found by their calls."""

    items: list[OutputItem] = field(default_factory=list)
    place: int | None = None
    """Of its call."""


def make_turns(items: Sequence[OutputItem], calls: SessionCalls, gallery: Gallery, texts: Texts) -> list[Turn]:
    outputs = {item.call_id: item for item in items if isinstance(item, FunctionCallOutput)}
    called = {item.call_id for item in items if isinstance(item, FunctionCall)}
    groups = _grouped(items, called)
    _find_calls(groups, calls)
    making = _Making(outputs, gallery, texts)
    turns = []
    for number, group in enumerate(_merged(groups), start=1):
        call = calls.facts[group.place] if group.place is not None else None
        turns.append(
            Turn(
                number=number,
                call=call,
                tools_s=_tools_seconds(calls, group.place),
                parts=[part for item in group.items for part in making.parts(item)],
            )
        )
    return turns


def split_parts(content: str | Sequence[InputPart], gallery: Gallery) -> tuple[str, list[Picture]]:
    """Text and pictures of a message, or of what a tool gave back."""
    if isinstance(content, str):
        return content, []
    text = "\n".join(part.text for part in content if isinstance(part, InputText))
    return text, [gallery.picture(digest_of(part)) for part in content if isinstance(part, InputImage)]


def digest_of(image: InputImage) -> str:
    """The hash that an image is named by; the beginning of its URL for one that is not."""
    try:
        return parse_reference(image.image_url)
    except ValueError:
        return image.image_url[:80]


def _grouped(items: Sequence[OutputItem], called: Container[str]) -> list[_Group]:
    """A new group where the model speaks again after a tool's output, or after somebody else."""
    groups: list[_Group] = []
    is_open = False
    for item in items:
        if isinstance(item, FunctionCallOutput) and item.call_id in called:
            is_open = False
            continue
        is_model = isinstance(item, OutputMessage | ReasoningItem | FunctionCall)
        if not (is_model and is_open and groups):
            groups.append(_Group())
        groups[-1].items.append(item)
        is_open = is_model
    return groups


def _find_calls(groups: Sequence[_Group], calls: SessionCalls) -> None:
    """Names each group's call: by the ids of its tool calls, else by the order of the main branch."""
    by_tool = {
        tool.id: place
        for place in reversed(range(len(calls.models)))
        if (answer := calls.models[place].answer)
        for tool in answer.tool_calls
    }
    main, at = calls.main, 0
    for group in groups:
        tools = [item.call_id for item in group.items if isinstance(item, FunctionCall)]
        places = [by_tool[tool] for tool in tools if tool in by_tool]
        if places:
            group.place = places[0]
            at = main.index(places[0]) + 1 if places[0] in main else at
        elif at < len(main) and _is_answer(calls, main[at], group):
            group.place = main[at]
            at += 1


def _is_answer(calls: SessionCalls, place: int, group: _Group) -> bool:
    """Whether a group without a known tool call is the text of that answer."""
    answer = calls.models[place].answer
    if answer is None or any(isinstance(item, FunctionCall | InputMessage) for item in group.items):
        return False
    said = "".join(item.text for item in group.items if isinstance(item, OutputMessage))
    return not answer.tool_calls or said.strip() == answer.content.strip()


def _merged(groups: Sequence[_Group]) -> list[_Group]:
    """Parallel tool calls of one answer, each followed by its output, are one turn."""
    merged: list[_Group] = []
    for group in groups:
        if merged and group.place is not None and merged[-1].place == group.place:
            merged[-1].items += group.items
        else:
            merged.append(group)
    return merged


def _tools_seconds(calls: SessionCalls, place: int | None) -> float | None:
    """Until the next call of the main branch; None for the last one."""
    main = calls.main
    if place is None or place not in main or main.index(place) + 1 >= len(main):
        return None
    own, following = calls.facts[place], calls.facts[main[main.index(place) + 1]]
    return max(0.0, following.sent_at - own.sent_at - own.seconds)


@dataclass(frozen=True)
class _Making:
    outputs: dict[str, FunctionCallOutput]
    gallery: Gallery
    texts: Texts

    def parts(self, item: OutputItem) -> list[Part]:
        if isinstance(item, OutputMessage):
            return [TextPart(kind="text", text=self.texts.clip(item.text))] if item.text else []
        if isinstance(item, ReasoningItem):
            text = "\n".join(part.text for part in item.content) or "\n".join(_summary(item))
            return [TextPart(kind="reasoning", text=self.texts.clip(text))] if text else []
        if isinstance(item, FunctionCall):
            return [self._tool(item)]
        content = item.content if isinstance(item, InputMessage) else item.output
        text, images = split_parts(content, self.gallery)
        role = item.role if isinstance(item, InputMessage) else "tool"
        return [MessagePart(role=role, text=self.texts.clip(text), images=images)]

    def _tool(self, call: FunctionCall) -> ToolPart:
        found = self.outputs.get(call.call_id)
        if found is None:
            return tool_part(call.name, call.call_id, call.arguments, self.texts, status=call.status)
        text, images = split_parts(found.output, self.gallery)
        return tool_part(
            call.name,
            call.call_id,
            call.arguments,
            self.texts,
            output=self.texts.clip(text),
            images=images,
            status=found.status if found.status != "completed" else call.status,
        )


def _summary(item: ReasoningItem) -> list[str]:
    return [text for part in item.summary if isinstance(text := part.get("text"), str)]
