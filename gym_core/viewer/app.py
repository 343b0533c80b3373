"""The viewer's server: the page, the JSON API behind a token, and pictures by hash. `types.py` documents the API."""

import asyncio
import hmac
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from gym_core.capture.images import MAX_IMAGE_BYTES, sniff_media_type
from gym_core.http.app import make_app
from gym_core.http.auth import static_tokens
from gym_core.http.problem import problem_response
from gym_core.viewer.assets import page_file
from gym_core.viewer.door import PAGE, Door
from gym_core.viewer.pictures import SHOWN_TYPES, UrlOf, picture_key
from gym_core.viewer.plain_file import must_be_plain
from gym_core.viewer.rollout import RolloutReading
from gym_core.viewer.run import NotInRun, ViewedRun
from gym_core.viewer.shelf import Shelf
from gym_core.viewer.types import RunList

if TYPE_CHECKING:
    from fastapi import FastAPI

IMAGES = "/images/"
MAX_BODY_BYTES = 64 << 10
"""Nothing is ever sent to it."""
_FOREVER = "private, max-age=31536000, immutable"
_NOT_FOUND = "not_found"

_T = TypeVar("_T")


@dataclass
class Viewer:
    """`token` opens the API; whoever has it reads everything below the shelf's paths, and changes nothing."""

    shelf: Shelf
    token: str
    _secret: bytes = field(default_factory=lambda: os.urandom(32))

    def make_app(self) -> "FastAPI":
        @asynccontextmanager
        async def lifespan(_: "FastAPI") -> AsyncIterator[None]:
            reading = asyncio.create_task(asyncio.to_thread(self._read_all), name="read-runs")
            yield
            reading.cancel()

        app = make_app(
            "gym view",
            static_tokens(self.token),
            lifespan=lifespan,
            own_paths=(PAGE, IMAGES),
            max_body_bytes=MAX_BODY_BYTES,
        )
        app.add_middleware(Door)
        rollout = "/api/runs/{run}/rollouts/{rollout}"
        for path, route in (
            (PAGE, self._page_route),
            (PAGE + "{name}", self._page_route),
            (IMAGES + "{key}/{run}/{sha256}", self._image_route),
            ("/api/runs", self._runs_route),
            ("/api/runs/{run}", self._run_route),
            ("/api/runs/{run}/rows", self._rows_route),
            (rollout, self._rollout_route),
            (rollout + "/turns", self._turns_route),
            (rollout + "/calls/{index}", self._call_route),
            (rollout + "/texts/{text}", self._text_route),
        ):
            app.add_api_route(path, route, methods=["GET"], response_model=None)
        app.add_exception_handler(NotInRun, _on_not_found)
        return app

    def _read_all(self) -> None:
        """While the reader opens the link, so that the first look finds the runs indexed."""
        for run in self.shelf.runs():
            with suppress(OSError):  # whoever asks for it is told
                run.refresh()

    # -- page and pictures ------------------------------------------------------

    async def _page_route(self, request: Request) -> Response:
        file = page_file(request.path_params.get("name") or "index.html")
        if file is None:
            return problem_response(404, _NOT_FOUND, "the page has no such file")
        headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, media_type=file.media_type, headers=headers)

    async def _image_route(self, request: Request) -> Response:
        key, run_id, sha256 = (request.path_params[name] for name in ("key", "run", "sha256"))
        if not hmac.compare_digest(key.encode(), picture_key(self._secret, run_id, sha256).encode()):
            return problem_response(404, _NOT_FOUND, "no such picture")
        return await asyncio.to_thread(self._image, run_id, sha256)

    def _image(self, run_id: str, sha256: str) -> Response:
        store = self.shelf.run(run_id).assets
        try:
            must_be_plain(store.path(sha256))
            if store.path(sha256).stat().st_size > MAX_IMAGE_BYTES:
                return problem_response(413, _NOT_FOUND, f"the picture is larger than {MAX_IMAGE_BYTES} bytes")
            content = store.get(sha256)
        except (OSError, ValueError):
            return problem_response(404, _NOT_FOUND, "no such picture")
        media_type = sniff_media_type(content)
        if media_type not in SHOWN_TYPES:
            return problem_response(415, _NOT_FOUND, "no picture that a browser shows")
        return Response(content, media_type=media_type, headers={"Cache-Control": _FOREVER})

    def url_of(self, run_id: str) -> UrlOf:
        return lambda sha256: f"{IMAGES}{picture_key(self._secret, run_id, sha256)}/{run_id}/{sha256}"

    # -- the API ----------------------------------------------------------------

    async def _runs_route(self, request: Request) -> Response:
        return await _answer(request, self._runs)

    def _runs(self) -> tuple[str, Callable[[], RunList]]:
        runs = self.shelf.runs()
        version = "-".join(run.refresh()[:12] for run in runs)
        return version, lambda: run_list(runs)

    async def _run_route(self, request: Request) -> Response:
        run = self._run(request)
        return await _answer(request, lambda: (run.refresh(), run.detail))

    async def _rows_route(self, request: Request) -> Response:
        run, start = self._run(request), _start(request)
        return await _answer(request, lambda: (None, lambda: run.rows(start, self.url_of(run.id))))

    async def _rollout_route(self, request: Request) -> Response:
        run, rollout = self._run(request), request.path_params["rollout"]

        def ask() -> tuple[str | None, Callable[[], BaseModel]]:
            reading, version = self._reading(run, rollout)
            before, after = run.neighbours(rollout) if reading.state == "finished" else (None, None)
            return version, lambda: reading.view(before, after)

        return await _answer(request, ask)

    async def _turns_route(self, request: Request) -> Response:
        start = _start(request)
        return await self._of_rollout(request, lambda reading: reading.turns(start))

    async def _call_route(self, request: Request) -> Response:
        index = _whole(request.path_params["index"])
        return await self._of_rollout(request, lambda reading: reading.call(index))

    async def _text_route(self, request: Request) -> Response:
        text, start = request.path_params["text"], _start(request)
        return await self._of_rollout(request, lambda reading: reading.text(text, start))

    async def _of_rollout(self, request: Request, part: Callable[[RolloutReading], BaseModel]) -> Response:
        run, rollout = self._run(request), request.path_params["rollout"]
        return await _answer(request, lambda: (None, lambda: part(self._reading(run, rollout)[0])))

    def _reading(self, run: ViewedRun, rollout: str) -> tuple[RolloutReading, str]:
        seen = run.refresh()
        try:
            facts = run.facts(rollout)
            version = f"{facts.offset}-{facts.length}-{facts.row.finished_at}"
        except NotInRun:
            version = seen
        return self.shelf.reading(run, rollout, version, self.url_of(run.id)), version

    def _run(self, request: Request) -> ViewedRun:
        return self.shelf.run(request.path_params["run"])


def run_list(runs: list[ViewedRun]) -> RunList:
    cards = [run.card() for run in runs]
    return RunList(runs=sorted(cards, key=lambda card: card.started_at or card.updated_at or 0.0, reverse=True))


async def _answer(request: Request, ask: Callable[[], tuple[str | None, Callable[[], BaseModel]]]) -> Response:
    """`ask` says which version there is and how to make it; it is made where the caller does not have it yet."""
    known = request.headers.get("if-none-match")

    def work() -> Response:
        version, make = ask()
        etag = f'"{version}"' if version is not None else None
        headers = {"ETag": etag} if etag else {}
        if etag is not None and known == etag:
            return Response(status_code=304, headers=headers)
        return Response(make().model_dump_json(), media_type="application/json", headers=headers)

    return await asyncio.to_thread(work)


async def _on_not_found(_: Request, error: Exception) -> Response:
    return problem_response(404, _NOT_FOUND, str(error))


def _start(request: Request) -> int:
    return _whole(request.query_params.get("start", "0"))


def _whole(text: str) -> int:
    """Raises ValueError, which is a 422."""
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise ValueError(f"{text[:20]!r} is no whole number")
    return int(text)
