"""From composed values to a typed `RunConfig`: servers, environments, sandboxes, options; every mistake at once."""

import pkgutil
import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from gym_core.config.compose import Composed
from gym_core.config.layers import ENV_FILE
from gym_core.config.nearest import hint, nearest
from gym_core.config.roots import INSTALL_DIR, TYPE_WORDS, ServerType
from gym_core.config.schema import (
    EnvironmentConfig,
    HeadConfig,
    LaunchOptions,
    RunConfig,
    SamplingDefaults,
    ServerInstance,
    ServerRef,
)
from gym_core.config.violations import violations
from gym_core.errors import ConfigError
from gym_core.types.ids import SAFE_ID
from gym_core.types.run import RunOptions
from gym_core.types.wire import JsonObject

HEAD = "head_server"
SAMPLING = "responses_create_params"
POLICY = "policy_model"
"""Name of the instance that every `model_servers/*/configs` file defines: what `--model-type` chooses."""
POLICY_PARAMETERS = ("policy_base_url", "policy_api_key", "policy_model_name")
"""Given by habit to every run, also where the policy needs none of them."""
DEFAULT_METADATA = "default_metadata"
"""The one key of a sandbox block that is no provider: labels for every sandbox made from it."""
PROVIDERS_FOLDER = INSTALL_DIR / "gym_core" / "sandbox" / "providers"
"""Looked at, not imported: the sandbox layer is above this one."""
PROTOCOLS = ("single_agent_turn_legacy", "single_agent_turn")

Model = TypeVar("Model", bound=BaseModel)


def read_run_config(composed: Composed) -> RunConfig:
    """Raises ConfigError with every mistake that can be seen without the servers' own classes."""
    reading = ConfigReading(composed)
    config = reading.run_config()
    if reading.problems:
        raise ConfigError(reading.problems)
    return config


