"""Settings of different blocks that contradict each other: found before any process starts."""

from collections.abc import Iterator

from gym_core.config.blocks import CheckedConfig, Contradiction
from gym_core.config.schema import EnvironmentConfig
from gym_core.episode import RESPOND_MARGIN_S, SEED_TIMEOUT_S
from gym_core.launch.identity import needed_servers
from gym_core.sandbox.providers.local import LocalProvider
from gym_core.servers.agent import AgentServerConfig
from gym_core.servers.resources import ResourcesServerConfig

_MARGIN_S = SEED_TIMEOUT_S + RESPOND_MARGIN_S
"""What may pass beside the turn's own limit between the two calls that a resources server sees, seed and verify."""


def contradictions(checked: CheckedConfig) -> Iterator[Contradiction]:
    """Of the servers that would be started. Blocks that are wrong in themselves may be missing."""
    yield from _images_of_local_sandboxes(checked)
    for environment in checked.run.environments.values():
        yield from _shorter_than_a_turn(checked, environment)


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
