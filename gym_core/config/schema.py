"""A run's configuration as typed, frozen objects. Blocks of servers and sandboxes stay JSON for their owners."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gym_core.config.roots import TYPE_WORDS, ServerType
from gym_core.types.ids import SafeId
from gym_core.types.session import Sampling
from gym_core.types.wire import JsonObject, Wire


def own_type_word(word: object) -> object:
    """NeMo Gym's word for a server type as ours; anything else as it is."""
    return TYPE_WORDS.get(word, word) if isinstance(word, str) else word


ServerTypeWord = Annotated[ServerType, BeforeValidator(own_type_word)]


class ServerRef(Wire):
    """How one block names a server instance."""

    type: ServerTypeWord
    name: SafeId


class ServerInstance(Wire):
    """One server process to be."""

    name: SafeId
    """The top-level key; what references use."""
    type: ServerTypeWord
    implementation: str
    """Folder name under the folder of its type."""
    block: JsonObject
    """Its fields, to be checked by the implementation's own class."""

    @property
    def path(self) -> str:
        """Dotted path of the block in the configuration."""
        return f"{self.name}.{self.type}.{self.implementation}"


class DatasetConfig(Wire):
    name: str
    type: str
    """The split: "benchmark", "train", "validation", "example"."""
    jsonl_fpath: str
    """Relative paths: see `roots.dataset_path`."""
    prepare_script: str | None = None
    """A Python file with `prepare(args, jsonl_fpath) -> Path`; None when the file comes from elsewhere."""
    prepare_args: JsonObject = {}
    num_repeats: int = Field(default=1, gt=0)
    """Rollouts a task, unless the run says otherwise."""


class EnvironmentConfig(Wire):
    """Which resources and agent server make up an environment, and its datasets. The head server runs it."""

    name: SafeId
    protocol: Literal["single_agent_turn_legacy", "single_agent_turn"]
    resources_server: ServerRef
    agent_server: ServerRef
    datasets: list[DatasetConfig] = []
    max_concurrent_episodes: int | None = Field(default=None, gt=0)
    """None means as many as the run asks for."""

    @property
    def path(self) -> str:
        return f"{self.name}.{ServerType.ENVIRONMENT}.{self.protocol}"


class HeadConfig(Wire):
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, lt=65536)
    """0 means any free port."""


class LaunchOptions(Wire):
    """Top-level switches that are about starting, not about the evaluation."""

    reuse_existing_data_preparation: bool = False
    """Leave prepared data files alone instead of preparing them again."""
    dry_run: bool = False
    """Check everything, say what would run, start nothing."""
    use_absolute_ip: bool = False
    """The policy model server listens on this machine's address, for sandboxes on other hosts; all else stays local."""
    default_host: str = "127.0.0.1"
    """Where servers listen whose block names no host."""


class RunConfig(Wire):
    servers: dict[str, ServerInstance]
    """Resources, agent and model servers by instance name."""
    environments: dict[str, EnvironmentConfig]
    sandboxes: dict[str, JsonObject]
    """Blocks that a `sandbox_provider` can name: `{provider: {...}}`."""
    head: HeadConfig = HeadConfig()
    launch: LaunchOptions = LaunchOptions()
    sampling: Sampling = Sampling()
    """Of the policy, where a task's own row does not say otherwise: the top-level `responses_create_params`."""
    run_values: JsonObject = {}
    """The fields of `RunOptions` given at top level, already of the right types."""
    parameters: JsonObject = {}
    """Top-level values that other values interpolate."""
