"""A gym's head server from Python: what a trainer, a script and the command line call it with.

    from gym_core.client import GymClient
    from gym_core.types.trainer import RolloutLine, RolloutsRequest

    async with GymClient("http://127.0.0.1:11000", token) as gym:
        for step in range(steps):
            await gym.resume()
            asked = RolloutsRequest(rows=next(prompts), num_repeats=8, group={"drop_zero_variance": True})
            lines = [line async for line in gym.rollouts(asked)]
            await gym.pause()
            samples = [s for line in lines if isinstance(line, RolloutLine) for s in line.samples if not s.mask]
            train(samples)                       # token_ids, loss_mask, logprobs, images, advantage: all per sample
            await gym.set_version(step + 1)      # once the engine serves the new weights

Failures are raised as the classes that they left as (`gym_core.errors`), a stream's own end as `RolloutsEnded`.
"""

import asyncio
import logging
import math
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Self
from urllib.parse import quote, urlsplit

import msgspec

from gym_core.errors import TransportError
from gym_core.http.client import HttpPool, ServiceClient
from gym_core.http.problem import RequestRefused
from gym_core.http.sse import decode_events
from gym_core.types.policy import (
    MAX_DRAIN_S,
    PauseMode,
    PausePolicies,
    PolicyStates,
    ResumePolicies,
    SetPolicyVersions,
)
from gym_core.types.run import RunAccepted, RunOptions, RunProgress, RunResult
from gym_core.types.trainer import (
    TRAINER_LINE,
    AliveLine,
    EndLine,
    ErrorLine,
    GroupLine,
    RolloutLine,
    RolloutsRequest,
)
from gym_core.types.wire import JsonObject

log = logging.getLogger(__name__)

