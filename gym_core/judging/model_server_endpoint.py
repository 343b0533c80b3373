"""Chat completions of a judge model server of ours, over HTTP."""

import json

from pydantic import BaseModel, ConfigDict, ValidationError

from gym_core.errors import EpisodeError, FailureKind, JudgeError, boundary
from gym_core.http.client import ServiceClient
from gym_core.judging.contract import JudgeFailed
from gym_core.judging.grader_prompt import ChatMessage
from gym_core.judging.llm_judge import ChatAnswer
from gym_core.types.cost import TokenCount

ROUTE = "/v1/chat/completions"
FINAL_STATUSES = range(400, 429)
"""The endpoint understood and refused: a wrong key, model name or field does not get better by asking again."""


class _Theirs(BaseModel):
    """A stranger's reply: what we do not read may look as it likes."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Message(_Theirs):
    content: str | None = None


class _Choice(_Theirs):
    message: _Message


class _PromptDetails(_Theirs):
    cached_tokens: int | None = None


class _Usage(_Theirs):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _PromptDetails | None = None


class _Completion(_Theirs):
    choices: list[_Choice]
    model: str = ""
    usage: _Usage | None = None

    def tokens(self) -> TokenCount:
        """A prompt of no tokens is one that nobody counted."""
        if self.usage is None or not self.usage.prompt_tokens:
            return TokenCount(calls=1, uncounted_calls=1)
        details = self.usage.prompt_tokens_details
        return TokenCount(
            input=self.usage.prompt_tokens,
            cached_input=(details and details.cached_tokens) or 0,
            output=self.usage.completion_tokens,
            calls=1,
        )


class ModelServerEndpoint:
    """A ChatEndpoint. The server behind it knows the model's name and key; `model` is only what we call it."""

    def __init__(self, client: ServiceClient, *, model: str, timeout_s: float) -> None:
        self._client = client
        self._model = model
        self._timeout_s = timeout_s

    async def complete(self, messages: list[ChatMessage], *, max_tokens: int, temperature: float) -> ChatAnswer:
        body = {"model": self._model, "messages": messages, "max_tokens": max_tokens, "temperature": temperature}
        raw = json.dumps(body).encode()
        with boundary(JudgeError, f"judge {self._client.url}{ROUTE}"):
            reply = await self._client.send("POST", ROUTE, body=raw, timeout_s=self._timeout_s)
        if reply.status >= 400:
            raise self._refusal(reply.status, reply.body)
        try:
            completion = _Completion.model_validate_json(reply.body)
            text = completion.choices[0].message.content
        except (ValidationError, IndexError) as error:
            raise JudgeError(f"judge {self._client.url}{ROUTE}: not a chat completion: {reply.body[:200]!r}") from error
        return ChatAnswer(text=text or "", model=completion.model, usage=completion.tokens())

    def _refusal(self, status: int, body: bytes) -> EpisodeError:
        reason = f"judge {self._client.url}{ROUTE}: HTTP {status}: {body[:500].decode('utf-8', 'replace')}"
        if status in FINAL_STATUSES and status != 408:
            return JudgeFailed(reason, kind=FailureKind.JUDGE_FAILED)
        return JudgeError(reason)
