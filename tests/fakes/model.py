"""An OpenAI-compatible endpoint on a real loopback socket, driven by a rule, that can misbehave on demand.

It gives token ids and log-probabilities the way vLLM does: prompt ids in the first chunk only, generated ids and
log-probabilities in each chunk. A token is one character of the answer; its id is its code point.
"""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from aiohttp import web

from gym_core.types.wire import JsonObject

STOP_ID = 1


class Fault(StrEnum):
    """What goes wrong with one request."""

    NONE = "none"
    RATE_LIMITED = "rate_limited"
    """429 with `Retry-After: 1`."""
    SERVER_ERROR = "server_error"
    BAD_REQUEST = "bad_request"
    TOO_LARGE = "too_large"
    """413, as of a gateway with a limit of bodies."""
    UNAUTHORIZED = "unauthorized"
    HTML = "html"
    """200 with a login page."""
    HANG = "hang"
    """No byte until the endpoint closes."""
    RESET = "reset"
    HALF_STREAM = "half_stream"
    """A few chunks, then the connection is gone."""
    CLEAN_HALF = "clean_half"
    """A few chunks and a well-formed end, without finish reason or [DONE]."""
    CUT_EVENT = "cut_event"
    STALL = "stall"
    """A few chunks, then silence."""
    ERROR_EVENT = "error_event"
    GARBAGE = "garbage"
    NO_DONE = "no_done"
    FEWER_IDS = "fewer_ids"
    """Usage counts more tokens than there are ids."""
    NO_CALL_IDS = "no_call_ids"
    """Ids and log-probabilities of streamed tool calls are lost, as in vLLM's issue 27482."""
    BAD_LOGPROB = "bad_logprob"
    """One log-probability is the mark of a token that was cut from the distribution."""
    HUGE_HEADER = "huge_header"
    NO_CHOICES = "no_choices"


@dataclass(frozen=True)
class Calls:
    """One tool call of an answer."""

    name: str
    arguments: str
    """JSON text, sent as it is."""
    id: str | None = None


