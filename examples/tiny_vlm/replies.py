"""Answers in vLLM's shape: chat completions whole and streamed, and token-in token-out ones."""

import json
import time
import uuid
from collections.abc import AsyncIterator, Sequence

from examples.tiny_vlm.completion import Piece
from examples.tiny_vlm.engine import Engine
from examples.tiny_vlm.markup import Answer, AnswerStream, Delta, make_call_id, read_answer
from examples.tiny_vlm.prompts import Prompt
from examples.tiny_vlm.sampling import Score
from examples.tiny_vlm.wire import ChatRequest, DerenderRequest, GenerateRequest
from gym_core.types.wire import JsonObject


def usage(prompt_tokens: int, completion_tokens: int) -> JsonObject:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


class ChatReply:
    """One chat completion on its way out."""

    def __init__(self, engine: Engine, request: ChatRequest, prompt: Prompt) -> None:
        self._engine = engine
        self._request = request
        self._prompt = prompt
        self._id = f"chatcmpl-{uuid.uuid4().hex[:16]}"
        self._created = int(time.time())

    def whole(self, pieces: Sequence[Piece]) -> JsonObject:
        request, last = self._request, pieces[-1]
        answer = self._read("".join(piece.text for piece in pieces))
        choice: JsonObject = {
            "index": 0,
            "message": _message(answer, with_reasoning=request.include_reasoning),
            "logprobs": self._logprobs(pieces),
            "finish_reason": "tool_calls" if answer.calls else last.finish,
            "stop_reason": last.stop_reason,
            "token_ids": self._token_ids(pieces),
        }
        return self._envelope(
            "chat.completion",
            choices=[choice],
            usage=usage(len(self._prompt.token_ids), len(pieces)),
            prompt_token_ids=self._prompt.token_ids if request.return_token_ids else None,
            prompt_text=self._prompt.text if request.return_prompt_text else None,
        )

    async def stream(self, pieces: AsyncIterator[Piece]) -> AsyncIterator[JsonObject]:
        request, called, count = self._request, False, 0
        stream = AnswerStream(with_tools=request.uses_tools, with_reasoning=self._engine.settings.has_reasoning)
        role: JsonObject = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None}
        yield self._envelope(
            "chat.completion.chunk",
            choices=[role | {"finish_reason": None}],
            prompt_token_ids=self._prompt.token_ids if request.return_token_ids else None,
            prompt_text=self._prompt.text if request.return_prompt_text else None,
        )
        async for piece in pieces:
            count += 1
            deltas = list(stream.feed(piece.text))
            called = called or any(delta.is_call for delta in deltas)
            delta = _merged(deltas, with_reasoning=request.include_reasoning)
            if not delta and not piece.finish and not self._shows_tokens:
                continue
            choice: JsonObject = {
                "index": 0,
                "delta": delta,
                "logprobs": self._logprobs([piece]),
                "finish_reason": "tool_calls" if called and piece.finish == "stop" else piece.finish,
                "token_ids": self._token_ids([piece]),
            }
            if piece.finish:
                choice["stop_reason"] = piece.stop_reason
            yield self._envelope("chat.completion.chunk", choices=[choice])
        if request.stream_options and request.stream_options.include_usage:
            total = usage(len(self._prompt.token_ids), count)
            yield self._envelope("chat.completion.chunk", choices=[], usage=total)

    @property
    def _shows_tokens(self) -> bool:
        """Hidden reasoning hides every token: their text would show it."""
        return self._request.include_reasoning and bool(self._request.logprobs or self._request.return_token_ids)

    def _read(self, text: str) -> Answer:
        with_reasoning = self._engine.settings.has_reasoning
        return read_answer(text, with_tools=self._request.uses_tools, with_reasoning=with_reasoning)

    def _token_ids(self, pieces: Sequence[Piece]) -> list[int] | None:
        shows = self._request.return_token_ids and self._request.include_reasoning
        return [piece.token for piece in pieces] if shows else None

    def _logprobs(self, pieces: Sequence[Piece]) -> JsonObject | None:
        if not self._request.logprobs or not self._request.include_reasoning:
            return None
        by_id = bool(self._request.return_tokens_as_token_ids)
        return {"content": [self._logprob(piece, by_id=by_id) for piece in pieces]}

    def _logprob(self, piece: Piece, *, by_id: bool) -> JsonObject:
        """The sampled token comes first among the top ones, and the list is cut after that: as in vLLM."""
        sampled = piece.draw.sampled
        others = [score for score in piece.draw.likeliest if score.token != sampled.token]
        top = [sampled, *others][: self._request.top_logprobs or 0]
        entry = _chat_logprob(self._engine, sampled.token, sampled.logprob, by_id=by_id)
        top_entries = [_chat_logprob(self._engine, score.token, score.logprob, by_id=by_id) for score in top]
        return entry | {"top_logprobs": top_entries}

    def _envelope(self, kind: str, **fields: object) -> JsonObject:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._engine.settings.name, **fields}


