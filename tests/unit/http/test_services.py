"""A call between two services: typed on both ends, authenticated, bounded, and its errors keep their class."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
from fastapi import FastAPI
from starlette.types import Message

from gym_core.errors import ConfigError, EpisodeError, FailureKind, SandboxLost, TransportError
from gym_core.http import client as client_module
from gym_core.http.app import add_route, make_app
from gym_core.http.auth import static_tokens
from gym_core.http.client import HttpPool, ServiceClient
from gym_core.types.wire import Wire
from tests.fakes.serving import serving


class Ask(Wire):
    number: int


class Answer(Wire):
    double: int


async def double(ask: Ask) -> Answer:
    return Answer(double=2 * ask.number)


async def fail(ask: Ask, kind: str) -> Answer:
    errors: dict[str, Exception] = {
        "lost": SandboxLost("gone"),
        "file": FileNotFoundError("no such thing"),
        "value": ValueError("bad"),
        "bug": KeyError("secret detail"),
    }
    raise errors[kind]


async def hang(ask: Ask) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError


def _app() -> FastAPI:
    app = make_app("test", static_tokens("right", "user"), max_body_bytes=1000)
    add_route(app, "POST", "/double", double, body=Ask, reply=Answer)
    add_route(app, "POST", "/fail/{kind}", fail, body=Ask, reply=Answer)
    add_route(app, "POST", "/hang", hang, body=Ask, reply=Answer)
    return app


@pytest.fixture
async def service() -> AsyncIterator[ServiceClient]:
    async with serving(_app()) as url, HttpPool() as pool:
        yield pool.service(url, "right")


async def test_a_typed_call_comes_back_typed(service: ServiceClient) -> None:
    assert (await service.call("POST", "/double", Ask(number=4), Answer)).double == 8


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/livez", 200), ("/readyz", 200), ("/double", 401)])
async def test_only_health_needs_no_token(service: ServiceClient, path: str, status: int) -> None:
    async with HttpPool() as pool:
        reply = await pool.service(service.url, "wrong").send("GET", path)
    assert reply.status == status


@pytest.mark.parametrize(("kind", "error"), [("lost", SandboxLost), ("file", FileNotFoundError), ("value", ValueError)])
async def test_an_error_comes_back_as_the_class_it_left_as(
    service: ServiceClient, kind: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await service.call("POST", f"/fail/{kind}", Ask(number=1), Answer)


async def test_a_bug_says_nothing_of_itself(service: ServiceClient) -> None:
    with pytest.raises(EpisodeError) as error:
        await service.call("POST", "/fail/bug", Ask(number=1), Answer)
    assert error.value.kind is FailureKind.INTERNAL
    assert "secret detail" not in str(error.value)


@pytest.mark.parametrize("body", [b"", b"{", b'{"number": "x"}', b'{"number": 1, "nubmer": 2}', b"[" * 900])
async def test_a_bad_body_is_the_callers_mistake(service: ServiceClient, body: bytes) -> None:
    assert (await service.send("POST", "/double", body=body)).status == 422


async def test_a_body_over_the_limit_is_refused(service: ServiceClient) -> None:
    assert (await service.send("POST", "/double", body=b" " * 1001)).status == 413


async def test_a_silent_service_is_a_timeout(service: ServiceClient) -> None:
    with pytest.raises(TransportError) as error:
        await service.call("POST", "/hang", Ask(number=1), Answer, timeout_s=0.05)
    assert error.value.kind is FailureKind.TRANSPORT_TIMEOUT


async def test_nobody_there_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RECONNECT_PAUSES_S", (0.0,))
    async with HttpPool() as pool:
        with pytest.raises(TransportError) as error:
            await pool.service("http://127.0.0.1:9", "t").call("POST", "/double", Ask(number=1), Answer)
    assert error.value.kind is FailureKind.TRANSPORT_UNREACHABLE


def test_every_route_is_in_the_published_schema() -> None:
    described = _app().openapi()
    schema = described["paths"]["/double"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "number" in described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]


@pytest.mark.parametrize("path", ["/nowhere", "/double"])
async def test_a_wrong_path_or_method_is_an_error_like_any_other(service: ServiceClient, path: str) -> None:
    reply = await service.send("GET", path)
    assert reply.status in (404, 405)
    assert b'"kind":"bad_request"' in reply.body


@pytest.mark.parametrize(
    ("error", "reason"),
    [(SandboxLost("no bwrap: install it\nlike so"), "no bwrap: install it\nlike so"), (KeyError("x"), "Traceback")],
)
async def test_an_app_that_refuses_to_start_says_why_and_one_with_a_bug_shows_it(error: Exception, reason: str) -> None:
    @contextlib.asynccontextmanager
    async def refuse(_: FastAPI) -> AsyncIterator[None]:
        raise error
        yield

    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        sent.append(message)

    app = make_app("test", static_tokens("right"), lifespan=refuse)
    with pytest.raises(type(error)):
        await app({"type": "lifespan", "state": {}}, receive, send)
    assert sent[-1]["type"] == "lifespan.startup.failed"
    assert sent[-1]["message"].startswith(reason)


async def test_a_connection_that_takes_too_long_is_unreachable_and_not_a_silent_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "RECONNECT_PAUSES_S", ())
    monkeypatch.setattr(client_module, "CONNECT_TIMEOUT_S", 0.05)
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)  # with its queue full, the kernel lets further connections wait
    host, port = full.getsockname()
    waiting = [socket.socket() for _ in range(4)]
    for client in waiting:
        client.setblocking(False)
        client.connect_ex((host, port))
    try:
        async with HttpPool() as pool:
            with pytest.raises(TransportError) as error:
                await pool.service(f"http://{host}:{port}", "t").call("POST", "/double", Ask(number=1), Answer)
    finally:
        for client in (*waiting, full):
            client.close()
    assert error.value.kind is FailureKind.TRANSPORT_UNREACHABLE


async def test_a_mistake_in_what_was_asked_is_a_422_that_says_what() -> None:
    async def refuse(ask: Ask) -> Answer:
        raise ConfigError(["config: a: is wrong", "config: b: is missing"])

    app = make_app("test", static_tokens("right"))
    add_route(app, "POST", "/ask", refuse, body=Ask, reply=Answer)
    async with serving(app) as url, HttpPool() as pool:
        with pytest.raises(ValueError, match="b: is missing"):
            await pool.service(url, "right").call("POST", "/ask", Ask(number=1), Answer)
