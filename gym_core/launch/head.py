"""The head server: the registry of a gym's servers, and the place where runs are started, watched and stopped.

What trainers call is in `gym_core.launch.trainer_routes` and `gym_core.launch.policy`.
"""

import asyncio
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from gym_core.episode import EpisodeServers
from gym_core.errors import SessionError, TransportError
from gym_core.http.app import add_route, make_app
from gym_core.http.auth import static_tokens
from gym_core.http.client import HttpPool, ServiceClient
from gym_core.http.sse import encode_event
from gym_core.launch.children import ChildExit, Children
from gym_core.launch.plan import EnvironmentEntry, HeadSlice, ServerEntry
from gym_core.launch.policy import Policies
from gym_core.launch.run_tasks import choose_environment
from gym_core.launch.run_work import RunSetting
from gym_core.launch.runs import ENDED, Run
from gym_core.launch.supervisor import START_ERROR_FILE, StartError, Supervised, Supervisor
from gym_core.launch.trainer_routes import TrainerRoutes
from gym_core.rollout.output import check_output_path
from gym_core.types.run import RunAccepted, RunOptions, RunResult
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

ORPHANED_EXIT_S = 1.0
"""After the nursery's death: the servers end with it, so there is nothing to close and nobody to serve."""
MAX_RUNS_REMEMBERED = 200
"""Of those that ended."""
MAX_BODY_BYTES = 256 << 20
"""Rows with their pictures as data URLs."""
STOP_TIMEOUT_S = 8.0


def head_app(content: bytes, control: socket.socket, fds: Sequence[int]) -> FastAPI:
    """The app of a head server that starts its own servers: for each, the descriptors of a slice and of a listening
    socket, in the order of `HeadSlice.servers`."""
    head = Head(HeadSlice.model_validate_json(content))
    return head.make_app(control, list(zip(fds[::2], fds[1::2], strict=True)))


