"""The head server's REST calls as methods: what the command line uses is what trainers use."""

from collections.abc import AsyncIterator

import msgspec

from gym_core.errors import TransportError
from gym_core.http.client import ServiceClient
from gym_core.http.sse import decode_events
from gym_core.types.run import RunAccepted, RunOptions, RunProgress, RunResult
from gym_core.types.wire import JsonObject

RUN_TIMEOUT_S = 30 * 24 * 3600.0
"""Of an event stream: a run may take days."""


class HeadClient:
    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    async def start_run(self, options: RunOptions) -> str:
        """Id of the run."""
        return (await self._client.call("POST", "/v1/runs", options, RunAccepted)).run_id

    async def events(self, run_id: str) -> AsyncIterator[RunProgress | RunResult]:
        """Snapshots until the end, then the result. Raises TransportError when the stream ends without one."""
        lines = self._client.stream("GET", f"/v1/runs/{run_id}/events", timeout_s=RUN_TIMEOUT_S)
        async for event in decode_events(lines):
            if event.name == "end":
                yield RunResult.model_validate_json(event.data)
                return
            yield RunProgress.model_validate_json(event.data)
        raise TransportError(f"the head server ended while run {run_id!r} was running")

    async def cancel(self, run_id: str, *, drain: bool) -> None:
        await self._client.call_raw("DELETE", f"/v1/runs/{run_id}?drain={'true' if drain else 'false'}")

    async def server_instances(self) -> list[JsonObject]:
        raw = await self._client.call_raw("GET", "/server_instances", timeout_s=10)
        return msgspec.json.decode(raw, type=list[dict[str, object]])
