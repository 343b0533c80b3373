"""The blocks of servers and sandboxes, each checked by its owner's class, and with them the whole configuration."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from gym_core.config.compose import Composed
from gym_core.config.problems import Problems
from gym_core.config.reading import DEFAULT_METADATA, ConfigReading
from gym_core.config.schema import RunConfig, ServerInstance
from gym_core.config.secrets import Secrets, redact_text, secret_values
from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject, Wire

BlockClass = Callable[[ServerInstance], type[Wire]]
"""The class that an implementation reads its block with. May raise ConfigError."""
ProviderClass = Callable[[str], type[Wire]]
"""The same for a sandbox provider, by name."""


@dataclass(frozen=True)
class CheckedConfig:
    """A configuration without mistakes."""

    composed: Composed
    run: RunConfig
    blocks: dict[str, Wire]
    """Instance name to its typed block."""
    sandboxes: dict[str, Wire]
    """Name of the sandbox block to its provider's typed settings."""
    secrets: Secrets


@dataclass(frozen=True)
class Contradiction:
    """A block that is right in itself and does not go with another."""

    path: str
    """Dotted, of the setting."""
    sentence: str


def check_config(
    composed: Composed,
    *,
    block_class: BlockClass,
    provider_class: ProviderClass,
    contradictions: Callable[[CheckedConfig], Iterable[Contradiction]] = lambda _: (),
) -> CheckedConfig:
    """Everything that can be checked before a process starts. Raises ConfigError with all mistakes at once.

    `contradictions` gets what is right so far, without the blocks that are wrong in themselves.
    """
    reading = ConfigReading(composed)
    run = reading.run_config()
    checking = _Checking(reading.problems)
    blocks = {name: checking.server(server, block_class) for name, server in run.servers.items()}
    sandboxes = {name: checking.sandbox(name, block, provider_class) for name, block in run.sandboxes.items()}
    checked = CheckedConfig(
        composed=composed,
        run=run,
        blocks={name: block for name, block in blocks.items() if block is not None},
        sandboxes={name: block for name, block in sandboxes.items() if block is not None},
        secrets=frozenset(checking.secrets),
    )
    for found in contradictions(checked):
        reading.problems.note(found.path, found.sentence)
    checking.raise_problems()
    return checked


def check_blocks(config: RunConfig, block_class: BlockClass, *, composed: Composed) -> dict[str, Wire]:
    """The server blocks of a configuration that was read before. Raises ConfigError with all their mistakes at once."""
    checking = _Checking(Problems(composed))
    blocks = {name: checking.server(server, block_class) for name, server in config.servers.items()}
    checking.raise_problems()
    return {name: block for name, block in blocks.items() if block is not None}


class _Checking:
    def __init__(self, problems: Problems) -> None:
        self.secrets: set[str] = set()
        self._problems = problems

    def server(self, server: ServerInstance, block_class: BlockClass) -> Wire | None:
        return self._checked(lambda: block_class(server), server.block, server.path)

    def sandbox(self, name: str, block: JsonObject, provider_class: ProviderClass) -> Wire | None:
        provider = next(key for key in block if key != DEFAULT_METADATA)
        return self._checked(lambda: provider_class(provider), block[provider], f"{name}.{provider}")

    def raise_problems(self) -> None:
        found = self._problems.lines()
        if found:
            secrets = frozenset(self.secrets)
            raise ConfigError([redact_text(problem, secrets) for problem in found])

    def _checked(self, find_class: Callable[[], type[Wire]], block: JsonObject, path: str) -> Wire | None:
        try:
            owner = find_class()
        except ConfigError as error:
            for problem in error.problems:
                self._problems.note(path, problem)
            return None
        except Exception as error:  # noqa: BLE001 - an implementation's own import may fail in any way
            self._problems.note(path, f"its code cannot be loaded: {type(error).__name__}: {error}")
            return None
        self.secrets |= secret_values(owner, block)
        return self._problems.validated(owner, digits_as_text(owner, block), path)


def digits_as_text(owner: type[BaseModel], block: JsonObject) -> JsonObject:
    """The block with whole numbers as text where its class wants text: a key or a model's name may be all digits."""
    try:
        owner.model_validate(block)
    except ValidationError as error:
        for details in error.errors():
            if details["type"] == "string_type" and type(details["input"]) is int:
                block = _with_text(block, details["loc"], str(details["input"]))
    return block


def _with_text(value: Any, loc: Sequence[int | str], text: str) -> Any:  # Any: whatever JSON is on the way there
    """A copy with the text at a place; its parts that are no keys are pydantic's words for a union's branch."""
    if not loc:
        return text
    part, rest = loc[0], loc[1:]
    if isinstance(value, dict) and part in value:
        return {**value, part: _with_text(value[part], rest, text)}
    if isinstance(value, list) and isinstance(part, int):
        return [_with_text(item, rest, text) if index == part else item for index, item in enumerate(value)]
    return _with_text(value, rest, text) if rest else value
