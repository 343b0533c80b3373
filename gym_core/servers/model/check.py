"""One look at a model endpoint before a run trusts it: does it answer, with pictures, and with which extras."""

import asyncio
import re
import struct
import time
import zlib
from base64 import b64encode
from dataclasses import dataclass

import msgspec

from gym_core.http.upstream import Upstream, UpstreamError
from gym_core.servers.model.answer import MAX_ERROR_BYTES
from gym_core.servers.model.config import EndpointSettings
from gym_core.servers.model.dialect import TOOL_IMAGES_TEXT
from gym_core.servers.model.rejections import PICTURE_LIMIT_ADVICE, speaks_of_picture_limit, wants_completion_tokens
from gym_core.types.model_call import EndpointReport
from gym_core.types.wire import JsonObject

CHECK_TIMEOUT_S = 60.0
MODELS_TIMEOUT_S = 10.0
_MAX_REPLY_BYTES = 8 << 20
_LEAK = re.compile(rb"\[?\{'(?:type|text)': '(?:text|image_url|image|input_text|output_text)'")
_PROBE_SIDE_PX = 56
"""Two by two patches of the Qwen family: smaller pictures are refused by some."""

_PROBE_CALL: JsonObject = {
    "id": "probe0001",  # nine letters and digits: templates of the Mistral family take no other
    "type": "function",
    "function": {"name": "read", "arguments": "{}"},
}
_REFUSALS = frozenset({400, 422, 500})
"""What endpoints say of a prompt that they do not take; 500 is a chat template that failed."""


class _Model(msgspec.Struct):
    id: str = ""
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model] = []


class _Logprobs(msgspec.Struct):
    content: list[msgspec.Raw] | None = None


class _Choice(msgspec.Struct):
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    prompt_token_ids: list[int] | None = None


@dataclass
class _Tried:
    status: int
    content: bytes
    refusal_of_two: bytes | None = None
    """What the endpoint said when it took no second picture."""


