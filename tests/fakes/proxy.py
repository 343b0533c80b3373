"""A model server on a loopback port before a scripted endpoint, and a harness's way of calling it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import httpx

from gym_core.capture.recorder import capture_path
from gym_core.http.client import HttpPool
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.model.config import ModelServerConfig
from gym_core.servers.model.server import ModelServer
from gym_core.types.model_call import ModelCall
from gym_core.types.session import CaptureSummary
from gym_core.types.wire import JsonObject
from model_servers.openai_model.app import OpenaiModel, OpenaiModelConfig
from model_servers.vllm_model.app import VllmModel, VllmModelConfig
from tests.fakes.captured import read_calls
from tests.fakes.model import ScriptedEndpoint
from tests.fakes.serving import serving

RUN_TOKEN = "run-token"
USER_TOKEN = "user-token"
TOOLS: list[JsonObject] = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="


def chat(*texts: str, **fields: object) -> JsonObject:
    """A harness's body: user messages, tools, streaming."""
    return {
        "model": "policy",
        "messages": [{"role": "user", "content": text} for text in texts or ("hello",)],
        "tools": TOOLS,
        "stream": True,
        "stream_options": {"include_usage": True},
        **fields,
    }


def image_message(data: str = PIXEL, text: str = "look") -> JsonObject:
    url = f"data:image/png;base64,{data}"
    return {
        "role": "user",
        "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}],
    }


async def eventually(condition: Callable[[], object], timeout_s: float = 5.0) -> None:
    """Returns once it holds; TimeoutError when it does not in time."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what it waits for happens in another party's sockets
            await asyncio.sleep(0.005)


@dataclass
class PatientClock:
    """Real time, but a sleep passes at once and is remembered."""

    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return time.monotonic() + sum(self.slept)

    def time(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@dataclass
class Proxy:
    url: str
    server: ModelServer[ModelServerConfig]
    clock: PatientClock
    state_dir: Path
    http: httpx.AsyncClient

    async def open_session(self, session_id: str = "s1", **folders: str) -> "Session":
        reply = await self.as_run("POST", "/v1/capture_sessions", {"session_id": session_id, **folders})
        assert reply.status_code == 200, reply.text
        return Session(self, session_id, reply.json()["api_key"])

    async def as_run(self, method: str, path: str, body: JsonObject | None = None) -> httpx.Response:
        return await self.send(method, path, RUN_TOKEN, body)

    async def send(self, method: str, path: str, token: str, body: JsonObject | bytes | None = None) -> httpx.Response:
        content = {"content": body} if isinstance(body, bytes) else {"json": body} if body is not None else {}
        return await self.http.request(method, path, headers={"Authorization": f"Bearer {token}"}, **content)


@dataclass
class Session:
    proxy: Proxy
    id: str
    key: str

    async def chat(self, body: JsonObject | bytes) -> httpx.Response:
        return await self.proxy.send("POST", "/v1/chat/completions", self.key, body)

    async def summary(self) -> CaptureSummary:
        reply = await self.proxy.as_run("GET", f"/v1/capture_sessions/{self.id}")
        return CaptureSummary.model_validate_json(reply.content)

    async def close(self) -> CaptureSummary:
        reply = await self.proxy.as_run("DELETE", f"/v1/capture_sessions/{self.id}")
        assert reply.status_code == 200, reply.text
        return CaptureSummary.model_validate_json(reply.content)

    def calls(self) -> list[ModelCall]:
        return list(read_calls(capture_path(self.proxy.state_dir / "captures", self.id)))


class Listening(Protocol):
    @property
    def url(self) -> str:
        """Ends in /v1."""


@contextlib.asynccontextmanager
async def vllm_proxy(endpoint: Listening, state_dir: Path, **fields: object) -> AsyncIterator[Proxy]:
    block = {"base_url": endpoint.url, "api_key": "sk-endpoint", "model": "tiny", **fields}
    async with _served(VllmModel, VllmModelConfig.model_validate(block), state_dir) as proxy:
        yield proxy


@contextlib.asynccontextmanager
async def openai_proxy(endpoint: ScriptedEndpoint, state_dir: Path, **fields: object) -> AsyncIterator[Proxy]:
    block = {"openai_base_url": endpoint.url, "openai_api_key": "sk-endpoint", "openai_model": "tiny", **fields}
    async with _served(OpenaiModel, OpenaiModelConfig.model_validate(block), state_dir) as proxy:
        yield proxy


@contextlib.asynccontextmanager
async def _served(
    server_type: type[VllmModel] | type[OpenaiModel], config: ModelServerConfig, state_dir: Path
) -> AsyncIterator[Proxy]:
    clock = PatientClock()
    kind = type(server_type.__name__, (server_type,), {"clock": clock})
    slice_ = ServerSlice.model_validate(
        {
            "name": "policy_model",
            "type": "model_servers",
            "implementation": "any",
            "block": {},
            "run_token": RUN_TOKEN,
            "user_token": USER_TOKEN,
            "state_dir": str(state_dir),
            "url": "http://proxy",
        }
    )
    server = kind(config, ServerContext(slice_, HttpPool()))
    async with serving(server.make_app()) as url, httpx.AsyncClient(base_url=url, timeout=20) as http:
        yield Proxy(url, server, clock, state_dir, http)
