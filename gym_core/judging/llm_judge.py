"""A language model as judge: one chat call that must end in a verdict, or the sample is masked."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from gym_core.errors import EpisodeError, FailureKind
from gym_core.judging.contract import GradingInput, JudgeFailed, Verdict
from gym_core.judging.grader_prompt import (
    MAX_REPLY_CHARS,
    REASK,
    SYSTEM,
    ChatMessage,
    GraderReply,
    grader_messages,
    parse_reply,
    prompt_sha256,
)
from gym_core.types.cost import TokenCount

RETRY_PAUSES_S = (1.0, 4.0)
"""Waits between tries of a failed call: three tries in all."""


@dataclass(frozen=True)
class ChatAnswer:
    text: str
    model: str = ""
    """As the endpoint names itself."""
    usage: TokenCount = TokenCount(calls=1, uncounted_calls=1)
    """Of this one call."""


class ChatEndpoint(Protocol):
    async def complete(self, messages: list[ChatMessage], *, max_tokens: int, temperature: float) -> ChatAnswer:
        """One completion. Raises an EpisodeError; a `JudgeFailed` among them is final, any other is worth a retry."""
        ...


class LlmJudge:
    """Retries failed calls, asks once more after a reply without a verdict, then gives up by raising.

    Other `instructions` may ask for another form of reply: `read_reply` then finds the verdict in it, or raises
    ValueError, and `reask` is what a reply without one is answered with.
    """

    def __init__(
        self,
        endpoint: ChatEndpoint,
        *,
        instructions: str = SYSTEM,
        read_reply: Callable[[str], GraderReply] = parse_reply,
        reask: str = REASK,
        max_tokens: int = 1024,
        max_in_flight: int = 32,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._endpoint = endpoint
        self._instructions = instructions
        self._read_reply = read_reply
        self._reask = reask
        self._max_tokens = max_tokens
        self._slots = asyncio.Semaphore(max_in_flight)
        self._sleep = sleep

    async def grade(self, grading: GradingInput) -> Verdict:
        messages = grader_messages(grading, self._instructions)
        trail = _Trail(prompt_sha256=prompt_sha256(messages))
        answer = await self._ask(messages, trail)
        try:
            return trail.verdict(self._read_reply(answer.text))
        except ValueError:
            messages += [
                {"role": "assistant", "content": answer.text[:MAX_REPLY_CHARS]},
                {"role": "user", "content": self._reask},
            ]
        answer = await self._ask(messages, trail)
        try:
            return trail.verdict(self._read_reply(answer.text))
        except ValueError as error:
            raise trail.failure(str(error), FailureKind.JUDGE_UNPARSEABLE) from error

    async def _ask(self, messages: list[ChatMessage], trail: "_Trail") -> ChatAnswer:
        for pause_s in (*RETRY_PAUSES_S, None):
            trail.attempts += 1
            try:
                async with self._slots:
                    answer = await self._endpoint.complete(messages, max_tokens=self._max_tokens, temperature=0.0)
            except EpisodeError as error:
                if pause_s is None or isinstance(error, JudgeFailed):
                    raise trail.failure(str(error), FailureKind.JUDGE_FAILED) from error
                await self._sleep(pause_s)
            else:
                trail.usage += answer.usage
                trail.last_answer = replace(answer, text=answer.text[:MAX_REPLY_CHARS])
                return answer
        raise AssertionError("unreachable")


@dataclass
class _Trail:
    """What was seen of the judge while grading one answer."""

    prompt_sha256: str
    attempts: int = 0
    last_answer: ChatAnswer | None = None
    usage: TokenCount = field(default_factory=TokenCount)

    def verdict(self, reply: GraderReply) -> Verdict:
        return Verdict(
            label=reply.verdict,
            reason=reply.reason,
            confidence=reply.confidence,
            raw_reply=self.last_answer.text if self.last_answer else None,
            model=self.last_answer.model if self.last_answer else None,
            prompt_sha256=self.prompt_sha256,
            attempts=self.attempts,
            usage=self.usage,
        )

    def failure(self, reason: str, kind: FailureKind) -> JudgeFailed:
        return JudgeFailed(
            f"judge gave no verdict after {self.attempts} calls: {reason}",
            kind=kind,
            details={
                "judge_raw_reply": self.last_answer.text if self.last_answer else None,
                "judge_model": self.last_answer.model if self.last_answer else None,
                "judge_prompt_sha256": self.prompt_sha256,
                "judge_attempts": self.attempts,
                "judge_usage": self.usage.model_dump(),
            },
        )
