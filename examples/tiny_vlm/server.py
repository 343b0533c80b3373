"""The tiny policy behind the routes of vLLM 0.32 that a gym and a trainer use.

    python -m examples.tiny_vlm.server FOLDER --port 8000 [--logprobs-mode processed_logprobs]

For tests and examples: no batching, no authentication, loopback only unless told otherwise. Requests are computed one
at a time, and the rest of the server answers meanwhile.
"""

import argparse
import asyncio
import socket
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse

from examples.tiny_vlm.completion import Piece, Task
from examples.tiny_vlm.engine import Engine, EngineSettings
from examples.tiny_vlm.errors import BadRequest
from examples.tiny_vlm.pictures import pack
from examples.tiny_vlm.replies import ChatReply, GenerateReply, derender, placeholders, server_sent_events
from examples.tiny_vlm.sampling import LogprobsMode
from examples.tiny_vlm.wire import (
    ChatRequest,
    CollectiveRpc,
    DerenderRequest,
    GenerateRequest,
    TokenizeRequest,
)
from examples.tiny_vlm.worker import Worker
from gym_core.http.departure import caller_gone
from gym_core.types.wire import JsonObject

CLIENT_CLOSED_REQUEST = 499


@dataclass(frozen=True)
class _Served:
    engine: Engine
    worker: Worker

    def pieces(self, task: Task) -> AsyncIterator[Piece]:
        return self.worker.stream(lambda: self.engine.pieces(task))

    async def chat(self, request: Request, body: ChatRequest) -> Response:
        task = await asyncio.to_thread(self.engine.chat_task, body)
        reply = ChatReply(self.engine, body, task.prompt)
        if body.stream:
            return _event_stream(reply.stream(self.pieces(task)))
        return await _unless_gone(request, self._all(task), reply.whole)

    async def generate(self, request: Request, body: GenerateRequest) -> Response:
        task = await asyncio.to_thread(self.engine.generate_task, body)
        reply = GenerateReply(self.engine, body, task.prompt)
        if body.stream:
            return _event_stream(reply.stream(self.pieces(task)))
        return await _unless_gone(request, self._all(task), reply.whole)

    async def render(self, body: ChatRequest) -> JsonObject:
        prompt = await asyncio.to_thread(self.engine.render, body)
        features: JsonObject | None = None
        if prompt.pictures:
            features = {
                "mm_hashes": {"image": [picture.digest for picture in prompt.pictures]},
                "mm_placeholders": {"image": placeholders(prompt)},
                "kwargs_data": {"image": [pack(picture) for picture in prompt.pictures]},
            }
            if body.mm_payload == "none":
                features["kwargs_data"] = None
        sampling = {
            "temperature": body.temperature,
            "top_p": body.top_p,
            "top_k": body.top_k,
            "seed": body.seed,
            "max_tokens": body.max_completion_tokens or body.max_tokens,
            "logprobs": (body.top_logprobs or 0) if body.logprobs else None,
            "skip_special_tokens": not body.uses_tools,
        }
        return {
            "request_id": f"chatcmpl-{uuid.uuid4().hex[:16]}",
            "token_ids": prompt.token_ids,
            "features": features,
            "content_parts": None,
            "sampling_params": sampling,
            "model": self.engine.settings.name,
        }

    def tokenize(self, body: TokenizeRequest) -> JsonObject:
        tokens = self.engine.tokenize(body)
        texts = [self.engine.tokenizer.id_to_token(token) for token in tokens] if body.return_token_strs else None
        return {
            "count": len(tokens),
            "max_model_len": self.engine.max_model_len,
            "tokens": tokens,
            "token_strs": texts,
        }

    async def _all(self, task: Task) -> list[Piece]:
        return [piece async for piece in self.pieces(task)]


def make_app(engine: Engine) -> FastAPI:
    served = _Served(engine, Worker())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        served.worker.close()

    app = FastAPI(lifespan=lifespan)
    app.add_exception_handler(BadRequest, _bad_request)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    _add_model_routes(app, served)
    _add_token_routes(app, served)
    _add_control_routes(app, served)
    return app


def _add_model_routes(app: FastAPI, served: _Served) -> None:
    created = int(time.time())

    @app.get("/health")
    async def health() -> Response:
        return Response()

    @app.get("/v1/models")
    async def models() -> JsonObject:
        settings = served.engine.settings
        card = {"id": settings.name, "object": "model", "created": created, "owned_by": "vllm"}
        return {
            "object": "list",
            "data": [card | {"root": str(settings.folder), "max_model_len": served.engine.max_model_len}],
        }

    @app.post("/v1/chat/completions")
    async def chat(request: Request, body: ChatRequest) -> Response:
        return _wrong_model(served, body.model) or await served.chat(request, body)


