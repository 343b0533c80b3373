"""From composed values to a typed `RunConfig`: what each top-level key is, and every mistake in it noted."""

import pkgutil
import re
from collections.abc import Iterator

from gym_core.config.compose import Composed
from gym_core.config.layers import ENV_FILE
from gym_core.config.nearest import hint, nearest
from gym_core.config.problems import Problems
from gym_core.config.references import ReferenceCheck
from gym_core.config.roots import INSTALL_DIR, TYPE_WORDS, ServerType
from gym_core.config.schema import (
    EnvironmentConfig,
    HeadConfig,
    LaunchOptions,
    RunConfig,
    ServerInstance,
)
from gym_core.errors import ConfigError
from gym_core.types.ids import SAFE_ID
from gym_core.types.run import RunOptions
from gym_core.types.session import Sampling
from gym_core.types.wire import JsonObject

HEAD = "head_server"
SAMPLING = "responses_create_params"
POLICY_PARAMETERS = ("policy_base_url", "policy_api_key", "policy_model_name")
"""Given by habit to every run, also where the policy needs none of them."""
DEFAULT_METADATA = "default_metadata"
"""The one key of a sandbox block that is no provider: labels for every sandbox made from it."""
PROVIDERS_FOLDER = INSTALL_DIR / "gym_core" / "sandbox" / "providers"
"""Looked at, not imported: the sandbox layer is above this one."""
PROTOCOLS = ("single_agent_turn_legacy", "single_agent_turn")


