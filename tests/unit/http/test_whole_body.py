"""Large request bodies over real sockets, cut where it hurts, on both event loops."""

import asyncio
import contextlib
import hashlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass

import pytest
import uvloop
from starlette.types import Receive, Scope, Send

from gym_core.http.whole_body import whole_body
from tests.fakes.serving import serving

LARGE = 300_000
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

Run = Callable[[Coroutine[object, object, None]], None]


@pytest.fixture(params=LOOPS.values(), ids=list(LOOPS))
def run(request: pytest.FixtureRequest) -> Run:
    def run_it(work: Coroutine[object, object, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(work, 20))

    return run_it


class Digests:
    """Answers a body's SHA-256; reads it whole where that is offered."""

    def __init__(self) -> None:
        self.ways: list[str] = []
        """How each body came: "whole", "pieces" or "gone"."""
        self.patience_s: float | None = None
        """For a body, before the answer is "late"."""
        self.must_wait_for_departure = False
        self.departures = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        try:
            async with asyncio.timeout(self.patience_s):
                body = await self._body(scope, receive)
        except TimeoutError:
            await _answer(send, b"late")
            return
        if body is None:
            self.ways.append("gone")
            return
        if self.must_wait_for_departure:
            assert (await receive())["type"] == "http.disconnect"
            self.departures += 1
            return
        await _answer(send, hashlib.sha256(body).hexdigest().encode())

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        read = whole_body(scope)
        if read:
            body = await read()
            self.ways += ["whole"] if body is not None else []
            return body
        pieces, more = [], True
        while more:
            message = await receive()
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
        self.ways.append("pieces")
        return b"".join(pieces)


async def _answer(send: Send, content: bytes) -> None:
    length = (b"content-length", str(len(content)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": content})


@dataclass
class Line:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length"))
        return await self.reader.readexactly(int(length.split(b":")[1]))


@contextlib.asynccontextmanager
async def connected(app: Digests) -> AsyncIterator[Line]:
    async with serving(app) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        yield Line(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def request(body: bytes, *headers: bytes) -> bytes:
    head = b"\r\n".join([b"POST / HTTP/1.1", b"host: a", b"content-length: %d" % len(body), *headers])
    return head + b"\r\n\r\n" + body


def digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def test_bodies_of_all_sizes_arrive_as_they_were_wherever_they_are_cut(run: Run) -> None:
    async def scene() -> None:
        rng, app = random.Random(7), Digests()
        bodies = [rng.randbytes(rng.choice((0, 10, 131_071, 131_072, LARGE, 900_000))) for _ in range(16)]
        async with connected(app) as line:
            for body in bodies:
                content, at = request(body), 0
                while at < len(content):
                    upto = at + rng.choice((1, 900, 50_000, 131_072, 1_000_000))
                    line.writer.write(content[at:upto])
                    await line.writer.drain()
                    await asyncio.sleep(0)
                    at = upto
                assert await line.answer() == digest(body)
        assert {"whole", "pieces"} == set(app.ways)

    run(scene())


def test_requests_sent_at_once_are_told_apart(run: Run) -> None:
    async def scene() -> None:
        bodies = [bytes([i]) * (LARGE if i % 2 else 20) for i in range(6)]
        async with connected(Digests()) as line:
            line.writer.write(b"".join(map(request, bodies)))
            assert [await line.answer() for _ in bodies] == [digest(body) for body in bodies]

    run(scene())


def test_a_client_that_leaves_within_its_body_is_gone(run: Run) -> None:
    async def scene() -> None:
        app = Digests()
        async with connected(app) as line:
            line.writer.write(request(b"a" * LARGE)[:-1])
            await line.writer.drain()
            line.writer.close()
            while not app.ways:  # noqa: ASYNC110 - the server's sockets say when
                await asyncio.sleep(0.001)
        assert app.ways == ["gone"]

    run(scene())


def test_a_client_that_leaves_after_its_body_is_noticed(run: Run) -> None:
    async def scene() -> None:
        app = Digests()
        app.must_wait_for_departure = True
        async with connected(app) as line:
            line.writer.write(request(b"a" * LARGE))
            await line.writer.drain()
            while not app.ways:  # noqa: ASYNC110 - the server's sockets say when
                await asyncio.sleep(0.001)
            assert not app.departures
            line.writer.close()
            while not app.departures:  # noqa: ASYNC110 - the server's sockets say when
                await asyncio.sleep(0.001)

    run(scene())


def test_what_is_left_of_a_body_that_nobody_waits_for_is_no_request(run: Run) -> None:
    async def scene() -> None:
        app, body = Digests(), b"GET / HTTP/1.1\r\n\r\n" * 20_000
        app.patience_s = 0.01
        async with connected(app) as line:
            line.writer.write(request(body)[:-200_000])
            assert await line.answer() == b"late"
            app.patience_s = None
            line.writer.write(body[-200_000:] + request(b"b" * LARGE))
            assert await line.answer() == digest(b"b" * LARGE)

    run(scene())


def test_bodies_without_a_length_and_clients_that_wait_for_a_word_are_served_as_ever(run: Run) -> None:
    async def scene() -> None:
        app, body = Digests(), b"a" * LARGE
        async with connected(app) as line:
            line.writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
            line.writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (LARGE, body))
            assert await line.answer() == digest(body)
            line.writer.write(request(b"", b"expect: 100-continue").replace(b": 0", b": %d" % LARGE))
            assert await line.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            line.writer.write(body)
            assert await line.answer() == digest(body)
        assert app.ways == ["pieces", "pieces"]

    run(scene())