class ConfigReading:
    """One reading of a configuration. What is wrong is left out of the result and noted in `problems`."""

    def __init__(self, composed: Composed) -> None:
        self.composed = composed
        self._problems: list[tuple[str, str]] = [(path, text) for path, text in composed.unresolved.items() if text]
        self._servers: dict[str, ServerInstance] = {}
        self._environments: dict[str, EnvironmentConfig] = {}
        self._sandboxes: dict[str, JsonObject] = {}
        self._instance_types: dict[str, ServerType] = {}
        self._parameters: JsonObject = {}
        self._providers = sandbox_providers()

    def run_config(self) -> RunConfig:
        values = self.composed.values
        asked_for = self._sandbox_names()
        for name, value in values.items():
            self._read_top_level(name, value, asked_for)
        for name, path in asked_for.items():
            if name not in values:
                self.note(path, f"no sandbox block {name!r}{hint(name, self._sandboxes)}")
        self._check_references()
        run_values = {name: values[name] for name in RunOptions.model_fields if name in values}
        self._check_run_values(run_values)
        launch = {name: values[name] for name in LaunchOptions.model_fields if name in values}
        return RunConfig(
            servers=self._servers,
            environments=self._environments,
            sandboxes=self._sandboxes,
            head=self._validated(HeadConfig, values.get(HEAD) or {}, HEAD) or HeadConfig(),
            launch=self._validated(LaunchOptions, launch, "") or LaunchOptions(),
            sampling=self._validated(SamplingDefaults, values.get(SAMPLING) or {}, SAMPLING) or SamplingDefaults(),
            run_values=run_values,
            parameters=self._parameters,
        )

    @property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(text for _, text in self._problems))

    def problems_of(self, names: Iterable[str]) -> list[str]:
        """Those within these top-level blocks, and those of options, which may be misspelt names of anything."""
        within = tuple(f"{name}." for name in names)
        kept = [
            text
            for path, text in self._problems
            if path.startswith(within) or ("." not in path and path not in self.composed.unresolved)
        ]
        return list(dict.fromkeys(kept))

    def note(self, path: str, sentence: str) -> None:
        """Add a problem, unless it only follows from a value that is missing anyway."""
        if path in self.composed.unresolved:
            return
        where = self.composed.origin_of(path)
        self._problems.append((path, f"config: {path}: {sentence}" + (f" ({where})" if where else "")))

    def _read_top_level(self, name: str, value: object, asked_for: dict[str, str]) -> None:
        if name in (HEAD, SAMPLING) or name in LaunchOptions.model_fields or name in RunOptions.model_fields:
            return
        if isinstance(value, dict) and any(word in TYPE_WORDS for word in value):
            self._read_instance(name, value)
        elif isinstance(value, dict) and (name in asked_for or _looks_like_sandbox(value, self._providers)):
            self._read_sandbox(name, value)
        elif name in POLICY_PARAMETERS or self._is_interpolated(name):
            self._parameters[name] = value
        elif isinstance(value, dict):
            self._note_unknown_block(name, value)
        else:
            self._note_unused(name)

    def _read_instance(self, name: str, value: JsonObject) -> None:
        words = [word for word in value if word in TYPE_WORDS]
        if len(words) > 1 or len(value) > 1:
            others = [word for word in value if word != words[0]]
            self.note(name, f"one server type a block, but beside {words[0]!r} stands {', '.join(map(repr, others))}")
            return
        if not re.match(SAFE_ID, name):
            self.note(name, "the name of a server takes letters, digits, '.', '_' and '-'")
            return
        kind = TYPE_WORDS[words[0]]
        implementations = _chosen(value[words[0]])
        self._instance_types[name] = kind
        path = f"{name}.{kind}"
        if not isinstance(implementations, dict) or not implementations:
            self.note(path, "holds no implementation; write its folder name here, with its fields under it")
        elif len(implementations) > 1:
            names = ", ".join(map(repr, implementations))
            self.note(path, f"one implementation a block, but there are {names}; set the others to null")
        else:
            ((implementation, block),) = implementations.items()
            self._read_block(name, kind, implementation, block)

    def _read_block(self, name: str, kind: ServerType, implementation: str, block: object) -> None:
        path = f"{name}.{kind}.{implementation}"
        if block is not None and not isinstance(block, dict):
            self.note(path, f"is {type(block).__name__}, not a mapping of fields")
        elif kind is ServerType.ENVIRONMENT:
            if implementation not in PROTOCOLS:
                self.note(path, f"no environment protocol {implementation!r}{hint(implementation, PROTOCOLS)}")
                return
            fields = {"name": name, "protocol": implementation, **(block or {})}
            environment = self._validated(EnvironmentConfig, fields, path)
            if environment is not None:
                self._environments[name] = environment
        else:
            known = self.composed.roots.names_in(kind)
            if implementation not in known:
                self.note(path, f"no folder {kind}/{implementation}{hint(implementation, known)}")
            fields = {"name": name, "type": kind, "implementation": implementation, "block": block or {}}
            instance = self._validated(ServerInstance, fields, name)
            if instance is not None:
                self._servers[name] = instance

    def _read_sandbox(self, name: str, value: JsonObject) -> None:
        known = self._providers
        providers = [key for key in value if key != DEFAULT_METADATA]
        if len(providers) != 1:
            self.note(name, f"one provider a sandbox block, but there are {', '.join(map(repr, providers)) or 'none'}")
            return
        (provider,) = providers
        fields = value[provider]
        if provider not in known:
            self.note(f"{name}.{provider}", f"no sandbox provider {provider!r}{hint(provider, known)}")
        elif fields is not None and not isinstance(fields, dict):
            self.note(f"{name}.{provider}", f"is {type(fields).__name__}, not a mapping of fields")
        self._sandboxes[name] = {**value, provider: fields or {}}

    def _note_unknown_block(self, name: str, value: JsonObject) -> None:
        near = next((nearest(word, TYPE_WORDS) for word in value if nearest(word, TYPE_WORDS)), None)
        if near is not None:
            wrong = next(word for word in value if nearest(word, TYPE_WORDS))
            self.note(f"{name}.{wrong}", f"no server type {wrong!r}; did you mean {near!r}?")
        else:
            self.note(name, f"is neither a server nor a sandbox, and nothing uses it{self._near_top_level(name)}")

    def _note_unused(self, name: str) -> None:
        """An unused value is a mistake; in env.yaml, which many configurations share, only if it looks mistyped."""
        where = self.composed.origin.get(name)
        near = self._near_top_level(name)
        if where is not None and where.source == ENV_FILE and not near:
            self._parameters[name] = self.composed.values[name]
            return
        self.note(name, f"no such option, and no ${{{name}}} uses it{near}")

    def _near_top_level(self, name: str) -> str:
        known = {*RunOptions.model_fields, *LaunchOptions.model_fields, HEAD, SAMPLING, *POLICY_PARAMETERS}
        known |= {path.partition(".")[0] for path in self.composed.interpolated}
        match = nearest(name, known)
        return "" if match is None else f"; did you mean {match!r}?"

    def _is_interpolated(self, name: str) -> bool:
        return any(path == name or path.startswith(name + ".") for path in self.composed.interpolated)

    def _sandbox_names(self) -> dict[str, str]:
        """Each name that a server's `sandbox_provider` gives, with the path where it stands."""
        named: dict[str, str] = {}
        for instance, types in self.composed.values.items():
            for kind, implementation, block in _blocks(types):
                provider = block.get("sandbox_provider")
                path = f"{instance}.{kind}.{implementation}.sandbox_provider"
                if isinstance(provider, str):
                    named.setdefault(provider, path)
                elif provider is not None:
                    self.note(path, "names a top-level sandbox block")
        return named

    def _check_references(self) -> None:
        for environment in self._environments.values():
            wanted = {"resources_server": ServerType.RESOURCES, "agent_server": ServerType.AGENT}
            for field, kind in wanted.items():
                ref = environment.resources_server if field == "resources_server" else environment.agent_server
                path = f"{environment.path}.{field}"
                if ref.type is kind:
                    self._check_reference(ref, path)
                else:
                    self.note(f"{path}.type", f"{ref.type.value!r} cannot be the {field}; it takes {kind.value!r}")
        for server in self._servers.values():
            for path, value in _references(server.block, server.path):
                checked = self._validated(ServerRef, value, path)
                if checked is not None:
                    self._check_reference(checked, path)

    def _check_reference(self, ref: ServerRef, path: str) -> None:
        actual = self._instance_types.get(ref.name)
        if actual is None:
            fitting = [name for name, kind in self._instance_types.items() if kind is ref.type]
            advice = hint(ref.name, fitting)
            if ref.type is ServerType.MODEL and (ref.name == POLICY or not fitting):
                advice = "; choose one with --model-type"
            self.note(f"{path}.name", f"no server {ref.name!r} of type {ref.type.value!r}{advice}")
        elif actual is not ref.type:
            self.note(f"{path}.type", f"{ref.name!r} is of type {actual.value!r}, not {ref.type.value!r}")

    def _check_run_values(self, run_values: JsonObject) -> None:
        self._validated(RunOptions, {"output_jsonl_fpath": "unknown yet", **run_values}, "")
        environment = run_values.get("environment")
        if environment is not None and environment not in self._environments:
            self.note("environment", f"no environment {environment!r}{hint(str(environment), self._environments)}")

    def _validated(self, model: type[Model], fields: object, path: str) -> Model | None:
        try:
            return model.model_validate(fields)
        except ValidationError as error:
            for place, sentence in violations(error, model, path):
                self.note(place, sentence)
            return None