class ConfigReading:
    """One reading of a configuration. What is wrong is left out of the result and noted in `problems`."""

    def __init__(self, composed: Composed) -> None:
        self.composed = composed
        self.problems = Problems(composed)
        self._servers: dict[str, ServerInstance] = {}
        self._environments: dict[str, EnvironmentConfig] = {}
        self._sandboxes: dict[str, JsonObject] = {}
        self._meant_as_sandboxes: set[str] = set()
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
                self.problems.note(path, f"no sandbox block {name!r}{hint(name, self._sandboxes)}")
        references = ReferenceCheck(self._instance_types, self.problems)
        references.environments(self._environments.values())
        references.servers(self._servers.values())
        run_values = {name: values[name] for name in RunOptions.model_fields if name in values}
        self._check_run_values(run_values)
        sampling = self.problems.validated(Sampling, values.get(SAMPLING) or {}, SAMPLING)
        launch = {name: values[name] for name in LaunchOptions.model_fields if name in values}
        return RunConfig(
            servers=self._servers,
            environments=self._environments,
            sandboxes=self._sandboxes,
            head=self.problems.validated(HeadConfig, values.get(HEAD) or {}, HEAD) or HeadConfig(),
            launch=self.problems.validated(LaunchOptions, launch, "") or LaunchOptions(),
            sampling=sampling or Sampling(),
            run_values=run_values,
            parameters=self._parameters,
        )

    def config_with_sandboxes(self) -> RunConfig:
        """As `run_config`, where only its sandbox blocks matter. Raises ConfigError where one is wrong, or there is
        none."""
        config = self.run_config()
        if mistakes := self.problems.lines_inside(self._meant_as_sandboxes):
            raise ConfigError(mistakes)
        if not config.sandboxes:
            self.problems.raise_if_any()
            raise ConfigError("config: there is no sandbox block in what is selected")
        return config

    def _read_top_level(self, name: str, value: object, asked_for: dict[str, str]) -> None:
        if name in (HEAD, SAMPLING) or name in LaunchOptions.model_fields or name in RunOptions.model_fields:
            return
        if name in self.composed.deleted:
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
            self.problems.note(
                name, f"one server type a block, but beside {words[0]!r} stands {', '.join(map(repr, others))}"
            )
            return
        if not re.match(SAFE_ID, name):
            self.problems.note(name, "the name of a server takes letters, digits, '.', '_' and '-'")
            return
        kind = TYPE_WORDS[words[0]]
        implementations = _chosen(value[words[0]])
        self._instance_types[name] = kind
        path = f"{name}.{kind}"
        if not isinstance(implementations, dict) or not implementations:
            self.problems.note(path, "holds no implementation; write its folder name here, with its fields under it")
        elif len(implementations) > 1:
            names = ", ".join(map(repr, implementations))
            self.problems.note(path, f"one implementation a block, but there are {names}; set the others to null")
        else:
            ((implementation, block),) = implementations.items()
            self._read_block(name, kind, implementation, block)

    def _read_block(self, name: str, kind: ServerType, implementation: str, block: object) -> None:
        path = f"{name}.{kind}.{implementation}"
        if block is not None and not isinstance(block, dict):
            self.problems.note(path, f"is {type(block).__name__}, not a mapping of fields")
        elif kind is ServerType.ENVIRONMENT:
            if implementation not in PROTOCOLS:
                self.problems.note(path, f"no environment protocol {implementation!r}{hint(implementation, PROTOCOLS)}")
                return
            for own in {"name", "protocol"} & set(block or {}):
                self.problems.note(f"{path}.{own}", "unknown field")
            fields = {**(block or {}), "name": name, "protocol": implementation}
            environment = self.problems.validated(EnvironmentConfig, fields, path)
            if environment is not None:
                self._environments[name] = environment
        else:
            known = self.composed.roots.names_in(kind)
            if implementation not in known:
                self.problems.note(path, f"no folder {kind}/{implementation}{hint(implementation, known)}")
            fields = {"name": name, "type": kind, "implementation": implementation, "block": block or {}}
            instance = self.problems.validated(ServerInstance, fields, name)
            if instance is not None:
                self._servers[name] = instance

    def _read_sandbox(self, name: str, value: JsonObject) -> None:
        self._meant_as_sandboxes.add(name)
        known = self._providers
        providers = [key for key in value if key != DEFAULT_METADATA]
        if len(providers) != 1:
            self.problems.note(
                name, f"one provider a sandbox block, but there are {', '.join(map(repr, providers)) or 'none'}"
            )
            return
        (provider,) = providers
        fields = value[provider]
        if provider not in known:
            self.problems.note(f"{name}.{provider}", f"no sandbox provider {provider!r}{hint(provider, known)}")
        elif fields is not None and not isinstance(fields, dict):
            self.problems.note(f"{name}.{provider}", f"is {type(fields).__name__}, not a mapping of fields")
        self._sandboxes[name] = {**value, provider: fields or {}}

    def _note_unknown_block(self, name: str, value: JsonObject) -> None:
        near = next((nearest(word, TYPE_WORDS) for word in value if nearest(word, TYPE_WORDS)), None)
        if near is not None:
            wrong = next(word for word in value if nearest(word, TYPE_WORDS))
            self.problems.note(f"{name}.{wrong}", f"no server type {wrong!r}; did you mean {near!r}?")
        else:
            self.problems.note(
                name, f"is neither a server nor a sandbox, and nothing uses it{self._near_top_level(name)}"
            )

    def _note_unused(self, name: str) -> None:
        """An unused value is a mistake; in env.yaml, which many configurations share, only if it looks mistyped."""
        where = self.composed.origin.get(name)
        near = self._near_top_level(name)
        if where is not None and where.source == ENV_FILE and not near:
            self._parameters[name] = self.composed.values[name]
            return
        self.problems.note(name, f"no such option, and no ${{{name}}} uses it{near}")

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
                    self.problems.note(path, "names a top-level sandbox block")
        return named

    def _check_run_values(self, run_values: JsonObject) -> None:
        self.problems.validated(RunOptions, {"output_jsonl_fpath": "unknown yet", **run_values}, "")
        environment = run_values.get("environment")
        if isinstance(environment, str) and environment not in self._environments:
            self.problems.note("environment", f"no environment {environment!r}{hint(environment, self._environments)}")


def sandbox_providers() -> list[str]:
    """Names of the providers that this installation has."""
    return sorted(module.name for module in pkgutil.iter_modules([str(PROVIDERS_FOLDER)]))


def _looks_like_sandbox(value: JsonObject, providers: list[str]) -> bool:
    keys = set(value) - {DEFAULT_METADATA}
    return bool(keys) and keys.issubset(providers)


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
