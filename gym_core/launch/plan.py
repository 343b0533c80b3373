"""From a checked configuration to what is started: addresses, tokens, and for each server its own slice."""

import contextlib
import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from gym_core.config.blocks import CheckedConfig
from gym_core.config.reading import DEFAULT_METADATA
from gym_core.config.roots import dataset_path
from gym_core.config.schema import EnvironmentConfig
from gym_core.config.secrets import MASK, redact, reveal
from gym_core.errors import ConfigError
from gym_core.http.auth import new_token
from gym_core.launch.identity import environment_identity, needed_servers, references, with_toolkit
from gym_core.launch.listeners import Listener, bind, listen
from gym_core.launch.models import environment_prices
from gym_core.sandbox.toolkit import toolkit_dir
from gym_core.servers.agent import AgentServerConfig
from gym_core.servers.context import Peer, ServerSlice
from gym_core.servers.resources import ResourcesServerConfig
from gym_core.types.cost import RunPrices
from gym_core.types.session import Sampling
from gym_core.types.wire import JsonObject, Secret, Wire

RUN_TOKEN_VARIABLE = "GYM_RUN_TOKEN"
USER_TOKEN_VARIABLE = "GYM_API_KEY"


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
    prices: RunPrices = RunPrices()

    def bounded_parallel(self, asked: int) -> int:
        """Rollouts in flight: as many as were asked for, or fewer where the environment has a limit."""
        return asked if self.max_concurrent_episodes is None else min(asked, self.max_concurrent_episodes)


class HeadSlice(Wire):
    """All that the head server is given."""

    run_token: Secret
    user_token: Secret | None
    url: str
    state_dir: str
    servers: list[ServerEntry]
    environments: dict[str, EnvironmentEntry]
    sampling: Sampling
    config_view: JsonObject
    """The merged configuration, redacted."""
    versions: dict[str, str]
    argv: list[str]
    """The command line, redacted."""


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
        listeners = {name: listen(checked, checked.run.servers[name], undo) for name in needed}
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
    peers = {ref: Peer(url=urls[ref], token=tokens[ref]) for ref in set(references(block.model_dump(mode="json")))}
    wanted = block.sandbox_provider if isinstance(block, ResourcesServerConfig) else None
    sandboxes = {wanted: with_toolkit(_sandbox_block(checked, wanted))} if wanted else {}
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
        roots=[str(root) for root in checked.composed.roots.paths],
        state_dir=str(state_dir / name),
        url=urls[name],
    )


def _sandbox_block(checked: CheckedConfig, name: str) -> JsonObject:
    """With what its class took from this process's environment, which servers do not see."""
    block = checked.run.sandboxes[name]
    return {key: value if key == DEFAULT_METADATA else reveal(checked.sandboxes[name]) for key, value in block.items()}


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
        environments={name: environment_entry(checked, e) for name, e in checked.run.environments.items()},
        sampling=checked.run.sampling,
        config_view=redact(checked.composed.values, checked.secrets),
        versions={"gym": version("visual-agent-gym"), "toolkit": toolkit_dir().name},
        argv=[MASK if any(s in word for s in checked.secrets) else word for word in argv],
    )


def environment_entry(checked: CheckedConfig, environment: EnvironmentConfig) -> EnvironmentEntry:
    """As the head server gets it. Raises ConfigError."""
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
        identity=environment_identity(checked, environment),
        prices=environment_prices(checked, environment),
    )