class GenerateReply:
    """One token-in token-out completion on its way out."""

    def __init__(self, engine: Engine, request: GenerateRequest, prompt: Prompt) -> None:
        self._engine = engine
        self._request = request
        self._prompt = prompt
        self._id = f"generate-tokens-{request.request_id or uuid.uuid4().hex[:16]}"

    def whole(self, pieces: Sequence[Piece]) -> JsonObject:
        return {
            "request_id": self._id,
            "model": self._engine.settings.name,
            "created": int(time.time()),
            "usage": usage(len(self._prompt.token_ids), len(pieces)),
            **self._prompt_fields(),
            "output_mode": "tokens",
            "choices": [self._choice(pieces)],
        }

    async def stream(self, pieces: AsyncIterator[Piece]) -> AsyncIterator[JsonObject]:
        count = 0
        async for piece in pieces:
            first = self._prompt_fields() if count == 0 else {}
            count += 1
            yield {"request_id": self._id, "output_mode": "tokens", "choices": [self._choice([piece])], **first}
        if self._request.stream_options and self._request.stream_options.include_usage:
            total = usage(len(self._prompt.token_ids), count)
            yield {"request_id": self._id, "output_mode": "tokens", "choices": [], "usage": total}

    def _prompt_fields(self) -> JsonObject:
        if not self._request.return_token_ids:
            return {"prompt_token_ids": None, "mm_placeholders": None}
        places = placeholders(self._prompt)
        return {"prompt_token_ids": self._prompt.token_ids, "mm_placeholders": {"image": places} if places else None}

    def _choice(self, pieces: Sequence[Piece]) -> JsonObject:
        wants = self._request.sampling_params.logprobs
        return {
            "index": 0,
            "finish_reason": pieces[-1].finish,
            "stop_reason": pieces[-1].stop_reason,
            "token_ids": [piece.token for piece in pieces],
            "logprobs": None if wants is None else {"content": [_generate_logprob(piece, wants) for piece in pieces]},
        }


def derender(engine: Engine, request: DerenderRequest) -> JsonObject:
    """The chat completion that generated tokens make. Needs no weights."""
    chat, generated = request.chat_request, request.generate_response
    with_tools = bool(chat and chat.uses_tools)
    choices: list[JsonObject] = []
    for choice in generated.choices:
        tokens = choice.token_ids or []
        text = engine.decode(tokens, skip_special_tokens=not with_tools)
        answer = read_answer(text, with_tools=with_tools, with_reasoning=engine.settings.has_reasoning)
        content = None
        if choice.logprobs and choice.logprobs.content is not None:
            content = [_chat_logprob(engine, entry.token_id, entry.logprob) for entry in choice.logprobs.content]
        choices.append(
            {
                "index": choice.index,
                "message": _message(answer, with_reasoning=chat is None or chat.include_reasoning),
                "logprobs": None if content is None else {"content": content},
                "finish_reason": choice.finish_reason,
                "stop_reason": choice.stop_reason,
                "token_ids": tokens,
            }
        )
    count = sum(len(choice.token_ids or ()) for choice in generated.choices)
    return {
        "id": generated.request_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": engine.settings.name,
        "choices": choices,
        "usage": usage(request.prompt_tokens or 0, count),
    }


def placeholders(prompt: Prompt) -> list[JsonObject]:
    return [{"offset": span.offset, "length": span.length} for span in prompt.placeholders]


async def server_sent_events(chunks: AsyncIterator[JsonObject]) -> AsyncIterator[str]:
    async for chunk in chunks:
        yield f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
    yield "data: [DONE]\n\n"


def _message(answer: Answer, *, with_reasoning: bool) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": answer.content}
    message["reasoning"] = answer.reasoning if with_reasoning else None
    if answer.calls:
        message["tool_calls"] = [
            {"id": make_call_id(), "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    return message


def _merged(deltas: Sequence[Delta], *, with_reasoning: bool) -> JsonObject:
    """All that one token brought, as one delta; empty if it brought nothing."""
    merged: JsonObject = {}
    if content := "".join(delta.content or "" for delta in deltas):
        merged["content"] = content
    reasoning = "".join(delta.reasoning or "" for delta in deltas)
    if reasoning and with_reasoning:
        merged["reasoning"] = reasoning
    if calls := [_call_delta(delta) for delta in deltas if delta.is_call]:
        merged["tool_calls"] = calls
    return merged


def _call_delta(delta: Delta) -> JsonObject:
    if delta.name is not None:
        return {"index": delta.index, "id": delta.call_id, "type": "function", "function": {"name": delta.name}}
    return {"index": delta.index, "function": {"arguments": delta.arguments}}


def _chat_logprob(engine: Engine, token: int, logprob: float, *, by_id: bool = False) -> JsonObject:
    text = f"token_id:{token}" if by_id else engine.tokenizer.decode([token], skip_special_tokens=False)
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


def _generate_logprob(piece: Piece, wants: int) -> JsonObject:
    """The sampled token is the first of the top ones, beside as many as were asked for."""
    sampled = piece.draw.sampled
    top = [sampled, *(score for score in piece.draw.likeliest[:wants] if score.token != sampled.token)]
    return _scored(sampled) | {"top_logprobs": [_scored(score) for score in top]}


def _scored(score: Score) -> JsonObject:
    return {"token_id": score.token, "logprob": score.logprob, "rank": score.rank}
