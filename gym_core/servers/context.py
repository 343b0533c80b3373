"""What one server process is given: its own slice of the configuration, and what it may reach with which token."""

from dataclasses import dataclass
from pathlib import Path

from gym_core.config.schema import ServerRef
from gym_core.errors import ConfigError
from gym_core.http.client import HttpPool, ServiceClient
from gym_core.types.wire import JsonObject, Secret, Wire


class Peer(Wire):
    """Another server that this one may call."""

    url: str
    token: Secret


class ServerSlice(Wire):
    """All that one child process knows of a run: its block, the peers its block refers to, and no other's secrets.

    Crosses to the child through an inherited descriptor, in memory alone; it is the one place where secrets are clear.
    """

    name: str
    type: str
    """"resources_servers", "agent_servers" or "model_servers"."""
    implementation: str
    block: JsonObject
    """The server's own config block; secret fields revealed."""
    run_token: Secret
    user_token: Secret | None = None
    peers: dict[str, Peer] = {}
    sandboxes: dict[str, JsonObject] = {}
    """Provider blocks that this server's block names; only the lender gets them."""
    roots: list[str] = []
    """Folders in which a child process looks plugins up, in order of preference."""
    state_dir: str
    url: str
    """Where the others reach this server."""


@dataclass(frozen=True)
class ServerContext:
    """A slice, made usable: clients instead of addresses."""

    slice: ServerSlice
    pool: HttpPool

    @property
    def name(self) -> str:
        return self.slice.name

    @property
    def state_dir(self) -> Path:
        return Path(self.slice.state_dir)

    def peer(self, ref: ServerRef) -> ServiceClient:
        """A client of a server that this one's block refers to."""
        peer = self.peer_address(ref)
        return self.pool.service(peer.url, peer.token.get_secret_value())

    def peer_address(self, ref: ServerRef) -> Peer:
        try:
            return self.slice.peers[ref.name]
        except KeyError:
            raise ConfigError(f"server {self.name!r} was not given the address of {ref.name!r}") from None
