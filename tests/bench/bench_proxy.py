"""CPU that the policy proxy itself spends on one session's call, beside asking the endpoint directly.

    python -m tests.bench.bench_proxy [--rounds 5]

Endpoint, proxy and client are processes of their own; rounds are interleaved; the figure is the proxy process's CPU
time from the scheduler, as wall time on a shared machine says little. Each request ends in a message of its own, the
way a harness's conversation grows. Answers hold 40 sampled tokens with log-probabilities, and the ids of the prompt.
"""

import argparse
import asyncio
import base64
import json
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import aiohttp
import uvicorn
import uvloop
from starlette.types import ASGIApp, Receive, Scope, Send

from gym_core.http.client import HttpPool
from gym_core.servers.context import ServerContext, ServerSlice
from gym_core.types.wire import JsonObject
from model_servers.vllm_model.app import VllmModel, VllmModelConfig
from tests.fakes.proxy import RUN_TOKEN, TOOLS

N_TOKENS = 40
TARGET_MS = {"tiny": 0.6, "0.41 MB": 1.5, "3.3 MB": 5.0}


@dataclass(frozen=True)
class Size:
    name: str
    texts: int
    image_bytes: int
    prompt_ids: int
    requests: int


SIZES = (
    Size("tiny", texts=2, image_bytes=0, prompt_ids=200, requests=200),
    Size("0.41 MB", texts=30, image_bytes=240_000, prompt_ids=8_000, requests=80),
    Size("3.3 MB", texts=60, image_bytes=2_400_000, prompt_ids=20_000, requests=25),
)


def messages_of(size: Size) -> list[JsonObject]:
    rng = random.Random(size.name)
    found: list[JsonObject] = [{"role": "system", "content": "You are a coding agent. " * 300}]
    if size.image_bytes:
        content = b"\x89PNG\r\n\x1a\n" + rng.randbytes(size.image_bytes // 3)
        for turn in range(3):
            picture = base64.b64encode(content + bytes([turn])).decode()
            url = {"url": f"data:image/png;base64,{picture}"}
            found.append({"role": "user", "content": [{"type": "image_url", "image_url": url}]})
    found += [{"role": "user", "content": "measure the distance, then crop\n" * 80} for _ in range(size.texts)]
    return found


def events_of(prompt_ids: int) -> bytes:
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
    return b"".join(b"data: %b\n\n" % chunk.encode() for chunk in chunks) + b"data: [DONE]\n\n"


def run_endpoint(ready: Connection) -> None:
    """Answers any POST by its body's size; costs as little as a Python server can."""
    answers = {size.name: events_of(size.prompt_ids) for size in SIZES}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        n_bytes, more = 0, True
        while more:
            message = await receive()
            n_bytes += len(message.get("body", b""))
            more = message.get("more_body", False)
        name = "tiny" if n_bytes < 50_000 else "0.41 MB" if n_bytes < 1_000_000 else "3.3 MB"
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answers[name]})

    _serve(app, ready)


def run_proxy(ready: Connection, endpoint_url: str, state_dir: str) -> None:
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
    _serve(server.make_app(), ready)


def _serve(app: ASGIApp, ready: Connection) -> None:
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        http="httptools",
        loop="uvloop",
        ws="none",
        access_log=False,
        log_level="warning",
    )
    server = uvicorn.Server(config)

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

    def cpu_s(self) -> float:
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def rss_mib(self) -> float:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(10)


@dataclass
class Measured:
    cpu_ms: list[float] = field(default_factory=list)
    wall_ms: list[float] = field(default_factory=list)


async def ask(http: aiohttp.ClientSession, url: str, key: str, size: Size, bodies: list[bytes]) -> list[float]:
    walls = []
    for body in bodies:
        started = time.perf_counter()
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        async with http.post(f"{url}/chat/completions", data=body, headers=headers) as reply:
            content = await reply.read()
            assert reply.status == 200, content[:300]
            assert content.endswith(b"data: [DONE]\n\n"), size
        walls.append((time.perf_counter() - started) * 1e3)
    return walls


def bodies_of(size: Size, round_: int) -> list[bytes]:
    fields: JsonObject = {
        "model": "policy",
        "max_tokens": 4096,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    head, tools = messages_of(size), TOOLS * 8
    return [
        json.dumps(
            fields | {"messages": [*head, {"role": "user", "content": f"{round_}.{i}"}], "tools": tools}
        ).encode()
        for i in range(size.requests)
    ]


async def open_session(http: aiohttp.ClientSession, proxy: Child, session_id: str) -> str:
    headers = {"Authorization": f"Bearer {RUN_TOKEN}"}
    async with http.post(f"{proxy.url}/capture_sessions", json={"session_id": session_id}, headers=headers) as reply:
        found: str = (await reply.json())["api_key"]
        return found


async def measure(endpoint: Child, proxy: Child, rounds: int) -> dict[str, dict[str, Measured]]:
    results = {size.name: {"direct": Measured(), "proxy": Measured()} for size in SIZES}
    async with aiohttp.ClientSession() as http:
        for round_ in range(rounds + 1):
            for size in SIZES:
                bodies = bodies_of(size, round_)
                key = await open_session(http, proxy, f"{round_}-{size.name.replace(' ', '')}")
                await ask(http, proxy.url, key, size, bodies[:2])  # the session's first calls store its images
                for name, child, token in (("direct", endpoint, "-"), ("proxy", proxy, key)):
                    before = child.cpu_s()
                    walls = await ask(http, child.url, token, size, bodies)
                    if round_ > 0:  # the first warms up
                        measured = results[size.name][name]
                        measured.cpu_ms.append((child.cpu_s() - before) * 1e3 / len(bodies))
                        measured.wall_ms += walls
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as state_dir:
        endpoint = Child.start(run_endpoint)
        proxy = Child.start(run_proxy, endpoint.url, state_dir)
        try:
            results = asyncio.run(measure(endpoint, proxy, rounds))
            print(f"{'body':10}{'proxy CPU ms':>14}{'(min-max)':>16}{'target':>8}{'direct p50':>12}{'proxy p50':>11}")
            for name, found in results.items():
                cpu, direct, via = found["proxy"].cpu_ms, found["direct"].wall_ms, found["proxy"].wall_ms
                span = f"({min(cpu):.2f}-{max(cpu):.2f})"
                print(
                    f"{name:10}{statistics.median(cpu):14.2f}{span:>16}{TARGET_MS[name]:8.1f}"
                    f"{statistics.median(direct):12.2f}{statistics.median(via):11.2f}"
                )
            print(f"proxy memory: {proxy.rss_mib():.0f} MiB")
        finally:
            proxy.stop()
            endpoint.stop()


if __name__ == "__main__":
    main()