@dataclass(frozen=True)
class Says:
    """One answer. `finish_reason` None means the usual one."""

    text: str = ""
    calls: tuple[Calls, ...] = ()
    reasoning: str = ""
    finish_reason: str | None = None

    @property
    def reason(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")


Rule = Callable[[list[JsonObject]], "str | Says"]
"""The messages to the answer."""


@dataclass(frozen=True)
class Seen:
    """One request to /chat/completions as it arrived."""

    raw: bytes
    headers: dict[str, str]
    fault: Fault

    @property
    def body(self) -> JsonObject:
        found: JsonObject = json.loads(self.raw)
        return found


def says_ok(_: list[JsonObject]) -> str:
    return "ok"


@dataclass
class ScriptedEndpoint:
    """`async with ScriptedEndpoint(rule) as endpoint:`; `endpoint.url` ends in /v1."""

    rule: Rule = says_ok
    model: str = "tiny"
    context_tokens: int | None = None
    """Given as `max_model_len`; a prompt of more characters, or one that leaves no room for max_tokens, is a 400."""
    refuses: frozenset[str] = frozenset()
    """Request fields that are answered with 400."""
    names_refused: bool = True
    """Whether that 400 says which field it was."""
    max_pictures: int | None = None
    """Of one prompt; more are answered as vLLM does."""
    gives_token_ids: bool = True
    needs_key: str | None = None
    fails_only: str = ""
    """Faults are for requests that hold this text; others are answered."""
    echoes: tuple[str, ...] = ()
    """Request headers that every error repeats in its message, whole and as the word after the scheme."""
    release: asyncio.Event | None = None
    """Answers wait for it."""
    port: int = 0
    url: str = ""
    requests: list[Seen] = field(default_factory=list)
    models_asked: int = 0
    broken_off: int = 0
    """Requests whose client went away before their answer was complete."""
    _faults: deque[Fault] = field(default_factory=deque)
    _runner: web.AppRunner | None = None
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    def fail(self, *faults: Fault) -> None:
        """The coming requests meet these, one each, in order; later ones are answered."""
        self._faults.extend(faults)

    def fail_always(self, fault: Fault) -> None:
        self._faults.extend([fault] * 10_000)

    def recover(self) -> None:
        self._faults.clear()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=256 << 20)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        if self._runner:
            await self._runner.cleanup()

    async def _models(self, _: web.Request) -> web.Response:
        self.models_asked += 1
        model: JsonObject = {"id": self.model, "object": "model", "max_model_len": self.context_tokens}
        return web.json_response({"object": "list", "data": [model]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        fails = self._faults and self.fails_only.encode() in raw
        fault = self._faults.popleft() if fails else Fault.NONE
        seen = Seen(raw, dict(request.headers), fault)
        self.requests.append(seen)
        try:
            return await self._answer(request, seen.body, fault)
        except (asyncio.CancelledError, ConnectionError):
            self.broken_off += 1
            raise

    def _echo(self, request: web.Request) -> str:
        heard = [request.headers.get(name, "") for name in self.echoes]
        return "".join(f"; got {value}, key {value.rpartition(' ')[2]}" for value in heard)

    async def _answer(self, request: web.Request, body: JsonObject, fault: Fault) -> web.StreamResponse:
        if self.release is not None:
            await self.release.wait()
        echo = self._echo(request)
        refusal = await self._refusal(request, body, fault, echo)
        if refusal is not None:
            return refusal
        answer = self.rule(body["messages"])
        completion = _Completion(self, body, answer if isinstance(answer, Says) else Says(answer), fault, echo)
        if not body.get("stream"):
            return web.json_response(completion.as_object())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):
            async for piece in completion.events():
                await response.write(piece)
                if fault is Fault.HALF_STREAM and completion.is_half_sent:
                    _abort(request)
            if fault is Fault.STALL:
                await self._closing.wait()
        return response

    async def _refusal(
        self, request: web.Request, body: JsonObject, fault: Fault, echo: str
    ) -> web.StreamResponse | None:
        if self.needs_key and request.headers.get("Authorization") != f"Bearer {self.needs_key}":
            fault = Fault.UNAUTHORIZED
        if fault is Fault.HANG:
            await self._closing.wait()
        if fault is Fault.RESET:
            _abort(request)
        match fault:
            case Fault.RATE_LIMITED:
                return _error(429, f"rate limited{echo}", {"Retry-After": "1"})
            case Fault.SERVER_ERROR:
                return _error(500, f"engine died{echo}")
            case Fault.BAD_REQUEST:
                return _error(400, f"cannot identify image file{echo}")
            case Fault.TOO_LARGE:
                return _error(413, f"Request Entity Too Large{echo}")
            case Fault.UNAUTHORIZED:
                return _error(401, f"invalid api key{echo}")
            case Fault.HTML | Fault.HANG | Fault.RESET:
                return web.Response(text=f"<html>please log in{echo}</html>", content_type="text/html")
            case Fault.HUGE_HEADER:
                return web.Response(text="{}", headers={"X-Huge": "a" * 200_000})
        for name in sorted(self.refuses & body.keys()):
            return _error(
                400, (f"Unrecognized request argument supplied: {name}" if self.names_refused else "Bad Request") + echo
            )
        if self.max_pictures is not None and json.dumps(body["messages"]).count('"image_url": {') > self.max_pictures:
            return _error(400, f"At most {self.max_pictures} image(s) may be provided in one prompt.{echo}")
        return self._context_refusal(body, echo)

    def _context_refusal(self, body: JsonObject, echo: str) -> web.Response | None:
        limit = self.context_tokens
        if limit is None:
            return None
        prompt, asked = count_tokens(body["messages"]), body.get("max_tokens") or body.get("max_completion_tokens") or 0
        if prompt + max(asked, 1) <= limit:
            return None
        if prompt >= limit:
            text = f"However, your request has {prompt} input tokens. Please reduce the length of the input messages."
        else:
            text = (
                f"However, you requested {prompt + asked} tokens "
                f"({prompt} in the messages, {asked} in the completion). "
                "Please reduce the length of the messages or completion."
            )
        return _error(400, f"This model's maximum context length is {limit} tokens. {text}{echo}")


def count_tokens(messages: Sequence[JsonObject]) -> int:
    """Of a prompt, as this endpoint counts: characters of the messages' JSON."""
    return len(json.dumps(messages))


@dataclass
class _Completion:
    endpoint: ScriptedEndpoint
    body: JsonObject
    says: Says
    fault: Fault
    echo: str
    is_half_sent: bool = False

    @property
    def token_ids(self) -> list[int]:
        text = self.says.reasoning + self.says.text + "".join(call.name + call.arguments for call in self.says.calls)
        return [*map(ord, text), STOP_ID]

    @property
    def head(self) -> JsonObject:
        return {"id": f"chatcmpl-{len(self.endpoint.requests)}", "created": 1_700_000_000, "model": self.body["model"]}

    @property
    def usage(self) -> JsonObject:
        prompt, made = count_tokens(self.body["messages"]), len(self.token_ids)
        if self.fault is Fault.FEWER_IDS:
            made += 4
        return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}

    @property
    def prompt_ids(self) -> list[int] | None:
        wanted = self.endpoint.gives_token_ids and self.body.get("return_token_ids")
        wanted = wanted and self.body.get("include_reasoning", True)
        return list(map(ord, json.dumps(self.body["messages"]))) if wanted else None

    def tokens(self, ids: Sequence[int]) -> JsonObject:
        """The per-choice fields that carry ids and log-probabilities, where they were asked for."""
        fields: JsonObject = {"logprobs": None}
        if self.body.get("logprobs") and self.body.get("include_reasoning", True):
            content = [{"token": chr(i), "logprob": self.logprob(i), "bytes": None} for i in ids]
            fields["logprobs"] = {"content": content}
        if self.prompt_ids is not None:
            fields["token_ids"] = list(ids)
        return fields

    def logprob(self, token_id: int) -> float:
        return -9999.0 if self.fault is Fault.BAD_LOGPROB and token_id == STOP_ID else -token_id / 1000

    def call_objects(self) -> list[JsonObject]:
        return [
            {
                "id": call.id or f"call_{len(self.endpoint.requests)}_{position}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for position, call in enumerate(self.says.calls)
        ]

    def as_object(self) -> JsonObject:
        message: JsonObject = {"role": "assistant", "content": self.says.text or None}
        if self.says.reasoning:
            message["reasoning_content"] = self.says.reasoning
        if self.says.calls:
            message["tool_calls"] = self.call_objects()
        choice = {"index": 0, "message": message, "finish_reason": self.says.reason} | self.tokens(self.token_ids)
        whole = self.head | {"object": "chat.completion", "choices": [choice], "usage": self.usage}
        return whole | ({"prompt_token_ids": self.prompt_ids} if self.prompt_ids is not None else {})

    async def events(self) -> AsyncIterator[bytes]:
        first = self.chunk({"role": "assistant", "content": ""}, ids=None)
        yield _event(first | ({"prompt_token_ids": self.prompt_ids} if self.prompt_ids is not None else {}))
        for delta, ids in self.deltas():
            self.is_half_sent = True
            yield _event(self.chunk(delta, ids))
            match self.fault:
                case Fault.HALF_STREAM | Fault.CLEAN_HALF | Fault.STALL:
                    return
                case Fault.CUT_EVENT:
                    yield _event(self.chunk(delta, ids))[:40]
                    return
                case Fault.ERROR_EVENT:
                    yield _event({"error": {"message": f"engine died{self.echo}", "code": 500}})
                    yield b"data: [DONE]\n\n"
                    return
                case Fault.GARBAGE:
                    yield b"data: {not json\n\n"
        if self.fault is not Fault.NO_CHOICES:
            yield _event(self.chunk({}, [STOP_ID], finish_reason=self.says.reason))
        if (self.body.get("stream_options") or {}).get("include_usage"):
            yield _event(self.head | {"object": "chat.completion.chunk", "choices": [], "usage": self.usage})
        if self.fault is not Fault.NO_DONE:
            yield b"data: [DONE]\n\n"

    def deltas(self) -> list[tuple[JsonObject, list[int]]]:
        if self.fault is Fault.NO_CHOICES:
            return []
        found: list[tuple[JsonObject, list[int]]] = []
        found += [({"reasoning_content": letter}, [ord(letter)]) for letter in self.says.reasoning]
        found += [({"content": letter}, [ord(letter)]) for letter in self.says.text]
        for position, call in enumerate(self.call_objects()):
            function = call["function"]
            opened = call | {"index": position, "function": {"name": function["name"], "arguments": ""}}
            found.append(({"tool_calls": [opened]}, [*map(ord, function["name"])]))
            arguments = function["arguments"]
            for piece in (arguments[:5], arguments[5:]):
                delta = {"tool_calls": [{"index": position, "function": {"arguments": piece}}]}
                found.append((delta, [*map(ord, piece)]))
        if self.fault is Fault.NO_CALL_IDS:
            found = [(delta, [] if "tool_calls" in delta else ids) for delta, ids in found]
        return found

    def chunk(self, delta: JsonObject, ids: list[int] | None, *, finish_reason: str | None = None) -> JsonObject:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason} | (self.tokens(ids) if ids else {})
        return self.head | {"object": "chat.completion.chunk", "choices": [choice]}


def _event(payload: JsonObject) -> bytes:
    return f"data: {json.dumps(payload)}\n\n".encode()


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}}
    return web.json_response(body, status=status, headers=headers)


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
