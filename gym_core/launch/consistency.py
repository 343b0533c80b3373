"""Settings of different blocks that contradict each other: found before any process starts."""

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

from gym_core.config.blocks import CheckedConfig, Contradiction
from gym_core.config.schema import EnvironmentConfig
from gym_core.episode import RESPOND_MARGIN_S, SEED_TIMEOUT_S
from gym_core.launch.identity import needed_servers
from gym_core.launch.listeners import policy_servers
from gym_core.launch.models import environment_prices, judge_server, policy_server
from gym_core.launch.mounts import mounts_that_cannot_be
from gym_core.sandbox.providers.local import LocalProvider
from gym_core.servers.agent import AgentServerConfig
from gym_core.servers.base import ServerConfig
from gym_core.servers.resources import ResourcesServerConfig

_OPENSANDBOX = "opensandbox"
"""Its provider's name. Not imported: its SDK is needed only by those who use it."""

_MARGIN_S = SEED_TIMEOUT_S + RESPOND_MARGIN_S
"""What may pass beside the turn's own limit between the two calls that a resources server sees, seed and verify."""


def contradictions(checked: CheckedConfig) -> Iterator[Contradiction]:
    """Of the servers that would be started. Blocks that are wrong in themselves may be missing."""
    yield from _images_of_local_sandboxes(checked)
    yield from _mounts_of_sandboxes(checked)
    yield from _networks_of_opensandbox(checked)
    for environment in checked.run.environments.values():
        yield from _shorter_than_a_turn(checked, environment)
        yield from _prices_in_two_currencies(checked, environment)


def _images_of_local_sandboxes(checked: CheckedConfig) -> Iterator[Contradiction]:
    for name in needed_servers(checked):
        block = checked.blocks.get(name)
        if not isinstance(block, ResourcesServerConfig) or not block.sandbox_provider:
            continue
        path, image = checked.run.servers[name].path, block.sandbox_config.image
        if image is not None and LocalProvider.name in checked.run.sandboxes.get(block.sandbox_provider, {}):
            yield Contradiction(
                f"{path}.sandbox_config.image",
                f"is {image!r}, but {path}.sandbox_provider is {block.sandbox_provider!r}, a {LocalProvider.name!r} "
                "one, and local sandboxes have no images: unset the image (or the environment variable that gives "
                "it), or choose a provider that runs images",
            )


def _mounts_of_sandboxes(checked: CheckedConfig) -> Iterator[Contradiction]:
    for name in needed_servers(checked):
        block = checked.blocks.get(name)
        if not isinstance(block, ResourcesServerConfig) or not block.sandbox_provider:
            continue
        sandbox = checked.run.sandboxes.get(block.sandbox_provider, {})
        yield from mounts_that_cannot_be(
            block.sandbox_config.mounts, sandbox, f"{checked.run.servers[name].path}.sandbox_config"
        )


def _networks_of_opensandbox(checked: CheckedConfig) -> Iterator[Contradiction]:
    """What would refuse every single lease there."""
    for name in needed_servers(checked):
        block = checked.blocks.get(name)
        if not isinstance(block, ResourcesServerConfig) or block.sandbox_network_access != "model_only":
            continue
        cluster = block.sandbox_provider or ""
        settings = checked.run.sandboxes.get(cluster, {}).get(_OPENSANDBOX)
        if settings is None:
            continue
        if block.sandbox_config.weakest_network != "host":
            yield Contradiction(
                f"{checked.run.servers[name].path}.sandbox_config.weakest_network",
                f"is {block.sandbox_config.weakest_network!r}, but {cluster!r} is an {_OPENSANDBOX!r} one, which lets "
                "through every port of one address: say `host`, and give it an address where nothing else listens "
                "(`relay_address`)",
            )
        model = block.sandbox_model_server
        host = _host_of(checked, model.name) if model and not settings.get("relay_address") else None
        if model and host is not None and _leads_nowhere(host):
            yield Contradiction(
                f"{cluster}.{_OPENSANDBOX}.relay_address",
                f"is not set, and {model.name!r} listens on {host}, which leads a sandbox to itself: "
                "set it to ip:port of a relay to that server, or start with `++use_absolute_ip=true`",
            )


def _host_of(checked: CheckedConfig, name: str) -> str | None:
    """Where others reach a server; None where only its start will tell."""
    block, launch = checked.blocks.get(name), checked.run.launch
    if not isinstance(block, ServerConfig):
        return None
    if block.url:
        return urlsplit(block.url).hostname
    if block.host is None and launch.use_absolute_ip and name in policy_servers(checked):
        return None
    return block.host or launch.default_host


def _leads_nowhere(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


def _shorter_than_a_turn(checked: CheckedConfig, environment: EnvironmentConfig) -> Iterator[Contradiction]:
    """Nothing uses the resources server's session during a turn, and a sandbox only while a command runs in it."""
    agent = checked.blocks.get(environment.agent_server.name)
    resources = checked.blocks.get(environment.resources_server.name)
    if not isinstance(agent, AgentServerConfig) or not isinstance(resources, ResourcesServerConfig):
        return
    limits = {"session_idle_s": resources.session_idle_s}
    if resources.sandbox_provider:
        limits["sandbox_config.ttl_s"] = resources.sandbox_config.ttl_s
    agent_path = checked.run.servers[environment.agent_server.name].path
    resources_path = checked.run.servers[environment.resources_server.name].path
    for field, limit_s in limits.items():
        if limit_s <= agent.timeout_s + _MARGIN_S:
            yield Contradiction(
                f"{resources_path}.{field}",
                f"{limit_s:g} is not > {agent.timeout_s + _MARGIN_S:g}, which is {agent_path}.timeout_s "
                f"({agent.timeout_s:g}) and a margin of {_MARGIN_S:g}: it would end before a long turn does",
            )


def _prices_in_two_currencies(checked: CheckedConfig, environment: EnvironmentConfig) -> Iterator[Contradiction]:
    """The cost of a run is one sum."""
    prices = environment_prices(checked, environment)
    policy, judge = policy_server(checked, environment), judge_server(checked, environment)
    if prices.policy and prices.judge and policy and judge and prices.policy.currency != prices.judge.currency:
        yield Contradiction(
            f"{checked.run.servers[judge].path}.prices.currency",
            f"is {prices.judge.currency!r}, but that of {policy!r} is {prices.policy.currency!r}: "
            "give both in one currency",
        )
