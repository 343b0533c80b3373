"""From a checked configuration to what is started: addresses, tokens, and for each server its own slice."""

import contextlib
import hashlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec

from gym_core.config.blocks import CheckedConfig
from gym_core.config.roots import ServerType, dataset_path
from gym_core.config.schema import EnvironmentConfig, ServerInstance, ServerRef
from gym_core.config.secrets import MASK, redact, reveal
from gym_core.errors import ConfigError
from gym_core.http.auth import new_token
from gym_core.sandbox.providers.local import LocalProvider
from gym_core.sandbox.toolkit import toolkit_dir
from gym_core.servers.agent import AgentServerConfig
from gym_core.servers.base import ServerConfig
from gym_core.servers.context import Peer, ServerSlice
from gym_core.servers.resources import ResourcesServerConfig
from gym_core.types.session import Sampling
from gym_core.types.wire import JsonObject, Secret, Wire

RUN_TOKEN_VARIABLE = "GYM_RUN_TOKEN"
USER_TOKEN_VARIABLE = "GYM_API_KEY"
BACKLOG = 2048
_ADDRESS_FIELDS = frozenset({"host", "port", "url", "base_url", "openai_base_url", "max_concurrent_requests"})
"""Where a server is says nothing about what it computes: a run may be resumed against another address."""


class ServerEntry(Wire):
    """What the head server knows of another server: how to call it, not what is in its configuration."""

    name: str
    type: str
    implementation: str
    url: str
    token: Secret


class DatasetEntry(Wire):
    name: str
    type: str
    path: str
    num_repeats: int


class EnvironmentEntry(Wire):
    """An environment as the head server runs it."""

    name: str
    resources_server: str
    agent_server: str
    policy_server: str
    agent_timeout_s: float
    max_concurrent_episodes: int | None
    datasets: list[DatasetEntry]
    identity: JsonObject
    """All that a score depends on, without addresses and secrets."""


class HeadSlice(Wire):
    """All that the head server is given."""

    run_token: Secret
    user_token: Secret | None
    url: str
    state_dir: str
    servers: list[ServerEntry]
    environments: dict[str, EnvironmentEntry]
    sampling: Sampling
    run_values: JsonObject
    config_view: JsonObject
    """The merged configuration, redacted."""
    versions: dict[str, str]
    argv: list[str]
    """The command line, redacted."""


@dataclass(frozen=True)
class Listener:
    """A bound, listening socket and the URL that leads to it. Held from before any process starts: no port races."""

    socket: socket.socket
    url: str


@dataclass(frozen=True)
class LaunchPlan:
    head: HeadSlice
    head_listener: Listener
    slices: dict[str, ServerSlice]
    listeners: dict[str, Listener]

    def close(self) -> None:
        for listener in (self.head_listener, *self.listeners.values()):
            listener.socket.close()


def plan_launch(checked: CheckedConfig, *, state_dir: Path, argv: list[str]) -> LaunchPlan:
    """Bind the needed servers' addresses and cut the slices. Raises ConfigError when an address cannot be had; nothing
    stays bound then."""
    needed = needed_servers(checked)
    with contextlib.ExitStack() as undo:
        listeners = {name: _listen(checked, checked.run.servers[name], undo) for name in needed}
        head_listener = bind(checked.run.head.host, checked.run.head.port, "head", undo)
        tokens = {name: new_token() for name in listeners}
        urls = {name: listener.url for name, listener in listeners.items()}
        slices = {name: cut_slice(checked, name, urls, tokens, state_dir) for name in listeners}
        head = head_slice(checked, urls, tokens, url=head_listener.url, state_dir=state_dir, argv=argv)
        undo.pop_all()
    return LaunchPlan(head, head_listener, slices, listeners)


def cut_slice(
    checked: CheckedConfig, name: str, urls: dict[str, str], tokens: dict[str, str], state_dir: Path
) -> ServerSlice:
    """What one server is given: its block, the servers its block refers to, the sandbox provider it lends from."""
    server, block = checked.run.servers[name], checked.blocks[name]
    peers = {ref: Peer(url=urls[ref], token=tokens[ref]) for ref in set(_references(block.model_dump(mode="json")))}
    wanted = block.sandbox_provider if isinstance(block, ResourcesServerConfig) else None
    sandboxes = {wanted: with_toolkit(checked.run.sandboxes[wanted])} if wanted else {}
    user_token = os.environ.get(USER_TOKEN_VARIABLE)
    return ServerSlice(
        name=name,
        type=server.type,
        implementation=server.implementation,
        block=reveal(block),
        run_token=tokens[name],
        user_token=user_token,
        peers=peers,
        sandboxes=sandboxes,
        state_dir=str(state_dir / name),
        url=urls[name],
    )


def head_slice(
    checked: CheckedConfig,
    urls: dict[str, str],
    tokens: dict[str, str],
    *,
    url: str,
    state_dir: Path,
    argv: list[str],
    run_token: str | None = None,
) -> HeadSlice:
    servers = [
        ServerEntry(name=s.name, type=s.type, implementation=s.implementation, url=urls[s.name], token=tokens[s.name])
        for s in checked.run.servers.values()
        if s.name in urls
    ]
    user_token = os.environ.get(USER_TOKEN_VARIABLE)
    return HeadSlice(
        run_token=run_token or new_token(),
        user_token=user_token,
        url=url,
        state_dir=str(state_dir / "head"),
        servers=servers,
        environments={name: _environment(checked, e) for name, e in checked.run.environments.items()},
        sampling=checked.run.sampling,
        run_values=redact(checked.run.run_values, checked.secrets),
        config_view=redact(checked.composed.values, checked.secrets),
        versions={"gym": version("visual-agent-gym"), "toolkit": toolkit_dir().name},
        argv=[MASK if any(s in word for s in checked.secrets) else word for word in argv],
    )


