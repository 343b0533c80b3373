"""From messages, or from token ids and pictures, to the exact tokens that the model reads.

Messages are prepared as vLLM prepares them before the template sees them, its surprises included: plain strings become
lists of parts, tool calls carry parsed arguments, a tool result of text alone becomes one string.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from examples.tiny_vlm.errors import BadRequest
from examples.tiny_vlm.pictures import Picture, PictureReader
from gym_core.types.wire import JsonObject

JsonValue = str | int | float | bool | None | JsonObject | list["JsonValue"]

TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>|\Z)", re.DOTALL)
TOOL_RESPONSE = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)


@dataclass(frozen=True)
class Span:
    """A picture's placeholder tokens within a prompt."""

    offset: int
    length: int


@dataclass(frozen=True)
class Prompt:
    token_ids: list[int]
    """Every picture's placeholder repeated once a token the picture takes."""
    pictures: tuple[Picture, ...]
    placeholders: tuple[Span, ...]
    """One a picture, in order."""
    text: str | None = None
    """What the template printed; None where tokens came in."""


@dataclass(frozen=True)
class Conversation:
    messages: Sequence[JsonObject]
    """As they came over the wire."""
    tools: Sequence[JsonObject] | None = None


class Renderer:
    """One model's tokenizer, template and image rules."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, pictures: PictureReader, image_pad: int) -> None:
        self._tokenizer = tokenizer
        self._pictures = pictures
        self._image_pad = image_pad

    def render(self, conversation: Conversation, *, add_generation_prompt: bool = True) -> Prompt:
        """Raises BadRequest for content that cannot be read."""
        pictures: list[Picture] = []
        messages = [self._prepare(message, pictures) for message in conversation.messages]
        text = self._tokenizer.apply_chat_template(
            messages,
            tools=list(conversation.tools) if conversation.tools else None,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
        )
        expanded = self.expand(self.encode(text), pictures)
        return Prompt(expanded.token_ids, expanded.pictures, expanded.placeholders, text)

    def encode(self, text: str) -> list[int]:
        """Markup in the text becomes its tokens, as it does in vLLM."""
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def expand(self, token_ids: Sequence[int], pictures: Sequence[Picture]) -> Prompt:
        """Repeat the one placeholder of each picture. Raises BadRequest if there are too few placeholders.

        Further placeholders stay as they are, as in vLLM: what was expanded before is silently expanded again, and a
        placeholder that the model sampled is a token like any other.
        """
        out: list[int] = []
        spans: list[Span] = []
        for token in token_ids:
            if token == self._image_pad and len(spans) < len(pictures):
                length = pictures[len(spans)].tokens
                spans.append(Span(len(out), length))
                out.extend([token] * length)
            else:
                out.append(token)
        if len(spans) < len(pictures):
            raise BadRequest(f"{len(pictures)} pictures for {len(spans)} placeholders in the prompt")
        return Prompt(out, tuple(pictures), tuple(spans))

    def _prepare(self, message: JsonObject, pictures: list[Picture]) -> JsonObject:
        content = message.get("content")
        parts: list[JsonValue] = [{"type": "text", "text": content}] if isinstance(content, str) else []
        if isinstance(content, list):
            parts = [self._prepare_part(part, pictures) for part in content]
        prepared: JsonObject = {"role": message.get("role", "user"), "content": parts}
        if prepared["role"] == "tool":
            texts = [part["text"] for part in parts if isinstance(part, dict) and "text" in part]
            if len(texts) == len(parts):
                prepared["content"] = "\n".join(str(text) for text in texts)
        if calls := message.get("tool_calls"):
            if not isinstance(calls, list):
                raise BadRequest("assistant tool_calls is not a list.")
            prepared["tool_calls"] = [_with_parsed_arguments(call) for call in calls]
        if (reasoning := message.get("reasoning")) is not None:
            prepared["reasoning"] = prepared["reasoning_content"] = reasoning
        return prepared

    def _prepare_part(self, part: JsonValue, pictures: list[Picture]) -> JsonValue:
        match part:
            case str() as text:
                return {"type": "text", "text": text}
            case {"type": "text" | "input_text" | "output_text" | "refusal", "text": str(text)}:
                return {"type": "text", "text": text}
            case {"type": "refusal", "refusal": str(text)}:
                return {"type": "text", "text": text}
            case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
                pictures.append(self._pictures.read_url(url))
                return {"type": "image"}
            case _:
                raise BadRequest(f"Unknown part of content: {json.dumps(part)[:80]}")


def read_chatml(text: str) -> list[JsonObject]:
    """The messages a rendered prompt shows, content as text: what a script gets where only tokens came in.

    Tool results are turned back into turns of role "tool"; an assistant's calls stay markup in its text. The turn that
    is waiting to be written is left out.
    """
    messages: list[JsonObject] = []
    for match in TURN.finditer(text):
        role, content = match.groups()
        results = TOOL_RESPONSE.findall(content) if role == "user" else []
        if results:
            messages += [{"role": "tool", "content": result} for result in results]
        elif match.end() < len(text) or content:
            messages.append({"role": role, "content": content})
    return messages


def _with_parsed_arguments(call: JsonValue) -> JsonValue:
    match call:
        case {"function": {"name": str(name), "arguments": str() | dict() as arguments}}:
            return {"type": "function", "function": {"name": name, "arguments": _parsed(arguments)}}
        case {"function": {"name": str(name)}}:
            return {"type": "function", "function": {"name": name, "arguments": {}}}
        case _:
            raise BadRequest("chat completions only support assistant tool_calls of type 'function'.")


def _parsed(arguments: str | JsonObject) -> JsonObject:
    """Broken arguments in a conversation's history become an empty object, as in vLLM, so that it can go on."""
    if isinstance(arguments, dict):
        return arguments
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
