"""The head server's routes for trainers: streams of rollouts, single rows, and the pictures of both."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from gym_core.capture.images import make_reference, parse_reference, sniff_media_type
from gym_core.errors import InvalidTask, SessionError
from gym_core.http.app import first_mistakes
from gym_core.http.ndjson import NdjsonReply
from gym_core.http.openapi import json_body, line_replies, publish, ref
from gym_core.http.problem import problem_response
from gym_core.launch.rollouts import ChooseSetting, RolloutRequests
from gym_core.launch.single_rows import SingleRows
from gym_core.servers.model.asgi import ClientLeft, until_client_leaves
from gym_core.types.responses import ResponsesBody
from gym_core.types.sample import TrainingSample
from gym_core.types.trainer import AliveLine, EndLine, ErrorLine, GroupLine, RolloutLine, RolloutsRequest
from gym_core.types.wire import JsonObject

if TYPE_CHECKING:
    from fastapi import FastAPI

CLOSE_TIMEOUT_S = 6.0
"""For the sessions of rows whose callers have gone, when the gym ends."""
CLIENT_LEFT = 499
_LINES = (RolloutLine, GroupLine, AliveLine, EndLine, ErrorLine)
_ROW: JsonObject = {
    "type": "object",
    "description": "A flat row: beside this field, what the grader needs.",
    "properties": {"responses_create_params": ref(ResponsesBody)},
    "required": ["responses_create_params"],
}


class TrainerRoutes:
    def __init__(self, state_dir: Path, setting: ChooseSetting) -> None:
        self._setting = setting
        self._pending: set[asyncio.Task[None]] = set()
        self._requests = RolloutRequests(state_dir / "requests", setting)
        self._rows = SingleRows(state_dir / "rows", self._pending)

    def add_routes(self, app: "FastAPI") -> None:
        app.add_api_route(
            "/v1/rollouts",
            self._rollouts_route,
            methods=["POST"],
            response_model=None,
            responses=line_replies(_LINES),
            openapi_extra=json_body(ref(RolloutsRequest)) | {"parameters": [_header("Idempotency-Key")]},
        )
        app.add_api_route("/v1/assets/{sha256}", self._asset_route, methods=["GET"], response_model=None)
        app.add_api_route(
            "/environments/{name}/run",
            self._run_one_route,
            methods=["POST"],
            response_model=None,
            openapi_extra=json_body(_ROW) | {"parameters": [_query("samples")]},
        )
        publish(app, [RolloutsRequest, *_LINES, TrainingSample, ResponsesBody])

    async def aclose(self) -> None:
        await self._requests.aclose()
        if self._pending:
            await asyncio.wait(self._pending, timeout=CLOSE_TIMEOUT_S)

    async def _rollouts_route(self, request: Request) -> Response:
        """Rollouts as NDJSON. All that can be wrong with the request is a status; what goes wrong later is a line."""
        body = await request.body()
        opening = self._requests.open(body, request.headers.get("Idempotency-Key"))
        try:
            return NdjsonReply(await until_client_leaves(request.receive, opening))
        except ClientLeft:
            return Response(status_code=CLIENT_LEFT)
        except ValueError as error:
            raise ValueError(f"POST /v1/rollouts: {first_mistakes(error)}") from error

    async def _run_one_route(self, request: Request) -> Response:
        """NeMo's `/run`: one flat row in, one flat verify row out. The episode ends when its caller goes."""
        try:
            setting = self._setting(request.path_params["name"], None)
        except InvalidTask as error:  # what a path names and is not there is a 404, as everywhere
            return problem_response(404, error.kind, str(error))
        wants_samples = _flag(request, "samples")
        playing = self._rows.play(setting, await request.body(), wants_samples=wants_samples)
        try:
            row = await until_client_leaves(request.receive, playing)
        except ClientLeft:
            return Response(status_code=CLIENT_LEFT)
        return Response(row, media_type="application/json")

    async def _asset_route(self, request: Request) -> Response:
        sha256: str = request.path_params["sha256"]
        content, media_type = await asyncio.to_thread(self._image, sha256)
        # The bytes came from a row or a sandbox: a browser must take them for nothing but a picture.
        headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
        return Response(content, media_type=media_type, headers=headers)

    def _image(self, sha256: str) -> tuple[bytes, str]:
        parse_reference(make_reference(sha256))  # ValueError for what is no hash
        for folders in (self._requests.folders, self._rows.folders):
            content = folders.image(sha256)
            if content is not None:
                return content, sniff_media_type(content) or "application/octet-stream"
        raise SessionError(f"no image {sha256!r} in what is kept")


def _flag(request: Request, name: str) -> bool:
    """A query parameter that is true, false or absent. Raises ValueError."""
    value = request.query_params.get(name, "false")
    if value not in ("true", "false"):
        raise ValueError(f"?{name}= is true or false")
    return value == "true"


def _header(name: str) -> JsonObject:
    return {"name": name, "in": "header", "required": False, "schema": {"type": "string", "maxLength": 200}}


def _query(name: str) -> JsonObject:
    return {"name": name, "in": "query", "required": False, "schema": {"type": "boolean"}}
