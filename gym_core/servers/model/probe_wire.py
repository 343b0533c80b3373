"""How a probe speaks to one endpoint: a request, and what its reply says that a probe wants to know."""

import asyncio
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from gym_core.http.upstream import Upstream, UpstreamError
from gym_core.servers.model.config import EndpointSettings
from gym_core.servers.model.rejections import wants_completion_tokens
from gym_core.types.wire import JsonObject

ReplyT = TypeVar("ReplyT")

CHECK_TIMEOUT_S = 60.0
MODELS_TIMEOUT_S = 10.0
_MAX_REPLY_BYTES = 8 << 20
_REASONING_TOKENS = 512
"""For endpoints that count reasoning in what they may generate, and answer nothing with less."""


class TopLogprob(msgspec.Struct):
    token: str = ""
    logprob: float = 0.0


class TokenLogprob(msgspec.Struct):
    token: str = ""
    logprob: float = 0.0
    top_logprobs: list[TopLogprob] = []


class _Logprobs(msgspec.Struct):
    content: list[TokenLogprob] | None = None


class _Choice(msgspec.Struct):
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    prompt_token_ids: list[int] | None = None
    prompt_text: str | None = None


class _Generated(msgspec.Struct):
    choices: list[_Choice]


class _Rendered(msgspec.Struct):
    token_ids: list[int]


class _Detokenized(msgspec.Struct):
    prompt: str


class _Model(msgspec.Struct):
    id: str = ""
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model] = []


@dataclass(frozen=True)
class ProbeReply:
    status: int
    """0 when no answer came."""
    content: bytes
    """The reason, when no answer came."""

    @property
    def completion(self) -> "SeenCompletion | None":
        """None unless it is one."""
        found = _decode(self, _Completion)
        if found is None or not found.choices:
            return None
        choice = found.choices[0]
        return SeenCompletion(
            prompt_ids=found.prompt_token_ids or [],
            prompt_text=found.prompt_text,
            has_ids=bool(choice.token_ids and found.prompt_token_ids),
            logprobs=(choice.logprobs.content if choice.logprobs else None) or [],
        )

    def read(self, kind: type[ReplyT]) -> ReplyT | None:
        """None unless it is a 200 of that form."""
        return _decode(self, kind)

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")


@dataclass(frozen=True)
class SeenCompletion:
    prompt_ids: list[int]
    """[] when they were not given."""
    prompt_text: str | None
    """As the template printed it; None when it was not given."""
    has_ids: bool
    logprobs: list[TokenLogprob]


@dataclass(frozen=True)
class ServedModel:
    name: str
    context_tokens: int | None


class ProbeClient:
    """Asks one endpoint. Nothing here takes longer than `CHECK_TIMEOUT_S`, and nothing raises for what it does."""

    def __init__(self, upstream: Upstream, settings: EndpointSettings, url: str) -> None:
        self.url = url.rstrip("/")
        self._root = self.url.removesuffix("/v1")
        self._upstream = upstream
        self._settings = settings
        self._headers = {"Content-Type": "application/json", **settings.headers}

    async def models(self) -> list[ServedModel]:
        """[] when the endpoint does not say."""
        reply = await self._ask("GET", f"{self.url}/models", None, timeout_s=MODELS_TIMEOUT_S)
        found = _decode(reply, _Models)
        return [ServedModel(model.id, model.max_model_len) for model in found.data] if found else []

    async def complete(self, messages: list[JsonObject], **fields: object) -> ProbeReply:
        """One chat completion, not streamed; `fields` hold `max_tokens`."""
        body: JsonObject = {"model": self._settings.model, "messages": messages, **fields}
        reply = await self._ask("POST", f"{self.url}/chat/completions", body)
        if reply.status == 400 and wants_completion_tokens(reply.text):
            body = {name: value for name, value in body.items() if name != "max_tokens"}
            body["max_completion_tokens"] = _REASONING_TOKENS
            reply = await self._ask("POST", f"{self.url}/chat/completions", body)
        return reply

    async def render(self, messages: list[JsonObject]) -> list[int] | None:
        """The prompt's ids by the engine's render route; None without one."""
        body = {"model": self._settings.model, "messages": messages, "mm_payload": "none"}
        found = _decode(await self._ask("POST", f"{self.url}/chat/completions/render", body), _Rendered)
        return found.token_ids if found else None

    async def generate(self, token_ids: list[int]) -> list[int] | None:
        """One id sampled after these; None where the engine takes no token prompts."""
        body = {
            "model": self._settings.model,
            "token_ids": token_ids,
            "sampling_params": {"max_tokens": 1},
            "return_token_ids": True,
        }
        found = _decode(await self._ask("POST", f"{self._root}/inference/v1/generate", body), _Generated)
        return found.choices[0].token_ids if found and found.choices else None

    async def derender(self, prompt_ids: list[int], sampled: list[int]) -> bool:
        """Whether the engine makes a message of sampled ids."""
        body = {
            "model": self._settings.model,
            "generate_response": {
                "request_id": "probe",
                "choices": [{"index": 0, "token_ids": sampled, "finish_reason": "length"}],
                "prompt_token_ids": prompt_ids,
            },
            "prompt_tokens": len(prompt_ids),
            "chat_request": {"model": self._settings.model, "messages": [{"role": "user", "content": "-"}]},
        }
        reply = await self._ask("POST", f"{self.url}/chat/completions/derender", body)
        return reply.completion is not None

    async def detokenize(self, token_ids: list[int]) -> str | None:
        """Their text by vLLM's route; None without one."""
        body = {"model": self._settings.model, "tokens": token_ids}
        found = _decode(await self._ask("POST", f"{self._root}/detokenize", body), _Detokenized)
        return found.prompt if found else None

    async def _ask(
        self, method: str, url: str, body: JsonObject | None, *, timeout_s: float = CHECK_TIMEOUT_S
    ) -> ProbeReply:
        content = None if body is None else [msgspec.json.encode(body)]
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._upstream.request(method, url, headers=self._headers, body=content) as reply,
            ):
                return ProbeReply(reply.status, await reply.read(_MAX_REPLY_BYTES))
        except UpstreamError as error:
            return ProbeReply(0, str(error).encode())
        except TimeoutError:
            return ProbeReply(0, f"no answer within {timeout_s:g} s".encode())


def _decode(reply: ProbeReply, kind: type[ReplyT]) -> ReplyT | None:
    if reply.status != 200:
        return None
    try:
        return msgspec.json.decode(reply.content, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
