"""References between blocks: `{type, name}` of a server, each checked against the instances that there are."""

from collections.abc import Iterable, Iterator, Mapping

from gym_core.config.nearest import hint
from gym_core.config.problems import Problems
from gym_core.config.roots import TYPE_WORDS, ServerType
from gym_core.config.schema import EnvironmentConfig, ServerInstance, ServerRef
from gym_core.types.wire import JsonObject

POLICY = "policy_model"
"""Name of the instance that every `model_servers/*/configs` file defines: what `--model-type` chooses."""


class ReferenceCheck:
    def __init__(self, types: Mapping[str, ServerType], problems: Problems) -> None:
        self._types = types
        """Of every instance, those with a mistake in their block included: one mistake, one problem."""
        self._problems = problems

    def environments(self, environments: Iterable[EnvironmentConfig]) -> None:
        for environment in environments:
            self._takes(environment.resources_server, ServerType.RESOURCES, f"{environment.path}.resources_server")
            self._takes(environment.agent_server, ServerType.AGENT, f"{environment.path}.agent_server")

    def servers(self, servers: Iterable[ServerInstance]) -> None:
        for server in servers:
            for path, value in _references(server.block, server.path):
                ref = self._problems.validated(ServerRef, value, path)
                if ref is not None:
                    self._exists(ref, path)

    def _takes(self, ref: ServerRef, kind: ServerType, path: str) -> None:
        if ref.type is kind:
            self._exists(ref, path)
        else:
            field = path.rpartition(".")[2]
            self._problems.note(f"{path}.type", f"{ref.type.value!r} cannot be the {field}; it takes {kind.value!r}")

    def _exists(self, ref: ServerRef, path: str) -> None:
        actual = self._types.get(ref.name)
        if actual is None:
            fitting = [name for name, kind in self._types.items() if kind is ref.type]
            advice = hint(ref.name, fitting)
            if ref.type is ServerType.MODEL and (ref.name == POLICY or not fitting):
                advice = "; choose one with --model-type"
            self._problems.note(f"{path}.name", f"no server {ref.name!r} of type {ref.type.value!r}{advice}")
        elif actual is not ref.type:
            self._problems.note(f"{path}.type", f"{ref.name!r} is of type {actual.value!r}, not {ref.type.value!r}")


def _references(value: object, path: str) -> Iterator[tuple[str, JsonObject]]:
    """Every `{type, name}` whose type is a server type, or whose key says that it should be."""
    if isinstance(value, dict):
        if set(value) == {"type", "name"} and (path.endswith("_server") or _is_type_word(value["type"])):
            yield path, value
            return
        for key, item in value.items():
            yield from _references(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _references(item, f"{path}.{index}")


def _is_type_word(value: object) -> bool:
    return isinstance(value, str) and value in TYPE_WORDS
