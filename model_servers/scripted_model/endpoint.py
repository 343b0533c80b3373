"""The scripted policy behind the OpenAI chat-completions dialect, plain and streaming: an upstream like any other.

It has no tokenizer: usage counts white-space separated words and nothing for images, and requests for token ids or
log-probabilities are ignored, so that whoever asked finds them absent. Sampling fields and `max_tokens` are ignored
too: its turns are what they are.
"""

import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from gym_core.types.wire import JsonObject
from model_servers.scripted_model.chat import ChatMessage, ChatRequest, Turn, conversation_digest
from model_servers.scripted_model.library import solvers
from model_servers.scripted_model.policy import next_turn
from model_servers.scripted_model.text_calls import declared_in_text

MODEL_NAME = "scripted_model"
MAX_BODY_BYTES = 256 * 2**20
"""A conversation with a few large images as base64 fits; a runaway client does not fill the memory."""


@dataclass(frozen=True)
class _Completion:
    """One turn on its way out, in either shape."""

    request: ChatRequest
    turn: Turn
    digest: str

    @property
    def head(self) -> JsonObject:
        return {"id": f"chatcmpl-{self.digest[:24]}", "created": int(time.time()), "model": self.request.model}

    @property
    def tool_calls(self) -> list[JsonObject]:
        return [
            {
                "id": f"call_{self.digest[:20]}_{position}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for position, call in enumerate(self.turn.calls)
        ]

    @property
    def usage(self) -> JsonObject:
        read = _count_words(self.request.messages)
        written = len(self.turn.text.split()) + sum(len(str(call.arguments).split()) for call in self.turn.calls)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def as_object(self) -> JsonObject:
        message: JsonObject = {"role": "assistant", "content": self.turn.text}
        if self.turn.calls:
            message["tool_calls"] = self.tool_calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.turn.finish_reason}
        return self.head | {"object": "chat.completion", "choices": [choice], "usage": self.usage}

    def as_chunks(self) -> list[JsonObject]:
        deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": word} for word in _words_with_space(self.turn.text)]
        deltas += [{"tool_calls": [{"index": i} | call]} for i, call in enumerate(self.tool_calls)]
        chunks = [self._chunk(delta, finish_reason=None) for delta in deltas]
        chunks.append(self._chunk({}, finish_reason=self.turn.finish_reason))
        options = self.request.stream_options
        if options is not None and options.include_usage:
            chunks.append(self.head | {"object": "chat.completion.chunk", "choices": [], "usage": self.usage})
        return chunks

    def _chunk(self, delta: JsonObject, *, finish_reason: str | None) -> JsonObject:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self.head | {"object": "chat.completion.chunk", "choices": [choice]}


def make_endpoint(*, looks: bool = True) -> FastAPI:
    """The app with POST /v1/chat/completions and GET /v1/models; all else is 404. One that does not look guesses."""
    solvers()  # a broken one is found now and not in the middle of a run
    app = FastAPI(title="scripted_model", docs_url=None, redoc_url=None, openapi_url=None)

    @app.exception_handler(HTTPException)
    async def on_http_error(_: Request, error: HTTPException) -> Response:
        return _error(error.status_code, str(error.detail))

    @app.get("/v1/models")
    async def models() -> JsonObject:
        model = {"id": MODEL_NAME, "object": "model", "created": 0, "owned_by": "visual-agent-gym"}
        return {"object": "list", "data": [model]}

    @app.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        body = await _read_body(request)
        try:
            chat = ChatRequest.model_validate_json(body)
        except ValidationError as error:
            return _error(400, f"not a chat-completions request: {error.error_count()} mistakes, first {_first(error)}")
        text_tools = None if chat.tool_names else declared_in_text(chat.messages)
        turn = next_turn(chat.messages, text_tools.names if text_tools else chat.tool_names, looks=looks)
        if text_tools:
            turn = text_tools.written(turn)
        completion = _Completion(chat, turn, conversation_digest(chat.messages))
        if chat.stream:
            return StreamingResponse(_events(completion.as_chunks()), media_type="text/event-stream")
        return JSONResponse(completion.as_object())

    return app


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
    return bytes(body)


async def _events(chunks: Sequence[JsonObject]) -> AsyncIterator[str]:
    for chunk in chunks:
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


def _error(status: int, message: str) -> JSONResponse:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": status}}, status)


def _first(error: ValidationError) -> str:
    detail = error.errors(include_input=False, include_url=False)[0]
    return f"at {'.'.join(map(str, detail['loc'])) or 'the top'}: {detail['msg']}"


def _count_words(messages: Sequence[ChatMessage]) -> int:
    arguments = (call.function.arguments for message in messages for call in message.tool_calls or ())
    return sum(len(message.text.split()) for message in messages) + sum(len(text.split()) for text in arguments)


def _words_with_space(text: str) -> list[str]:
    """The text in pieces that end after each space, nothing lost."""
    return [piece + " " for piece in text.split(" ")[:-1]] + text.split(" ")[-1:]
