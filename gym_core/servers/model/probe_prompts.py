"""What a probe says to a model: conversations as episodes have them, and plain pictures of any size."""

import struct
import zlib
from base64 import b64encode

from gym_core.servers.model.dialect import TOOL_IMAGES_TEXT
from gym_core.types.wire import JsonObject

SMALL_PX = (56, 56)
"""(width, height): two by two patches of the Qwen family. Smaller pictures are refused by some."""

_SYSTEM = "You are helpful."
_QUESTION = "Reply with one word."
_THOUGHT = "I will look."
_READ = "Image read successfully"
_CALL: JsonObject = {
    "id": "probe0001",  # nine letters and digits: templates of the Mistral family take no other
    "type": "function",
    "function": {"name": "read", "arguments": "{}"},
}


def episode_prompt(n_pictures: int) -> list[JsonObject]:
    """With two pictures the second comes as a harness sends what a tool read: in a user message after the tool's."""
    picture = picture_part(SMALL_PX)
    messages: list[JsonObject] = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": [_text(_QUESTION), picture] if n_pictures else [_text(_QUESTION)]},
    ]
    if n_pictures == 2:
        messages += [
            {"role": "assistant", "content": _THOUGHT, "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": _CALL["id"], "content": _READ},
            {"role": "user", "content": [_text(TOOL_IMAGES_TEXT), picture]},
        ]
    return messages


def list_prompt() -> list[JsonObject]:
    """Every message's content is a list, a tool's picture among them: what a careless template prints as it stands."""
    picture = picture_part(SMALL_PX)
    return [
        {"role": "system", "content": [_text(_SYSTEM)]},
        {"role": "user", "content": [_text(_QUESTION), picture]},
        {"role": "assistant", "content": [_text(_THOUGHT)], "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": _CALL["id"], "content": [_text(_READ), picture]},
    ]


def one_picture_prompt(size_px: tuple[int, int] | None) -> list[JsonObject]:
    """(width, height); None for the same prompt without its picture."""
    pictures = [] if size_px is None else [picture_part(size_px)]
    return [{"role": "user", "content": [_text(_QUESTION), *pictures]}]


def picture_part(size_px: tuple[int, int]) -> JsonObject:
    """A grey picture."""
    return {"type": "image_url", "image_url": {"url": _picture(*size_px, pixel=b"\x80")}}


def coloured_picture_part(size_px: tuple[int, int], rgb: tuple[int, int, int]) -> JsonObject:
    """A picture of one colour."""
    return {"type": "image_url", "image_url": {"url": _picture(*size_px, pixel=bytes(rgb))}}


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _picture(width: int, height: int, *, pixel: bytes) -> str:
    """A PNG as a data URL: grey for a pixel of one byte, coloured for one of three."""
    pixels = zlib.compress((b"\x00" + pixel * width) * height)
    colour_type = 0 if len(pixel) == 1 else 2
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")
    return f"data:image/png;base64,{b64encode(png).decode()}"


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
