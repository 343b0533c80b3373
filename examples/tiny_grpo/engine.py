"""The engine, as its owner speaks to it: the one call that a gym has no part in."""

from types import TracebackType
from typing import Self

from gym_core.http.client import HttpPool


class Engine:
    """vLLM's development routes: new weights are read from the folder that the engine was started with."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = HttpPool()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self._pool.aclose()

    async def reload_weights(self) -> None:
        """Raises TransportError."""
        engine = self._pool.service(self._url, "none")
        await engine.call_raw("POST", "/collective_rpc", b'{"method": "reload_weights"}')
        for cache in ("prefix", "mm", "encoder"):
            await engine.call_raw("POST", f"/reset_{cache}_cache")
