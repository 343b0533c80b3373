"""Addresses of servers: bound here, before any process starts, or said by whoever starts the servers elsewhere."""

import contextlib
import socket
from dataclasses import dataclass

from gym_core.config.blocks import CheckedConfig
from gym_core.config.schema import ServerInstance
from gym_core.errors import ConfigError
from gym_core.launch.identity import needed_servers
from gym_core.servers.agent import AgentServerConfig
from gym_core.servers.base import ServerConfig
from gym_core.servers.resources import ResourcesServerConfig

BACKLOG = 2048


@dataclass(frozen=True)
class Listener:
    """A bound, listening socket and the URL that leads to it. Held from before any process starts: no port races."""

    socket: socket.socket
    url: str


def listen(checked: CheckedConfig, server: ServerInstance, undo: contextlib.ExitStack) -> Listener:
    block = checked.blocks[server.name]
    launch = checked.run.launch
    if not isinstance(block, ServerConfig):
        raise ConfigError(f"config: {server.path}: its config class is not a ServerConfig")
    host = block.host or launch.default_host
    if launch.use_absolute_ip and block.host is None and server.name in policy_servers(checked):
        host = _own_address()
    listener = bind(host, block.port or 0, server.path, undo)
    return Listener(listener.socket, block.url) if block.url else listener


def policy_servers(checked: CheckedConfig) -> set[str]:
    """Those whom sandboxes call: an agent plays with them, or they are the one address that a sandbox may reach."""
    found = set()
    for block in checked.blocks.values():
        if isinstance(block, AgentServerConfig):
            found.add(block.model_server.name)
        elif isinstance(block, ResourcesServerConfig) and block.sandbox_model_server:
            found.add(block.sandbox_model_server.name)
    return found


def bind(host: str, port: int, what: str, undo: contextlib.ExitStack) -> Listener:
    # TCP by name: asyncio turns off the delay of small writes, 40 ms a reply, only on sockets that say so.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    undo.callback(listener.close)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        raise ConfigError(f"{what}: cannot listen on {host}:{port}: {error.strerror}") from error
    listener.listen(BACKLOG)
    address, bound_port = listener.getsockname()
    return Listener(listener, f"http://{address}:{bound_port}")


def external_urls(checked: CheckedConfig) -> dict[str, str]:
    """Where servers are that somebody else starts (containers). Raises ConfigError naming those that do not say."""
    urls, problems = {}, []
    for name in needed_servers(checked):
        server = checked.run.servers[name]
        block = checked.blocks[name]
        if not isinstance(block, ServerConfig) or not (block.url or (block.host and block.port)):
            problems.append(f"config: {server.path}: served alone, a server needs `url`, or `host` and `port`")
        else:
            urls[name] = block.url or f"http://{block.host}:{block.port}"
    if problems:
        raise ConfigError(problems)
    return urls


def _own_address() -> str:
    """The address by which other hosts reach this one: that of the default route. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError as error:
            raise ConfigError(
                "use_absolute_ip: this machine has no route out; set the policy server's `host`"
            ) from error
        return str(probe.getsockname()[0])
