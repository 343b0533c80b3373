"""A change of weights as a trainer tells it to the head server: passed on to the model servers that are policies."""

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from gym_core.errors import EpisodeError, InvalidTask, error_of_kind
from gym_core.http.app import add_route
from gym_core.http.client import DEFAULT_TIMEOUT_S, ServiceClient
from gym_core.types.policy import (
    PausePolicies,
    PausePolicy,
    PolicyState,
    PolicyStates,
    ResumePolicies,
    SetPolicyVersion,
    SetPolicyVersions,
)
from gym_core.types.wire import Wire

if TYPE_CHECKING:
    from fastapi import FastAPI


class Policies:
    """`names`: the model servers that some environment plays, each once; `client` calls one of them.

    Every method asks all that it means, also when one of them fails; then it raises that one's error. All can be asked
    again.
    """

    def __init__(self, names: Collection[str], client: Callable[[str], ServiceClient]) -> None:
        self._names = sorted(names)
        self._client = client

    def add_routes(self, app: "FastAPI") -> None:
        add_route(app, "GET", "/v1/policy", self.states, reply=PolicyStates)
        add_route(app, "POST", "/v1/policy/pause", self.pause, body=PausePolicies, reply=PolicyStates)
        add_route(app, "POST", "/v1/policy/resume", self.resume, body=ResumePolicies, reply=PolicyStates)
        add_route(app, "PUT", "/v1/policy/version", self.set_version, body=SetPolicyVersions, reply=PolicyStates)

    async def states(self) -> PolicyStates:
        return await self._each("GET", "/v1/policy", None, server=None)

    async def pause(self, asked: PausePolicies) -> PolicyStates:
        body = PausePolicy(mode=asked.mode, timeout_s=asked.timeout_s)
        timeout_s = asked.timeout_s + DEFAULT_TIMEOUT_S
        return await self._each("POST", "/v1/policy/pause", body, server=asked.server, timeout_s=timeout_s)

    async def resume(self, asked: ResumePolicies) -> PolicyStates:
        return await self._each("POST", "/v1/policy/resume", None, server=asked.server)

    async def set_version(self, asked: SetPolicyVersions) -> PolicyStates:
        body = SetPolicyVersion(version=asked.version)
        return await self._each("PUT", "/v1/policy/version", body, server=asked.server)

    async def _each(
        self, method: str, route: str, body: Wire | None, *, server: str | None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> PolicyStates:
        if server is not None and server not in self._names:
            raise InvalidTask(f"no policy {server!r}; there are: {', '.join(self._names) or 'none'}")
        names = self._names if server is None else [server]
        found = await asyncio.gather(
            *(self._client(name).call(method, route, body, PolicyState, timeout_s=timeout_s) for name in names),
            return_exceptions=True,
        )
        states: dict[str, PolicyState] = {}
        for name, state in zip(names, found, strict=True):
            if isinstance(state, EpisodeError):
                raise error_of_kind(state.kind, f"policy {name!r}: {state}") from state
            if isinstance(state, BaseException):
                raise state
            states[name] = state
        return PolicyStates(servers=states)
