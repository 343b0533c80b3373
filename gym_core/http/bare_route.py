"""The class of every route: its endpoint takes the request and returns the response."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response


class BareRoute(APIRoute):
    """In `/openapi.json` like any other, without FastAPI's dependencies and serialisation: 0.1 ms a request, and of no
    use to a route that parses and writes its own bytes."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:  # Any: as FastAPI has it
        endpoint: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return endpoint