class EndpointProbe:
    """Asks one endpoint. Each method takes at most `CHECK_TIMEOUT_S` and never raises for what the endpoint does."""

    def __init__(self, upstream: Upstream, settings: EndpointSettings) -> None:
        self._upstream = upstream
        self._settings = settings
        self._headers = {"Content-Type": "application/json", **settings.headers}

    async def models(self) -> list[tuple[str, int | None]]:
        """(name, its context in tokens) of each served model; [] when the endpoint does not say."""
        try:
            async with asyncio.timeout(MODELS_TIMEOUT_S):
                status, content = await self._send("GET", "/models", None)
            found = msgspec.json.decode(content, type=_Models) if status == 200 else _Models()
        except (UpstreamError, TimeoutError, msgspec.MsgspecError, ValueError, RecursionError):
            return []
        return [(model.id, model.max_model_len) for model in found.data]

    async def context_tokens(self) -> int | None:
        """Of our model, or of the only one there is."""
        models = await self.models()
        own = [length for name, length in models if name == self._settings.model]
        return own[0] if own else (models[0][1] if len(models) == 1 else None)

    async def report(self) -> EndpointReport:
        started = time.monotonic()
        models = await self.models()
        tried = await self._most_pictures()
        status, content = tried.status, tried.content
        accepts_images = status == 200
        if status != 200:
            status, content = await self._complete(self._probe(n_pictures=0, with_extras=False))
        completion = _read_completion(content) if status == 200 else None
        message = ""
        if completion is None:
            shown = self._settings.masked(content[:MAX_ERROR_BYTES].decode("utf-8", "replace"))
            message = f"{self._settings.base_urls[0]}: HTTP {status}: {shown[:300]}"
        elif not accepts_images:
            message = "the endpoint refuses images: this model cannot be run on visual tasks"
        elif tried.refusal_of_two is not None:
            message = self._warning_of_one_picture(tried.refusal_of_two)
        leaks = bool(_LEAK.search(content)) and completion is not None
        if leaks:
            message = (
                "the chat template prints list-shaped content as program text; "
                "serve the model with a template that joins parts, or --chat-template-content-format string"
            )
        choice = completion.choices[0] if completion else _Choice()
        return EndpointReport(
            ok=completion is not None and accepts_images and not leaks,
            answers=completion is not None,
            message=message,
            model=self._settings.model,
            served_models=[self._settings.masked(name)[:200] for name, _ in models[:50]],
            context_tokens=next((n for name, n in models if name == self._settings.model), None),
            gives_logprobs=bool(choice.logprobs and choice.logprobs.content),
            gives_token_ids=bool(choice.token_ids and completion and completion.prompt_token_ids),
            accepts_images=accepts_images,
            leaks_list_content=leaks,
            seconds=time.monotonic() - started,
        )

    async def _most_pictures(self) -> "_Tried":
        """With two pictures as an episode sends them, or else with one; each with our extras, or else without."""
        tried = _Tried(0, b"")
        for n_pictures in (2, 1):
            for with_extras in (True, False) if self._settings.wanted else (False,):
                tried.status, tried.content = await self._complete(
                    self._probe(n_pictures=n_pictures, with_extras=with_extras)
                )
                if tried.status not in _REFUSALS:
                    return tried
            tried.refusal_of_two = tried.refusal_of_two or tried.content
        return tried

    def _warning_of_one_picture(self, refusal: bytes) -> str:
        text = refusal[:MAX_ERROR_BYTES].decode("utf-8", "replace")
        advice = f"; {PICTURE_LIMIT_ADVICE}" if speaks_of_picture_limit(text) else ""
        return (
            "the endpoint takes one picture but refuses a second one after a tool's result: reading crops will fail"
            f"{advice} ({self._settings.masked(text)[:300]})"
        )

    def _probe(self, *, n_pictures: int, with_extras: bool) -> JsonObject:
        """The second picture comes as a harness sends what a tool read: in a user message after the tool's own."""
        picture: JsonObject = {"type": "image_url", "image_url": {"url": _picture()}}
        asked: JsonObject = {"type": "text", "text": "Reply with one word."}
        messages: list[JsonObject] = [
            {"role": "system", "content": "You are helpful."},
            {"role": "user", "content": [asked, picture] if n_pictures else [asked]},
        ]
        if n_pictures == 2:
            messages += [
                {"role": "assistant", "content": "", "tool_calls": [_PROBE_CALL]},
                {"role": "tool", "tool_call_id": _PROBE_CALL["id"], "content": "Image read successfully"},
                {"role": "user", "content": [{"type": "text", "text": TOOL_IMAGES_TEXT}, picture]},
            ]
        body: JsonObject = {"model": self._settings.model, "messages": messages, "max_tokens": 16}
        return body | (self._settings.wanted | {"return_prompt_text": True} if with_extras else {})

    async def _complete(self, body: JsonObject) -> tuple[int, bytes]:
        status, content = await self._try("POST", "/chat/completions", body)
        if status == 400 and wants_completion_tokens(content.decode("utf-8", "replace")):
            body = {name: value for name, value in body.items() if name != "max_tokens"}
            status, content = await self._try("POST", "/chat/completions", body | {"max_completion_tokens": 512})
        return status, content

    async def _try(self, method: str, path: str, body: JsonObject) -> tuple[int, bytes]:
        """(status, content); status 0 with the reason as content when no answer came."""
        try:
            return await self._send(method, path, msgspec.json.encode(body))
        except UpstreamError as error:
            return 0, str(error).encode()
        except TimeoutError:
            return 0, f"no answer within {CHECK_TIMEOUT_S:g} s".encode()

    async def _send(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        url = self._settings.base_urls[0].rstrip("/") + path
        async with (
            asyncio.timeout(CHECK_TIMEOUT_S),
            self._upstream.request(method, url, headers=self._headers, body=body) as reply,
        ):
            return reply.status, await reply.read(_MAX_REPLY_BYTES)


def _read_completion(content: bytes) -> _Completion | None:
    try:
        found = msgspec.json.decode(content, type=_Completion)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if found.choices else None


def _picture() -> str:
    """A small grey PNG as a data URL."""
    row = b"\x00" + b"\x80" * _PROBE_SIDE_PX
    pixels = zlib.compress(row * _PROBE_SIDE_PX)
    header = struct.pack(">IIBBBBB", _PROBE_SIDE_PX, _PROBE_SIDE_PX, 8, 0, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + _png_chunk(b"IHDR", header) + _png_chunk(b"IDAT", pixels) + _png_chunk(b"IEND", b"")
    return f"data:image/png;base64,{b64encode(png).decode()}"


def _png_chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
