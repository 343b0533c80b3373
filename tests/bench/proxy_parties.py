"""What a look at the proxy needs: an endpoint that answers by what it is sent, and the proxy before it."""

import asyncio
import functools
import gc
import io
import multiprocessing
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import uvicorn
import uvloop
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gym_core.http.client import HttpPool
from gym_core.http.whole_body import WholeBodyProtocol
from gym_core.launch.nursery import GC_THRESHOLD
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.servers.model.memory import keep_freed_memory
from model_servers.vllm_model.app import VllmModel, VllmModelConfig
from tests.fakes.proxy import RUN_TOKEN

N_TOKENS = 40
SLOWLY = b"answer slowly"
"""What a request says whose answer is to come event by event, `EVENT_PAUSE_S` apart."""
EVENT_PAUSE_S = 0.002
SMALL_BYTES = 100_000
MIDDLE_BYTES = 1_000_000
_PROMPT_IDS = {"small": 200, "middle": 8_000, "large": 20_000}
"""How many come back, by the size of the request."""


def size_class(n_bytes: int) -> str:
    return "small" if n_bytes < SMALL_BYTES else "middle" if n_bytes < MIDDLE_BYTES else "large"


def events_of(prompt_ids: int) -> list[bytes]:
    """One sampled token an event, each with its id and its log-probability."""
    rng = random.Random(prompt_ids)
    head = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"tiny"'
    ids = ",".join(str(rng.randrange(150_000)) for _ in range(prompt_ids))
    chunks = [
        f'{head},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}}}}],"prompt_token_ids":[{ids}]}}'
    ]
    for token in range(N_TOKENS):
        logprobs = (
            f'{{"content":[{{"token":" tok","logprob":-{rng.random():.6f},"bytes":[32,116],"top_logprobs":[]}}]}}'
        )
        delta = f'{{"index":0,"delta":{{"content":" tok"}},"logprobs":{logprobs},"token_ids":[{token}]}}'
        chunks.append(f'{head},"choices":[{delta}]}}')
    chunks.append(f'{head},"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}')
    usage = f'{{"prompt_tokens":{prompt_ids},"completion_tokens":{N_TOKENS}}}'
    chunks.append(f'{head},"choices":[],"usage":{usage}}}')
    return [b"data: %b\n\n" % chunk.encode() for chunk in chunks] + [b"data: [DONE]\n\n"]


def run_endpoint(ready: Connection) -> None:
    """Answers any POST by its body's size; costs as little as a Python server can."""
    answers = {size: events_of(n_ids) for size, n_ids in _PROMPT_IDS.items()}
    whole = {size: b"".join(events) for size, events in answers.items()}
    headers = [(b"content-type", b"text/event-stream")]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        n_bytes, is_slow, more = 0, False, True
        while more:
            message = await receive()
            piece = message.get("body", b"")
            n_bytes += len(piece)
            is_slow = is_slow or (len(piece) < SMALL_BYTES and SLOWLY in piece)
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if is_slow:
            for event in answers[size_class(n_bytes)]:
                await send({"type": "http.response.body", "body": event, "more_body": True})
                await asyncio.sleep(EVENT_PAUSE_S)
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "http.response.body", "body": whole[size_class(n_bytes)]})

    _serve(app, ready)


def run_relay(ready: Connection, endpoint_url: str) -> None:
    """The least that uvicorn and aiohttp can do for a proxy: a body read whole, sent on, its answer read whole and sent
    back. Nothing is looked at or kept, and faults are nobody's."""
    headers = [(b"content-type", b"text/event-stream")]
    pool = HttpPool()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        pieces, more = [], True
        while more:
            message = await receive()
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
        body = io.BytesIO(b"".join(pieces))  # aiohttp warns of as many plain bytes
        async with pool.session.post(f"{endpoint_url}/chat/completions", data=body) as reply:
            answer = await reply.read()
        length = (b"content-length", str(len(answer)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": answer})

    keep_freed_memory()
    _serve(app, ready)


def run_proxy(ready: Connection, endpoint_url: str, state_dir: str) -> None:
    """With the settings of `gym_core.launch`, but for a log and the ways to end."""
    block = {"base_url": endpoint_url, "api_key": "k", "model": "tiny", "session_limits": {"calls_per_minute": 10**9}}
    slice_ = ServerSlice.model_validate(
        {
            "name": "policy_model",
            "type": "model_servers",
            "implementation": "vllm_model",
            "block": {},
            "run_token": RUN_TOKEN,
            "state_dir": state_dir,
            "url": "http://proxy",
        }
    )
    server = VllmModel(VllmModelConfig.model_validate(block), ServerContext(slice_, HttpPool()))
    _serve(server.make_app(), ready, WholeBodyProtocol)


def _serve(app: ASGIApp, ready: Connection, http: type[HttpToolsProtocol] = HttpToolsProtocol) -> None:
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, loop="none", http=http, ws="none", access_log=False,
        log_level="warning", timeout_keep_alive=75, server_header=False, date_header=False, proxy_headers=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)

    async def main() -> None:
        task = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn offers a flag and no event
            await asyncio.sleep(0.01)
        ready.send(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1")
        await task

    uvloop.run(main())


@dataclass
class Child:
    process: multiprocessing.process.BaseProcess
    url: str

    @classmethod
    def start(cls, target: Callable[..., None], *arguments: str) -> "Child":
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=target, args=(theirs, *arguments), daemon=True)
        process.start()
        return cls(process, ours.recv())

    @functools.cached_property
    def _proc(self) -> Path:
        return Path(f"/proc/{self.process.pid}")

    def cpu_s(self) -> float:
        """By the scheduler, over all threads."""
        tasks = (self._proc / "task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def rss_mib(self) -> float:
        return int((self._proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(10)
