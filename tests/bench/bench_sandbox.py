"""What a sandbox costs: making, looking at, using and closing one, moving files, and a model call from inside.

    python -m tests.bench.bench_sandbox [--rounds 50] [--at-once 100] [--block '{"docker": {"image": "..."}}']

Prints a table. The embedded provider is measured unless a configuration block names another. The network's cost is a
call from inside against the same call outside, over one kept connection.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from gym_core.sandbox.box.box import BoxSandbox
from gym_core.sandbox.contract import Launch, ModelOnly, SandboxProvider, SandboxResources, SandboxSpec
from gym_core.sandbox.probe import Decoys, must_be_closed
from gym_core.sandbox.providers import open_provider
from gym_core.types.wire import JsonObject

MIB = 1 << 20
BLOB_MIB = 64
CALLS = 500
TRUE = Launch(argv=["true"])

CALL = """
import http.client, sys, time
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
def call():
    connection.request("GET", "/")
    connection.getresponse().read()
for _ in range(50):
    call()
start = time.perf_counter()
for _ in range(int(sys.argv[2])):
    call()
print((time.perf_counter() - start) / int(sys.argv[2]))
"""


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nmodel")
            await writer.drain()
    writer.close()


class Table:
    def add(self, what: str, seconds: list[float]) -> None:
        ordered = sorted(seconds)
        p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
        self.line(what, f"p50 {statistics.median(ordered) * 1e3:7.1f} ms   p95 {p95 * 1e3:7.1f} ms   n {len(ordered)}")

    def line(self, what: str, figure: str) -> None:
        sys.stdout.write(f"{what:<52}{figure}\n")


@contextlib.contextmanager
def timed(into: list[float]) -> Iterator[None]:
    start = time.perf_counter()
    yield
    into.append(time.perf_counter() - start)


async def took(work: Awaitable[object]) -> float:
    seconds: list[float] = []
    with timed(seconds):
        await work
    return seconds[0]


class Bench:
    def __init__(self, provider: SandboxProvider, port: int, table: Table) -> None:
        self._provider = provider
        self._port = port
        self._table = table
        self._spec = SandboxSpec(
            network=ModelOnly(host="127.0.0.1", port=port),
            resources=SandboxResources(memory_mib=512, workspace_mib=128),
        )

    async def life(self, rounds: int) -> None:
        create: list[float] = []
        look: list[float] = []
        first: list[float] = []
        close: list[float] = []
        decoys = Decoys()
        await decoys.open("127.0.0.1")
        for number in range(rounds):
            with timed(create):
                sandbox = await self._provider.create(f"life-{number}", self._spec)
            with timed(look):
                await must_be_closed(sandbox, decoys.doors)
            with timed(first):
                await sandbox.exec(TRUE)
            with timed(close):
                await sandbox.close()
        await decoys.close()
        self._table.add("create", create)
        self._table.add("look at its network, before it is lent", look)
        self._table.add("first command", first)
        self._table.add("close", close)

    async def use(self, rounds: int) -> None:
        sandbox = await self._provider.create("use", self._spec)
        self._table.add("command, warm", [await took(sandbox.exec(TRUE)) for _ in range(rounds * 4)])
        blob = os.urandom(BLOB_MIB * MIB)
        up = await took(sandbox.write("/workspace/blob", blob))
        down = await took(sandbox.read("/workspace/blob"))
        self._table.line(f"{BLOB_MIB} MiB in", f"{BLOB_MIB / up:.0f} MiB/s")
        self._table.line(f"{BLOB_MIB} MiB out", f"{BLOB_MIB / down:.0f} MiB/s")
        small = [await took(sandbox.write("/workspace/small", blob[:MIB])) for _ in range(rounds)]
        self._table.add("1 MiB in", small)
        inside_port = urlsplit(sandbox.model_url or "").port
        argv = ["python3", "-c", CALL, str(inside_port), str(CALLS)]
        inside = float((await sandbox.exec(Launch(argv=argv))).stdout)
        argv = ["python3", "-c", CALL, str(self._port), str(CALLS)]
        outside = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        direct = float((await outside.communicate())[0])
        self._table.line("model call from inside", f"{inside * 1e3:.3f} ms")
        self._table.line("model call directly", f"{direct * 1e3:.3f} ms   ratio {inside / direct:.2f}")
        await sandbox.close()

    async def crowd(self, count: int) -> None:
        made: list[float] = []
        with timed(made):
            boxes = await asyncio.gather(*(self._provider.create(f"crowd-{n}", self._spec) for n in range(count)))
            await asyncio.gather(*(box.exec(TRUE) for box in boxes))
        self._table.line(f"{count} at once: all made, and a command run in each", f"{made[0]:.2f} s")
        sizes = [proportional_kib(box.init_pid) for box in boxes if isinstance(box, BoxSandbox) and box.init_pid]
        if sizes:
            self._table.line(f"{count} at once: memory of each, idle", f"{statistics.mean(sizes) / 1024:.1f} MiB")
        self._table.line(
            f"{count} at once: close all", f"{await took(asyncio.gather(*(b.close() for b in boxes))):.2f} s"
        )


def proportional_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


@contextlib.asynccontextmanager
async def opened(block: JsonObject) -> AsyncIterator[Bench]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    provider, table = open_provider(block), Table()
    try:
        enforced = await provider.check()
        table.line("sandbox", f"{enforced.mechanism}, {enforced.memory}, {enforced.user}")
        yield Bench(provider, server.sockets[0].getsockname()[1], table)
    finally:
        await provider.aclose()
        server.close()


async def run(block: JsonObject, *, rounds: int, at_once: int) -> None:
    async with opened(block) as bench:
        await bench.life(rounds)
        await bench.use(rounds)
        await bench.crowd(at_once)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=100)
    parser.add_argument("--block", type=json.loads, default={"local": {}}, help="of a sandbox provider, as JSON")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.block, rounds=arguments.rounds, at_once=arguments.at_once))


if __name__ == "__main__":
    main()