def _add_token_routes(app: FastAPI, served: _Served) -> None:
    @app.post("/tokenize")
    async def tokenize(body: TokenizeRequest) -> JsonObject:
        return await asyncio.to_thread(served.tokenize, body)

    @app.post("/v1/chat/completions/render")
    async def render(body: ChatRequest) -> Response:
        return _wrong_model(served, body.model) or JSONResponse(await served.render(body))

    @app.post("/inference/v1/generate")
    async def generate(request: Request, body: GenerateRequest) -> Response:
        return _wrong_model(served, body.model) or await served.generate(request, body)

    @app.post("/v1/chat/completions/derender")
    async def derender_chat(body: DerenderRequest) -> Response:
        if body.chat_request is None:
            raise BadRequest(
                "chat_request is required when a tool or reasoning parser is configured because plain detokenization "
                "would leak raw parser markup into content."
            )
        return JSONResponse(derender(served.engine, body))


def _add_control_routes(app: FastAPI, served: _Served) -> None:
    @app.post("/collective_rpc")
    async def collective_rpc(body: CollectiveRpc) -> JsonObject:
        await served.worker.run(served.engine.policy.reload)
        return {"results": [None]}

    @app.post("/reset_prefix_cache")
    async def reset_prefix_cache() -> JsonObject:
        await served.worker.run(served.engine.policy.forget_prefixes)
        return {"success": True}

    @app.post("/reset_mm_cache")
    @app.post("/reset_encoder_cache")
    async def reset_picture_caches() -> Response:
        """Pictures are not kept here; the routes are there for those who reset all three."""
        return Response()


def _wrong_model(served: _Served, model: str | None) -> Response | None:
    name = served.engine.settings.name
    if model is None or model == name:
        return None
    message = f"The model `{model}` does not exist. Valid aliases: {name}."
    return _error(404, message, kind="NotFoundError", param="model")


def _event_stream(chunks: AsyncIterator[JsonObject]) -> StreamingResponse:
    return StreamingResponse(server_sent_events(chunks), media_type="text/event-stream")


async def _unless_gone(
    request: Request, job: Awaitable[list[Piece]], reply: Callable[[list[Piece]], JsonObject]
) -> Response:
    """The job's reply; or, if the caller hangs up first, the job is stopped and nobody reads what this returns."""
    working = asyncio.ensure_future(job)
    leaving = asyncio.ensure_future(caller_gone(request.receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return JSONResponse(reply(await working)) if working.done() else Response(status_code=CLIENT_CLOSED_REQUEST)
    finally:
        for future in (working, leaving):
            future.cancel()


async def _bad_request(request: Request, error: Exception) -> Response:
    return _error(400, str(error), kind="BadRequestError")


async def _invalid_request(request: Request, error: Exception) -> Response:
    details = error.errors() if isinstance(error, RequestValidationError) else []
    places = [(".".join(str(part) for part in detail["loc"]), detail["msg"]) for detail in details]
    message = "; ".join(f"{where}: {what}" for where, what in places)
    return _error(400, message, kind="Bad Request", param=places[0][0] if places else None)


def _error(code: int, message: str, *, kind: str, param: str | None = None) -> Response:
    return JSONResponse({"error": {"message": message, "type": kind, "param": param, "code": code}}, code)


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a tiny vision-language model over vLLM's wire.")
    parser.add_argument("folder", type=Path, help="what examples.tiny_vlm.build wrote")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--fd", type=int, help="a bound socket that the starter hands over, instead of host and port")
    parser.add_argument("--served-model-name", default=EngineSettings.name)
    parser.add_argument("--logprobs-mode", type=LogprobsMode, choices=list(LogprobsMode), default=LogprobsMode.RAW)
    parser.add_argument("--reasoning-parser", choices=("qwen3",), help="read <think> as reasoning")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--script", help="module:function that answers in the model's place; the model scores it")
    parser.add_argument("--split-seed", type=int, help="write the script's answers in tokens cut at random")
    given = parser.parse_args()
    if not (given.folder / "config.json").is_file():
        parser.error(
            f"no model in {given.folder}: config.json is not there; make one with python -m examples.tiny_vlm.build"
            f" {given.folder}"
        )
    torch.set_num_threads(1)  # on shared cores a second thread makes a step slower, tenfold under load
    settings = EngineSettings(
        folder=given.folder,
        name=given.served_model_name,
        logprobs_mode=given.logprobs_mode,
        has_reasoning=given.reasoning_parser is not None,
        script=given.script,
        split_seed=given.split_seed,
        max_model_len=given.max_model_len,
    )
    config = uvicorn.Config(
        make_app(Engine(settings)), host=given.host, port=given.port, log_level="warning", ws="none"
    )
    uvicorn.Server(config).run(None if given.fd is None else [socket.socket(fileno=given.fd)])


if __name__ == "__main__":
    main()
