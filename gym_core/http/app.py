"""The app factory every service uses: health, bearer check, body limit, error replies, and typed routes."""

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gym_core.errors import ConfigError, EpisodeError
from gym_core.http.auth import Authenticate, BearerAuth
from gym_core.http.openapi import json_body, publish, ref
from gym_core.http.problem import BAD_REQUEST, problem_response, response_of
from gym_core.types.wire import Wire

if TYPE_CHECKING:  # a third of a second to import, and a command that only reads a configuration makes no app
    from fastapi import FastAPI

log = logging.getLogger(__name__)

DEFAULT_MAX_BODY_BYTES = 256 << 20
"""A conversation of many images as data URLs; what a policy may send is bounded more tightly by the proxy."""

Lifespan = Callable[["FastAPI"], AbstractAsyncContextManager[None]]
Ready = Callable[[], Awaitable[bool]]
Handler = Callable[..., Awaitable[Any]]  # Any: one reply class a route, named beside it


@asynccontextmanager
async def _no_lifespan(_: "FastAPI") -> AsyncIterator[None]:
    yield


async def _always_ready() -> bool:
    return True


def make_app(
    title: str,
    authenticate: Authenticate,
    *,
    lifespan: Lifespan = _no_lifespan,
    ready: Ready = _always_ready,
    own_paths: tuple[str, ...] = (),
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
) -> "FastAPI":
    """An app with `/health`, `/livez` and `/readyz`, everything else behind a bearer token. Starts nothing."""
    from fastapi import FastAPI

    from gym_core.http.bare_route import BareRoute

    app = FastAPI(title=title, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.router.route_class = BareRoute
    app.add_middleware(PlainRefusal)
    app.add_middleware(BodyLimit, max_body_bytes=max_body_bytes)
    app.add_middleware(BearerAuth, authenticate=authenticate, own_paths=own_paths)

    async def alive(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readiness(_: Request) -> Response:
        is_ready = await ready()
        return JSONResponse({"status": "ok" if is_ready else "starting"}, status_code=200 if is_ready else 503)

    app.add_route("/health", readiness, methods=["GET"])
    app.add_route("/readyz", readiness, methods=["GET"])
    app.add_route("/livez", alive, methods=["GET"])
    app.add_exception_handler(EpisodeError, _on_error)
    app.add_exception_handler(ConfigError, _on_error)
    app.add_exception_handler(OSError, _on_error)
    app.add_exception_handler(ValueError, _on_error)
    app.add_exception_handler(HTTPException, _on_no_route)
    app.add_exception_handler(Exception, _on_bug)
    return app


async def _on_error(_: Request, error: Exception) -> Response:
    return response_of(error)


async def _on_no_route(request: Request, error: Exception) -> Response:
    """404 and 405 in the shape of every other error."""
    assert isinstance(error, HTTPException)
    return problem_response(error.status_code, BAD_REQUEST, f"{request.method} {request.url.path}: {error.detail}")


async def _on_bug(request: Request, error: Exception) -> Response:
    log.error("unexpected error in a route", extra={"path": request.url.path}, exc_info=error)
    return response_of(error)


def add_route(
    app: "FastAPI",
    method: str,
    path: str,
    handler: Handler,
    *,
    body: type[Wire] | None = None,
    reply: type[Wire] | None = None,
) -> None:
    """One `Wire` in, one `Wire` out: the body is parsed once, here; path parameters go to the handler by name.

    No body means `{}`.

    The route is in `/openapi.json` with both classes.
    """

    async def endpoint(request: Request) -> Response:
        try:
            arguments = [body.model_validate_json(await request.body() or b"{}")] if body else []
        except ValidationError as error:
            return problem_response(422, BAD_REQUEST, f"{method} {path}: {first_mistakes(error)}")
        result = await handler(*arguments, **request.path_params)
        if result is None:
            return Response(status_code=204)
        return Response(result.model_dump_json(), media_type="application/json")

    endpoint.__name__ = f"{method.lower()}{path.translate(_NAME)}"
    if body:
        publish(app, [body])
    app.add_api_route(
        path,
        endpoint,
        methods=[method],
        responses={200: {"model": reply}} if reply else {},
        openapi_extra=json_body(ref(body)) if body else None,
        response_model=None,
    )


_NAME = str.maketrans({"/": "_", "{": "", "}": "", ":": "_", ".": "_", "-": "_"})


def first_mistakes(error: ValueError, limit: int = 5) -> str:
    """Where and what, without the offending input: it may hold an image or a secret."""
    if not isinstance(error, ValidationError):
        return str(error)[:300]
    found = [f"{'.'.join(map(str, e['loc'])) or 'body'}: {e['msg']}" for e in error.errors(include_input=False)]
    return "; ".join(found[:limit]) + (f" (and {len(found) - limit} more)" if len(found) > limit else "")


class PlainRefusal:
    """Plain ASGI: when an app refuses to start with an error of ours, its text and no traceback is the reason."""

    _OURS = re.compile(r"^gym_core\.errors\.\w+: ", re.MULTILINE)

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def plain(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed":
                *_, reason = self._OURS.split(message.get("message", ""))
                message = {**message, "message": reason.strip()}
            await send(message)

        await self.app(scope, receive, plain if scope["type"] == "lifespan" else send)


class BodyLimit:
    """Plain ASGI: 413 once a request body passes the limit, whatever its headers say."""

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self.app = app
        self._limit = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise _TooLarge
            return message

        try:
            await self.app(scope, limited, send)
        except _TooLarge:
            response = problem_response(413, BAD_REQUEST, f"the body is larger than {self._limit} bytes")
            await response(scope, receive, send)


class _TooLarge(Exception):
    pass