class Head:
    def __init__(self, part: HeadSlice) -> None:
        self._part = part
        self._entries = {entry.name: entry for entry in part.servers}
        self._state_dir = Path(part.state_dir)
        self._pool = HttpPool()
        self._supervisor: Supervisor | None = None
        self._runs: dict[str, Run] = {}
        self._trainers = TrainerRoutes(self._state_dir, self._setting)
        self._policies = Policies({e.policy_server for e in part.environments.values()}, self._client)
        self._is_ready = False
        self._started_at = time.time()

    def make_app(self, control: socket.socket | None = None, fds: Sequence[tuple[int, int]] = ()) -> FastAPI:
        """With a control socket the servers are started here; without, they are somebody else's to run."""

        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            starting = asyncio.create_task(self._start_servers(control, fds), name="start-servers")
            try:
                yield
            finally:
                starting.cancel()
                await self._stop()

        user = self._part.user_token
        authenticate = static_tokens(self._part.run_token.get_secret_value(), user.get_secret_value() if user else None)
        app = make_app(
            "gym head server", authenticate, lifespan=lifespan, ready=self._ready, max_body_bytes=MAX_BODY_BYTES
        )
        app.add_api_route("/server_instances", self._instances_route, methods=["GET"], response_model=None)
        app.add_api_route("/global_config_dict_yaml", self._config_route, methods=["GET"], response_model=None)
        add_route(app, "POST", "/v1/runs", self.start_run, body=RunOptions, reply=RunAccepted)
        add_route(app, "GET", "/v1/runs/{run_id}", self.run_result, reply=RunResult)
        app.add_api_route("/v1/runs/{run_id}", self._cancel_route, methods=["DELETE"], response_model=None)
        app.add_api_route("/v1/runs/{run_id}/events", self._events_route, methods=["GET"], response_model=None)
        self._policies.add_routes(app)
        self._trainers.add_routes(app)
        return app

    # -- life ---------------------------------------------------------------

    async def _start_servers(self, control: socket.socket | None, fds: Sequence[tuple[int, int]]) -> None:
        if control is not None:
            children = Children(control, self._on_exit)
            children.lost.add_done_callback(lambda _: _end_orphaned())
            logs = self._state_dir.parent
            servers = [
                Supervised(entry.name, entry.url, pair, logs / f"{entry.name}.log")
                for entry, pair in zip(self._part.servers, fds, strict=True)
            ]
            self._supervisor = Supervisor(children, servers, self._pool)
            try:
                await self._supervisor.start()
            except Exception as error:
                is_bug = not isinstance(error, StartError)
                log.error("servers did not start", extra={"reason": str(error)}, exc_info=is_bug)
                (logs / START_ERROR_FILE).write_text(str(error), encoding="utf-8")
                os.kill(os.getpid(), signal.SIGTERM)
                return
        self._is_ready = True
        log.info("gym ready", extra={"servers": len(self._entries), "seconds": time.time() - self._started_at})

    def _on_exit(self, exit_: ChildExit) -> None:
        if self._supervisor:
            self._supervisor.on_exit(exit_)

    async def _ready(self) -> bool:
        return self._is_ready

    async def _stop(self) -> None:
        for run in self._runs.values():
            run.cancel(drain=False)
        waiting = [asyncio.create_task(run.wait()) for run in self._runs.values()]
        waiting.append(asyncio.create_task(self._trainers.aclose()))
        await asyncio.wait(waiting, timeout=STOP_TIMEOUT_S)
        if self._supervisor:
            self._supervisor.stop()
        await self._pool.aclose()

    # -- registry -----------------------------------------------------------

    async def _instances_route(self, _: Request) -> Response:
        return JSONResponse([self._instance(entry) for entry in self._part.servers])

    def _instance(self, entry: ServerEntry) -> JsonObject:
        seen = self._supervisor.servers[entry.name] if self._supervisor else None
        return {
            "name": entry.name,
            "server_type": entry.type,
            "implementation": entry.implementation,
            "url": entry.url,
            "status": seen.status if seen else "external",
            "pid": seen.pid if seen else None,
            "start_time": seen.started_at if seen else None,
            "uptime_seconds": time.time() - seen.started_at if seen and seen.started_at else None,
            "restarts": len(seen.restarts) if seen else 0,
        }

    async def _config_route(self, _: Request) -> Response:
        return Response(yaml.safe_dump(self._part.config_view, sort_keys=False), media_type="application/yaml")

    # -- runs ---------------------------------------------------------------

    async def start_run(self, options: RunOptions) -> RunAccepted:
        run = Run(f"run-{secrets.token_hex(6)}", options, self._setting(options.environment, options.split))
        await asyncio.to_thread(check_output_path, run.files.rollouts)
        self._runs[run.id] = run
        ended = [name for name, known in self._runs.items() if known.state in ENDED]
        for name in ended[: max(0, len(self._runs) - MAX_RUNS_REMEMBERED)]:
            del self._runs[name]
        run.start()
        return RunAccepted(run_id=run.id)

    async def run_result(self, run_id: str) -> RunResult:
        return self._run(run_id).result()

    async def _cancel_route(self, request: Request) -> Response:
        run = self._run(request.path_params["run_id"])
        run.cancel(drain=request.query_params.get("drain") == "true")
        return Response(run.result().model_dump_json(), media_type="application/json")

    async def _events_route(self, request: Request) -> Response:
        run = self._run(request.path_params["run_id"])

        async def events() -> AsyncIterator[bytes]:
            async for progress in run.watch():
                yield encode_event("progress", progress.model_dump_json())
            yield encode_event("end", run.result().model_dump_json())

        return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    def _run(self, run_id: str) -> Run:
        try:
            return self._runs[run_id]
        except KeyError:
            raise SessionError(f"no run {run_id!r}") from None

    # -- environments -------------------------------------------------------

    def _setting(self, name: str | None, split: str | None) -> RunSetting:
        """Of the environment of that name, or of the only one with a dataset of the split."""
        environment = choose_environment(self._part.environments, name, split)
        if not self._is_ready:
            raise TransportError("the gym is still starting")
        return RunSetting(
            environment=environment,
            servers=self._servers(environment),
            sampling=self._part.sampling,
            versions=self._part.versions,
            argv=self._part.argv,
            logs_dir=self._state_dir.parent,
        )

    def _servers(self, environment: EnvironmentEntry) -> EpisodeServers:
        return EpisodeServers(
            resources=self._client(environment.resources_server),
            agent=self._client(environment.agent_server),
            policy=self._client(environment.policy_server),
            agent_timeout_s=environment.agent_timeout_s,
        )

    def _client(self, name: str) -> ServiceClient:
        entry = self._entries[name]
        return self._pool.service(entry.url, entry.token.get_secret_value())


def _end_orphaned() -> None:
    log.error("the nursery process is gone")
    asyncio.get_running_loop().call_later(ORPHANED_EXIT_S, os._exit, 1)
