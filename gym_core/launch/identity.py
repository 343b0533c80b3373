"""What a score depends on: the blocks that an environment leads to, without addresses and secrets, and their hash."""

import hashlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import msgspec

from gym_core.config.blocks import CheckedConfig
from gym_core.config.roots import ServerType
from gym_core.config.schema import EnvironmentConfig, ServerRef
from gym_core.sandbox.providers.local import LocalProvider
from gym_core.sandbox.toolkit import toolkit_dir
from gym_core.servers.resources import ResourcesServerConfig
from gym_core.types.wire import JsonObject

_OUTER_FIELDS = frozenset({"host", "port", "url", "base_url", "openai_base_url", "max_concurrent_requests", "prices"})
"""Where a server is, and what it costs, says nothing about what it computes: a run may be resumed with others."""

_UPKEEP_FIELDS = frozenset({"max_sandboxes", "sweep_every_s"})
"""Of a block's `sandbox_config`: how many there are at once, and how they are cleaned up, says nothing either."""


def environment_identity(checked: CheckedConfig, environment: EnvironmentConfig) -> JsonObject:
    """The blocks an environment leads to, defaults included, so that a changed default is a changed run."""
    names = _reached(checked, [environment.resources_server.name, environment.agent_server.name])
    blocks = {}
    for name in names:
        fields = checked.blocks[name].model_dump(mode="json")
        kept = {key: value for key, value in fields.items() if key not in _OUTER_FIELDS and not _is_masked(value)}
        if isinstance(checked.blocks[name], ResourcesServerConfig):
            lending = fields["sandbox_config"]
            kept["sandbox_config"] = {key: value for key, value in lending.items() if key not in _UPKEEP_FIELDS}
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


def identity_hash(identity: JsonObject) -> str:
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()


def needed_servers(checked: CheckedConfig) -> list[str]:
    """Names of the servers that some environment leads to; all of them when there is no environment."""
    ends = [ref.name for e in checked.run.environments.values() for ref in (e.resources_server, e.agent_server)]
    return _reached(checked, ends) if ends else sorted(checked.run.servers)


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


def _is_masked(value: object) -> bool:
    return isinstance(value, str) and value != "" and set(value) == {"*"}


def _reached(checked: CheckedConfig, start: list[str]) -> list[str]:
    found: dict[str, None] = {}
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in found and name in checked.blocks:
            found[name] = None
            waiting += references(checked.blocks[name].model_dump(mode="json"))
    return sorted(found)


def references(value: object) -> Iterator[str]:
    """Names in every `{type, name}` of a block."""
    if isinstance(value, dict):
        if value.keys() == {"type", "name"} and value["type"] in set(ServerType):
            yield ServerRef.model_validate(value).name
            return
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)