def _environment(checked: CheckedConfig, environment: EnvironmentConfig) -> EnvironmentEntry:
    agent = checked.blocks[environment.agent_server.name]
    if not isinstance(agent, AgentServerConfig):
        raise ConfigError(f"config: {environment.path}.agent_server: {environment.agent_server.name!r} is no agent")
    datasets = [
        DatasetEntry(
            name=d.name,
            type=d.type,
            path=str(dataset_path(d.jsonl_fpath, d.prepare_script, checked.composed.roots)),
            num_repeats=d.num_repeats,
        )
        for d in environment.datasets
    ]
    return EnvironmentEntry(
        name=environment.name,
        resources_server=environment.resources_server.name,
        agent_server=environment.agent_server.name,
        policy_server=agent.model_server.name,
        agent_timeout_s=agent.timeout_s,
        max_concurrent_episodes=environment.max_concurrent_episodes,
        datasets=datasets,
        identity=_identity(checked, environment),
    )


def needed_servers(checked: CheckedConfig) -> list[str]:
    """Names of the servers that some environment leads to; all of them when there is no environment."""
    ends = [ref.name for e in checked.run.environments.values() for ref in (e.resources_server, e.agent_server)]
    return _reached(checked, ends) if ends else sorted(checked.run.servers)


def _identity(checked: CheckedConfig, environment: EnvironmentConfig) -> JsonObject:
    """The blocks an environment leads to, defaults included, so that a changed default is a changed run."""
    names = _reached(checked, [environment.resources_server.name, environment.agent_server.name])
    blocks = {}
    for name in names:
        fields = checked.blocks[name].model_dump(mode="json")
        kept = {key: value for key, value in fields.items() if key not in _ADDRESS_FIELDS and not _is_masked(value)}
        blocks[name] = {"implementation": checked.run.servers[name].implementation, **kept}
    providers = {
        block.sandbox_provider
        for name in names
        if isinstance(block := checked.blocks[name], ResourcesServerConfig) and block.sandbox_provider
    }
    return {
        "gym": version("visual-agent-gym"),
        "sampling": checked.run.sampling.model_dump(exclude_none=True),
        "servers": blocks,
        "sandboxes": {name: _content_of(checked.run.sandboxes[name]) for name in sorted(providers)},
    }


def with_toolkit(sandbox: JsonObject) -> JsonObject:
    """A sandbox block whose embedded provider knows the toolkit of this machine, unless it names one."""
    local = sandbox.get(LocalProvider.name)
    if LocalProvider.name not in sandbox or (local and local.get("toolkit")):
        return sandbox
    return {**sandbox, LocalProvider.name: {**(local or {}), "toolkit": str(toolkit_dir())}}


def _content_of(sandbox: JsonObject) -> JsonObject:
    """What runs inside: the provider, and for the embedded one the toolkit, whose folder is named by its content."""
    providers: JsonObject = {}
    for name, settings in with_toolkit(sandbox).items():
        toolkit = settings.get("toolkit") if isinstance(settings, dict) else None
        providers[name] = {"toolkit": Path(toolkit).name} if toolkit else {}
    return providers


def identity_hash(identity: JsonObject) -> str:
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()


def _is_masked(value: object) -> bool:
    return isinstance(value, str) and value != "" and set(value) == {"*"}


def _reached(checked: CheckedConfig, start: list[str]) -> list[str]:
    found: dict[str, None] = {}
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in found and name in checked.blocks:
            found[name] = None
            waiting += _references(checked.blocks[name].model_dump(mode="json"))
    return sorted(found)


def _references(value: object) -> Iterator[str]:
    """Names in every `{type, name}` of a block."""
    if isinstance(value, dict):
        if value.keys() == {"type", "name"} and value["type"] in set(ServerType):
            yield ServerRef.model_validate(value).name
            return
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _listen(checked: CheckedConfig, server: ServerInstance, undo: contextlib.ExitStack) -> Listener:
    block = checked.blocks[server.name]
    launch = checked.run.launch
    if not isinstance(block, ServerConfig):
        raise ConfigError(f"config: {server.path}: its config class is not a ServerConfig")
    host = block.host or launch.default_host
    if server.type is ServerType.MODEL and launch.use_absolute_ip and block.host is None:
        host = _own_address()
    listener = bind(host, block.port or 0, server.path, undo)
    return Listener(listener.socket, block.url) if block.url else listener


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


def bind(host: str, port: int, what: str, undo: contextlib.ExitStack) -> Listener:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    undo.callback(listener.close)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        raise ConfigError(f"{what}: cannot listen on {host}:{port}: {error.strerror}") from error
    listener.listen(BACKLOG)
    address, bound_port = listener.getsockname()
    return Listener(listener, f"http://{address}:{bound_port}")


def _own_address() -> str:
    """The address by which other hosts reach this one: that of the default route. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError as error:
            raise ConfigError(
                "use_absolute_ip: this machine has no route out; set the model server's `host`"
            ) from error
        return str(probe.getsockname()[0])
