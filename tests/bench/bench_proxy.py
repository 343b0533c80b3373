"""What the policy proxy adds to a model's endpoint: requests per second and CPU per call, and time to the first token.

    python -m tests.bench proxy [--rounds 5] [--sizes tiny "3 MB"]

Endpoint, proxy and client are processes of their own, and so is a relay of the same uvicorn and aiohttp that reads a
body, sends it on, reads the answer and sends that back: no proxy made of these costs less unless it goes around them.
All are asked in turn, round by round, so that each ratio is of one moment: on a shared machine times alone say little.
CPU is the process's own, from the scheduler; of several rounds the least is what the work costs.

Sessions' calls (capture on): four at a time; each ends in a message of its own, the way a conversation grows. Answers
hold 40 sampled tokens with log-probabilities, and the ids of the prompt (200, 8,000 or 20,000). The endpoint receives
the same body, too, looks at none of it, and answers from memory.

Calls without a session (a judge's): relayed event by event; one at a time, the endpoint's events 2 ms apart.
"""

import argparse
import asyncio
import base64
import json
import random
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

from gym_core.types.wire import JsonObject
from tests.bench.measured import load_line, table
from tests.bench.proxy_parties import SLOWLY, Child, run_endpoint, run_proxy, run_relay
from tests.fakes.proxy import RUN_TOKEN, TOOLS

CONCURRENCY = 4
WAYS = ("direct", "relay", "proxy")
N_STREAMS = 8
"""A round, of each way."""


@dataclass(frozen=True)
class Size:
    name: str
    texts: int
    """Messages of 2.5 KB."""
    image_bytes: int
    requests: int
    """A round."""
    aim_ms: float | None = None
    """Own CPU a call, on a quiet machine."""


SIZES = (
    Size("tiny", texts=2, image_bytes=0, requests=60, aim_ms=0.6),
    Size("30 KB", texts=9, image_bytes=0, requests=50),
    Size("300 KB", texts=30, image_bytes=160_000, requests=30),
    Size("0.41 MB", texts=30, image_bytes=240_000, requests=30, aim_ms=1.0),
    Size("3 MB", texts=60, image_bytes=2_130_000, requests=8),
    Size("3.3 MB", texts=60, image_bytes=2_400_000, requests=8, aim_ms=3.0),
    Size("20 MB", texts=60, image_bytes=14_900_000, requests=2),
)


class Bodies:
    """Requests of one size, alike but for their last message."""

    def __init__(self, size: Size) -> None:
        fields: JsonObject = {
            "model": "policy", "max_tokens": 4096, "stream": True, "stream_options": {"include_usage": True},
            "tools": TOOLS * 8, "messages": _messages(size),
        }  # fmt: skip
        self._beginning = json.dumps(fields)[: -len("]}")].encode()

    def with_last(self, text: str) -> bytes:
        return b'%b, {"role": "user", "content": "%b"}]}' % (self._beginning, text.encode())