def read_run_options(config: RunConfig) -> RunOptions:
    """The options of an evaluation. Raises ConfigError when no output file is named."""
    if not config.run_values.get("output_jsonl_fpath"):
        raise ConfigError("config: output_jsonl_fpath: missing; give --output PATH or ++output_jsonl_fpath=PATH")
    return RunOptions.model_validate(config.run_values)


def sandbox_providers() -> list[str]:
    """Names of the providers that this installation has."""
    return sorted(module.name for module in pkgutil.iter_modules([str(PROVIDERS_FOLDER)]))


def _looks_like_sandbox(value: JsonObject, providers: list[str]) -> bool:
    return len(set(value) - {DEFAULT_METADATA}) == 1 and any(key in providers for key in value)


def _chosen(implementations: object) -> object:
    """Of several implementations those that are not null: how an including file takes one out to put in its own."""
    if not isinstance(implementations, dict) or len(implementations) < 2:
        return implementations
    return {name: block for name, block in implementations.items() if block is not None}


def _blocks(types: object) -> Iterator[tuple[str, str, JsonObject]]:
    """(server type, implementation, block) of everything under one top-level key."""
    if not isinstance(types, dict):
        return
    for kind, implementations in types.items():
        if kind in TYPE_WORDS and isinstance(implementations, dict):
            for implementation, block in implementations.items():
                if isinstance(block, dict):
                    yield kind, implementation, block


def _references(value: object, path: str) -> Iterator[tuple[str, JsonObject]]:
    """Every `{type, name}` whose type is a server type, or whose key says that it should be."""
    if isinstance(value, dict):
        if set(value) == {"type", "name"} and (value["type"] in TYPE_WORDS or path.endswith("_server")):
            yield path, value
            return
        for key, item in value.items():
            yield from _references(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _references(item, f"{path}.{index}")