STREAM_TIMEOUT_S = 30 * 24 * 3600.0
"""Of a whole stream: a run may take days."""
OPEN_TIMEOUT_S = 7200.0
"""Until the first line: rows are read and the endpoint is looked at before, once a pause of the policy is over."""
SILENT_TIMEOUT_S = 60.0
"""Between two lines. A gym that has nothing to say says so every few seconds."""
RECONNECT_PAUSES_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Before each new try, when no new line came since the one before."""
ROW_TIMEOUT_S = 24 * 3600.0


class RolloutsEnded(Exception):
    """The gym ended a stream of rollouts with an error: `line` says which. What was yielded before is good."""

    def __init__(self, line: ErrorLine) -> None:
        super().__init__(f"{line.kind}: {line.message}")
        self.line = line


class GymClient:
    """Over one connection pool; use it in one event loop, and as a context manager."""

    def __init__(self, url: str, token: str) -> None:
        """`url` of the head server; `token` as `gym env start` names it, or your `GYM_API_KEY`.

        Raises ValueError for what is no http URL.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no URL of a head server, such as http://127.0.0.1:11000")
        self._pool: HttpPool | None = HttpPool()
        self._head = self._pool.service(url, token)

    @classmethod
    def over(cls, head: ServiceClient) -> Self:
        """With a connection that somebody else owns."""
        client = cls.__new__(cls)
        client._pool, client._head = None, head
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()

    # -- rollouts --------------------------------------------------------------

    async def rollouts(self, request: RolloutsRequest) -> AsyncIterator[RolloutLine | GroupLine | EndLine]:
        """Lines as they come, the `EndLine` last. Not reading holds the gym back; leaving the loop ends the rollouts
        (at once when this generator is closed: `contextlib.aclosing`).

        A connection that breaks is made again with the same idempotency key: what was finished is not played again,
        and no line comes twice. Raises RolloutsEnded, ValueError and InvalidTask for a wrong request, ModelUnavailable
        for an endpoint that cannot play, TransportError when the gym is gone, and at once RequestRefused, which is one,
        for a token or an address that is not the gym's.
        """
        _check_finite(request.rows)
        if request.idempotency_key is None:
            request = request.model_copy(update={"idempotency_key": uuid.uuid4().hex})
        body = await asyncio.to_thread(request.to_json)
        seen: set[tuple[str, int | None]] = set()
        pauses = iter(RECONNECT_PAUSES_S)
        while True:
            try:
                async with aclosing(self._lines(body)) as lines:
                    async for line in lines:
                        if isinstance(line, ErrorLine):
                            raise RolloutsEnded(line)
                        if isinstance(line, EndLine):
                            yield line
                            return
                        if not isinstance(line, AliveLine) and (place := _place(line)) not in seen:
                            seen.add(place)
                            pauses = iter(RECONNECT_PAUSES_S)
                            yield line
                broken = TransportError("the stream of rollouts ended without its last line")
            except RequestRefused:
                raise
            except TransportError as error:
                broken = error
            pause_s = next(pauses, None)
            if pause_s is None:
                raise broken
            log.warning("connection to the gym broke: %s", str(broken)[:300], extra={"lines": len(seen)})
            await asyncio.sleep(pause_s)

    async def _lines(
        self, body: bytes
    ) -> AsyncGenerator[RolloutLine | GroupLine | AliveLine | EndLine | ErrorLine, None]:
        """Of one connection. Raises TransportError when it breaks or is silent."""
        timeout_s = OPEN_TIMEOUT_S
        async with aclosing(self._head.stream("POST", "/v1/rollouts", body=body, timeout_s=STREAM_TIMEOUT_S)) as stream:
            while True:
                try:
                    async with asyncio.timeout(timeout_s):
                        raw = await anext(stream, None)
                except TimeoutError:
                    raise TransportError(f"the gym sent nothing for {timeout_s:g} s") from None
                if raw is None:
                    return
                timeout_s = SILENT_TIMEOUT_S
                yield await asyncio.to_thread(TRAINER_LINE.validate_json, raw)

    async def run(self, environment: str, row: JsonObject, *, samples: bool = False) -> JsonObject:
        """NeMo's `/run`: one flat row in, the finished row out, with its training `samples` when asked for.

        Check `mask_sample` before `reward`. Raises ValueError for a row with a NaN.
        """
        _check_finite(row)
        query = "?samples=true" if samples else ""
        path = f"/environments/{quote(environment, safe='')}/run{query}"
        raw = await self._head.call_raw("POST", path, msgspec.json.encode(row), timeout_s=ROW_TIMEOUT_S)
        return msgspec.json.decode(raw, type=dict[str, object])

    async def image(self, sha256: str) -> bytes:
        """A picture of a recent request, by the hash in a sample or a row. Raises SessionError when it is gone."""
        return await self._head.call_raw("GET", f"/v1/assets/{sha256}")

    # -- policy ----------------------------------------------------------------

    async def policy(self) -> PolicyStates:
        """Of each model server that is a policy: paused or not, the version, calls in flight and waiting."""
        return await self._head.call("GET", "/v1/policy", None, PolicyStates)

    async def pause(
        self, mode: PauseMode = PauseMode.DRAIN, *, timeout_s: float = 300.0, server: str | None = None
    ) -> PolicyStates:
        """Hold new model calls. With "drain" it answers when none is in flight any more, or at the time-out."""
        asked = PausePolicies(mode=mode, timeout_s=timeout_s, server=server)
        patience_s = MAX_DRAIN_S + SILENT_TIMEOUT_S
        return await self._head.call("POST", "/v1/policy/pause", asked, PolicyStates, timeout_s=patience_s)

    async def resume(self, *, server: str | None = None) -> PolicyStates:
        return await self._head.call("POST", "/v1/policy/resume", ResumePolicies(server=server), PolicyStates)

    async def set_version(self, version: int, *, server: str | None = None) -> PolicyStates:
        """Stamp the calls from now on with this version of the weights."""
        asked = SetPolicyVersions(version=version, server=server)
        return await self._head.call("PUT", "/v1/policy/version", asked, PolicyStates)

    # -- evaluations -----------------------------------------------------------

    async def start_run(self, options: RunOptions) -> str:
        """Id of the run."""
        return (await self._head.call("POST", "/v1/runs", options, RunAccepted)).run_id

    async def run_result(self, run_id: str) -> RunResult:
        return await self._head.call("GET", f"/v1/runs/{run_id}", None, RunResult)

    async def watch(self, run_id: str) -> AsyncIterator[RunProgress | RunResult]:
        """Snapshots until the end, then the result. Raises TransportError when the stream ends without one."""
        lines = self._head.stream("GET", f"/v1/runs/{run_id}/events", timeout_s=STREAM_TIMEOUT_S)
        async for event in decode_events(lines):
            if event.name == "end":
                yield RunResult.model_validate_json(event.data)
                return
            yield RunProgress.model_validate_json(event.data)
        raise TransportError(f"the head server ended while run {run_id!r} was running")

    async def cancel(self, run_id: str, *, drain: bool) -> None:
        """Stop a run; with `drain` what runs is finished first."""
        await self._head.call_raw("DELETE", f"/v1/runs/{run_id}?drain={'true' if drain else 'false'}")

    async def servers(self) -> list[JsonObject]:
        """Name, type, implementation, URL, status, pid, uptime and restarts of each server."""
        raw = await self._head.call_raw("GET", "/server_instances", timeout_s=10)
        return msgspec.json.decode(raw, type=list[dict[str, object]])


def _check_finite(carried: object) -> None:
    """Raises ValueError for a number that JSON does not have: it would be sent as null."""
    pending = [carried]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, (list, tuple)):
            pending += value
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"a row holds {value}, which is no number in JSON")


def _place(line: RolloutLine | GroupLine) -> tuple[str, int | None]:
    """What no second line of a request has."""
    return line.advantage_group, line.repeat if isinstance(line, RolloutLine) else None