def _messages(size: Size) -> list[JsonObject]:
    """A system prompt of 7 KB, three pictures if any, texts."""
    rng = random.Random(size.name)
    found: list[JsonObject] = [{"role": "system", "content": "You are a coding agent. " * 300}]
    if size.image_bytes:
        content = b"\x89PNG\r\n\x1a\n" + rng.randbytes(size.image_bytes // 3)
        for turn in range(3):
            picture = base64.b64encode(content + bytes([turn])).decode()
            url = {"url": f"data:image/png;base64,{picture}"}
            found.append({"role": "user", "content": [{"type": "image_url", "image_url": url}]})
    return found + [{"role": "user", "content": "measure the distance, then crop\n" * 80} for _ in range(size.texts)]


@dataclass
class Measured:
    per_s: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    """Of the process that was asked, a call, one entry a round."""
    first_ms: list[float] = field(default_factory=list)
    """From the request to the first byte of the answer, one entry a stream."""


class Client:
    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def open_session(self, proxy: Child, session_id: str) -> str:
        """Its key."""
        headers = {"Authorization": f"Bearer {RUN_TOKEN}"}
        url = f"{proxy.url}/capture_sessions"
        async with self._http.post(url, json={"session_id": session_id}, headers=headers) as reply:
            found: str = (await reply.json())["api_key"]
            return found

    async def ask(self, url: str, key: str, body: bytes) -> float:
        """Seconds until the first byte of the answer; its last must be there, too."""
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        started = time.perf_counter()
        async with self._http.post(f"{url}/chat/completions", data=body, headers=headers) as reply:
            beginning = await reply.content.readany()
            first_s = time.perf_counter() - started
            content = beginning + await reply.read()
            assert reply.status == 200, content[:300]
            assert content.endswith(b"data: [DONE]\n\n"), content[-300:]
        return first_s

    async def ask_all(self, url: str, key: str, bodies: Sequence[bytes]) -> None:
        waiting = deque(bodies)

        async def one_after_another() -> None:
            while waiting:
                await self.ask(url, key, waiting.popleft())

        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(one_after_another())


@dataclass
class Bench:
    endpoint: Child
    relay: Child
    proxy: Child
    client: Client
    calls: dict[str, dict[str, Measured]]
    """By size, then "direct", "relay" or "proxy"."""
    streams: dict[str, Measured]

    async def run(self, sizes: Sequence[Size], rounds: int) -> None:
        bodies = {size.name: Bodies(size) for size in sizes}
        for round_ in range(-1, rounds):  # the first warms up
            for size in sizes:
                await self._ask_calls(size, bodies[size.name], round_)
            await self._ask_streams(round_)

    async def _ask_calls(self, size: Size, bodies: Bodies, round_: int) -> None:
        key = await self.client.open_session(self.proxy, f"round{round_ + 1}-{size.name.replace(' ', '')}")
        # The session's first call stores its images.
        await self.client.ask_all(self.proxy.url, key, [bodies.with_last("first")])
        asked = [bodies.with_last(f"{round_}.{i}") for i in range(size.requests)]
        for name, child, token in (
            ("direct", self.endpoint, "-"),
            ("relay", self.relay, "-"),
            ("proxy", self.proxy, key),
        ):
            cpu_s, started = child.cpu_s(), time.perf_counter()
            await self.client.ask_all(child.url, token, asked)
            wall_s = time.perf_counter() - started
            if round_ >= 0:
                found = self.calls[size.name][name]
                found.per_s.append(size.requests / wall_s)
                found.cpu_ms.append((child.cpu_s() - cpu_s) * 1e3 / size.requests)

    async def _ask_streams(self, round_: int) -> None:
        asked = {"model": "policy", "stream": True, "messages": [{"role": "user", "content": SLOWLY.decode()}]}
        body = json.dumps(asked).encode()
        spent = {"direct": 0.0, "proxy": 0.0}
        for _ in range(N_STREAMS):
            for name, child in (("direct", self.endpoint), ("proxy", self.proxy)):
                cpu_s = child.cpu_s()
                first_s = await self.client.ask(child.url, RUN_TOKEN, body)
                spent[name] += child.cpu_s() - cpu_s
                if round_ >= 0:
                    self.streams[name].first_ms.append(first_s * 1e3)
        if round_ >= 0:
            for name, cpu_s in spent.items():
                self.streams[name].cpu_ms.append(cpu_s * 1e3 / N_STREAMS)


def calls_table(sizes: Sequence[Size], calls: dict[str, dict[str, Measured]]) -> str:
    rows = []
    for size in sizes:
        direct, relay, proxy = (calls[size.name][way] for way in WAYS)
        share = statistics.median(ours / theirs for ours, theirs in zip(proxy.per_s, direct.per_s, strict=True))
        per_s = [statistics.median(found.per_s) for found in (direct, relay, proxy)]
        least = [min(found.cpu_ms) for found in (direct, relay, proxy)]
        rows.append([size.name, *per_s, share, *least, statistics.median(proxy.cpu_ms), size.aim_ms])
    columns = (
        "body", "direct req/s", "relay", "proxy", "proxy/direct", "CPU ms: endpoint", "relay", "proxy", "median", "aim",
    )  # fmt: skip
    return table(columns, rows)


def streams_table(streams: dict[str, Measured]) -> str:
    rows = []
    for name, found in streams.items():
        deciles = statistics.quantiles(found.first_ms, n=10)
        rows.append([name, min(found.first_ms), deciles[4], deciles[8], statistics.median(found.cpu_ms)])
    return table(("relayed stream", "first byte ms: least", "median", "90 %", "CPU ms a stream"), rows)


async def measure(endpoint: Child, relay: Child, proxy: Child, sizes: Sequence[Size], rounds: int) -> Bench:
    async with aiohttp.ClientSession() as http:
        calls = {size.name: {way: Measured() for way in WAYS} for size in sizes}
        streams = {"direct": Measured(), "proxy": Measured()}
        bench = Bench(endpoint, relay, proxy, Client(http), calls, streams)
        await bench.run(sizes, rounds)
        return bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", choices=[size.name for size in SIZES], help="default: all")
    args = parser.parse_args()
    sizes = [size for size in SIZES if not args.sizes or size.name in args.sizes]
    print(f"before: {load_line()}")
    with tempfile.TemporaryDirectory() as state_dir:
        endpoint = Child.start(run_endpoint)
        relay = Child.start(run_relay, endpoint.url)
        proxy = Child.start(run_proxy, endpoint.url, state_dir)
        try:
            bench = asyncio.run(measure(endpoint, relay, proxy, sizes, args.rounds))
            print(calls_table(sizes, bench.calls))
            print(streams_table(bench.streams))
            print(f"proxy memory: {proxy.rss_mib():.0f} MiB")
        finally:
            proxy.stop()
            relay.stop()
            endpoint.stop()
    print(f"after: {load_line()}")


if __name__ == "__main__":
    main()
