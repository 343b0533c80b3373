"""Which sandbox providers there are, and how a config block names one: `{local: {...}}`."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from gym_core.config.nearest import hint
from gym_core.config.violations import violations
from gym_core.errors import ConfigError
from gym_core.sandbox.contract import SandboxProvider
from gym_core.sandbox.labelled import LabelledProvider
from gym_core.types.wire import JsonObject, Wire


@dataclass(frozen=True)
class _Entry:
    """Looked up when it is asked for: a provider's own dependencies may not be installed."""

    module: str
    config: str
    provider: str

    def load(self, name: str) -> Any:  # Any: a class of the module, whose constructor takes its own config
        return getattr(import_module(self.module), name)


_PROVIDERS = {
    "local": _Entry("gym_core.sandbox.providers.local", "LocalSandboxConfig", "LocalProvider"),
    "docker": _Entry("gym_core.sandbox.providers.docker", "DockerSandboxConfig", "DockerProvider"),
    "opensandbox": _Entry("gym_core.sandbox.providers.opensandbox", "OpenSandboxConfig", "OpenSandboxProvider"),
}

_METADATA = "default_metadata"


class SandboxConfig(Wire):
    """A sandbox block, read."""

    provider: str
    settings: Wire
    """Of the class that the provider reads its settings with."""
    default_metadata: dict[str, str] = {}
    """Put on every sandbox, under what its owner says of it."""

    @classmethod
    def parse(cls, block: JsonObject, path: str = "sandbox") -> "SandboxConfig":
        """Raises ConfigError with every mistake; `path` is where the block stands."""
        names = [name for name in block if name != _METADATA]
        if len(names) != 1:
            raise ConfigError(
                f"{path}: needs one provider, has {', '.join(map(repr, names)) or 'none'}{hint('', _PROVIDERS)}"
            )
        (name,) = names
        try:
            owner = provider_class(name)
        except ConfigError as error:
            raise ConfigError([f"{path}.{name}".strip(".") + f": {said}" for said in error.problems]) from error
        try:
            settings = owner.model_validate(block[name] or {})
        except ValidationError as error:
            raise ConfigError([f"{p}: {said}" for p, said in violations(error, owner, f"{path}.{name}")]) from error
        try:
            return cls(provider=name, settings=settings, default_metadata=block.get(_METADATA) or {})
        except ValidationError as error:
            raise ConfigError([f"{p}: {said}" for p, said in violations(error, cls, path)]) from error


def provider_class(name: str) -> type[Wire]:
    """The class that a provider's settings are read with. Raises ConfigError naming the nearest provider."""
    if name not in _PROVIDERS:
        raise ConfigError(f"no sandbox provider {name!r}{hint(name, _PROVIDERS)}")
    entry = _PROVIDERS[name]
    loaded: type[Wire] = entry.load(entry.config)
    return loaded


def open_provider(block: JsonObject, path: str = "sandbox") -> SandboxProvider:
    """The provider that a block names; nothing is started yet. The caller closes it. Raises ConfigError."""
    config = SandboxConfig.parse(block, path)
    entry = _PROVIDERS[config.provider]
    make: Callable[[Wire], SandboxProvider] = entry.load(entry.provider)
    provider = make(config.settings)
    return LabelledProvider(provider, config.default_metadata) if config.default_metadata else provider
