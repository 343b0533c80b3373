"""An engine's token routes: messages to ids, ids to sampled ids, sampled ids back to a message.

vLLM has them with `--enable-scale-out`. Whatever of a request they do not speak of (sampling, grammar, limits) is taken
from the engine's own translation of the chat request, so that it is what the chat route would have used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from msgspec import Raw

from gym_core.capture.recorder import Ids
from gym_core.http.upstream import UpstreamReply
from gym_core.servers.model.answer import Answer
from gym_core.servers.model.answer_form import BrokenAnswer
from gym_core.servers.model.endpoint import EndpointPool, Progress
from gym_core.servers.model.messages import ReadMessage
from gym_core.servers.model.prompt_ids import PromptMemory
from gym_core.servers.model.request import ShapedBody
from gym_core.types.wire import JsonObject

RENDER_PATH = "/chat/completions/render"
DERENDER_PATH = "/chat/completions/derender"
GENERATE_PATH = "/inference/v1/generate"
MAX_RENDER_BYTES = 64 << 20
_DEFAULT_MAX_TOKENS = 16
"""Of vLLM's sampling parameters, which are printed without those that have their default value: read back, a missing
`max_tokens` would mean the whole context."""
_STREAM_FIELDS = ("stream", "stream_options")
_ENGINE_FIELDS = ("reasoning_ended", "reasoning_parser_kwargs", "cache_salt", "priority")
_NULL = Raw(b"null")


class _Span(msgspec.Struct, gc=False):
    offset: int
    length: int


class _Features(msgspec.Struct, gc=False):
    mm_placeholders: dict[str, list[_Span]] = {}


class _Rendered(msgspec.Struct, gc=False):
    token_ids: Raw
    sampling_params: dict[str, Raw] = {}
    features: _Features | None = None
    reasoning_ended: Raw = _NULL
    reasoning_parser_kwargs: Raw = _NULL
    cache_salt: Raw = _NULL
    priority: Raw = _NULL


_RENDERED = msgspec.json.Decoder(_Rendered)


@dataclass(frozen=True)
class Rendered:
    """A chat request as the engine's template and tokenizer make it."""

    ids: Ids
    """Pictures' placeholders expanded."""
    pictures: tuple[tuple[int, int], ...]
    """(offset, length) of each picture's placeholders."""
    sampling: Mapping[str, Raw]
    engine_fields: Mapping[str, Raw]
    """Further fields of the request that the engine made of it."""

    @property
    def max_tokens(self) -> int | None:
        """Of the answer; None for all the context."""
        said = self.sampling.get("max_tokens")
        return msgspec.json.decode(said, type=int | None) if said is not None else _DEFAULT_MAX_TOKENS


@dataclass(frozen=True)
class Asking:
    """Whose request it is, for the retries and the record."""

    affinity: int
    progress: Progress


class TokenEndpoint:
    """All methods raise Refusal, and EndpointFault once it is final."""

    def __init__(self, pool: EndpointPool) -> None:
        self._pool = pool

    async def render(
        self, body: ShapedBody, messages: Sequence[object], asking: Asking, *, with_prompt: bool = True
    ) -> Rendered:
        """`body` with these messages as ids; `with_prompt`: with the beginning of the next answer."""
        fields = {name: value for name, value in body.fields.items() if name not in _STREAM_FIELDS}
        fields |= {"messages": messages, "add_generation_prompt": with_prompt, "mm_payload": "none"}
        asked = replace(body, fields=fields, path=RENDER_PATH)
        return await self._pool.ask(asked, _read_rendered, affinity=asking.affinity, progress=asking.progress)

    async def generate(
        self,
        rendered: Rendered,
        ids: Ids,
        pictures: Sequence[JsonObject],
        asking: Asking,
        *,
        max_tokens: int | None,
        memory: PromptMemory,
    ) -> Answer:
        """What the engine samples after `ids`, one placeholder a picture in them; its text is not in the answer."""
        fields: dict[str, object] = dict(rendered.engine_fields)
        fields |= {
            "model": self._pool.settings.model,
            "token_ids": ids.tolist(),
            "sampling_params": {**rendered.sampling, "max_tokens": max_tokens, "logprobs": _n_logprobs(rendered)},
            "return_token_ids": True,
        }
        if pictures:
            fields["content_parts"] = pictures
        if self._pool.settings.streams:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        asked = ShapedBody(fields, None, "max_tokens", GENERATE_PATH)
        return await self._pool.complete(asked, affinity=asking.affinity, progress=asking.progress, memory=memory)

    async def derender(self, body: ShapedBody, prompt_ids: Ids, sampled: Ids, finish: str, asking: Asking) -> Answer:
        """The message that the engine's parsers make of sampled ids, of which there is at least one.

        The conversation itself is not sent again: parsers look at the tools and at how the prompt ends.
        """
        chat = {name: value for name, value in body.fields.items() if name not in _STREAM_FIELDS}
        chat["messages"] = [{"role": "user", "content": "-"}]
        fields = {
            "model": self._pool.settings.model,
            "generate_response": {
                "request_id": "derender",
                "choices": [{"index": 0, "token_ids": sampled.tolist(), "finish_reason": finish}],
                "prompt_token_ids": prompt_ids.tolist(),
            },
            "prompt_tokens": len(prompt_ids),
            "chat_request": chat,
        }
        asked = ShapedBody(fields, None, "max_tokens", DERENDER_PATH)
        return await self._pool.complete(asked, affinity=asking.affinity, progress=asking.progress)


async def _read_rendered(reply: UpstreamReply) -> Rendered:
    raw = await reply.read(MAX_RENDER_BYTES)
    try:
        read = _RENDERED.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BrokenAnswer(f"not a rendered prompt: {error}"[:300]) from error
    ids = PromptMemory().read(bytes(read.token_ids))
    spans = [span for spans in (read.features or _Features()).mm_placeholders.values() for span in spans]
    if ids is None or any(span.offset < 0 or span.length < 1 or span.offset + span.length > len(ids) for span in spans):
        raise BrokenAnswer("a rendered prompt without ids, or with pictures outside it")
    return Rendered(
        np.asarray(ids),
        tuple(sorted((span.offset, span.length) for span in spans)),
        read.sampling_params,
        {name: value for name in _ENGINE_FIELDS if bytes(value := getattr(read, name)) != b"null"},
    )


def _n_logprobs(rendered: Rendered) -> object:
    """At least those of the sampled tokens."""
    said = rendered.sampling.get("logprobs", _NULL)
    return 0 if bytes(said) == b"null" else said


class _Url(msgspec.Struct, gc=False):
    url: Raw


class _Part(msgspec.Struct, gc=False):
    image_url: _Url | None = None


class _Content(msgspec.Struct, gc=False):
    content: list[_Part]


_CONTENT = msgspec.json.Decoder(_Content)


def picture_parts(read: Sequence[ReadMessage], sending: Sequence[Raw]) -> list[JsonObject]:
    """The pictures of a conversation in order, as they go beside token ids."""
    return [
        {"type": "image_url", "url": part.image_url.url}
        for message, raw in zip(read, sending, strict=True)
        if message.images
        for part in _CONTENT.decode(raw).content
        if part.image_url is not None
    ]


def without_pictures(message: ReadMessage, sent: Raw) -> object:
    """The message with a word for each picture: enough where only its turns are counted."""
    if not message.images:
        return sent
    fields: JsonObject = msgspec.json.decode(message.kept)
    word = {"type": "text", "text": "picture"}
    fields["content"] = [word if "image_url" in part else part for part in fields["content"]]
    return fields
