"""The base of every plugin server: config and context in, FastAPI app out. Constructing one starts nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from gym_core.http.app import make_app
from gym_core.http.auth import Authenticate, static_tokens
from gym_core.servers.context import ServerContext
from gym_core.types.wire import Wire

if TYPE_CHECKING:
    from fastapi import FastAPI

ConfigT = TypeVar("ConfigT", bound=Wire)


class ServerConfig(Wire):
    """Fields that every server block may carry."""

    host: str | None = None
    """Address to bind; None means `default_host`, or with `use_absolute_ip`, for a policy server alone, the machine's
    own."""
    port: int | None = None
    """None means any free one."""
    url: str | None = None
    """Where the others reach it, when that is not host and port (containers)."""
    entrypoint: str | None = None
    """Accepted for NeMo Gym's configs; ours is always app.py."""
    domain: str | None = None
    """As above; what `gym list` shows."""


class Server(Generic[ConfigT]):
    """Subclasses set `config_type` and override what they need of `add_routes`, `open`, `close`, `is_ready`."""

    config_type: ClassVar[type[Wire]] = ServerConfig
    own_paths: ClassVar[tuple[str, ...]] = ()
    """Path prefixes whose routes check a narrower token than the run's."""

    def __init__(self, config: ConfigT, context: ServerContext) -> None:
        self.config = config
        self.context = context

    def add_routes(self, app: "FastAPI") -> None:
        """Put the server's routes on the app."""

    async def open(self) -> None:
        """Acquire what the server needs for its life; runs before the first request."""

    async def close(self) -> None:
        """Release it; runs after the last request, also when `open` failed half-way."""

    async def is_ready(self) -> bool:
        return True

    def authenticate(self) -> Authenticate:
        user = self.context.slice.user_token
        return static_tokens(self.context.slice.run_token.get_secret_value(), user.get_secret_value() if user else None)

    def make_app(self) -> "FastAPI":
        @asynccontextmanager
        async def lifespan(_: "FastAPI") -> AsyncIterator[None]:
            try:
                await self.open()
                yield
            finally:
                await self.close()
                await self.context.pool.aclose()

        app = make_app(
            self.context.name,
            self.authenticate(),
            lifespan=lifespan,
            ready=self.is_ready,
            own_paths=self.own_paths,
        )
        self.add_routes(app)
        return app
