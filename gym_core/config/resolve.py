"""The two questions a command asks of a composed configuration: what is it, and which evaluation does it describe."""

from gym_core.config.compose import Composed
from gym_core.config.reading import ConfigReading
from gym_core.config.schema import RunConfig
from gym_core.errors import ConfigError
from gym_core.types.run import RunOptions

NO_OUTPUT = "config: output_jsonl_fpath: missing; give --output PATH or ++output_jsonl_fpath=PATH"


def read_run_config(composed: Composed) -> RunConfig:
    """Raises ConfigError with every mistake that can be seen without the servers' own classes."""
    reading = ConfigReading(composed)
    config = reading.run_config()
    reading.problems.raise_if_any()
    return config


def read_run_options(config: RunConfig) -> RunOptions:
    """The options of an evaluation. Raises ConfigError when no output file is named."""
    if not config.run_values.get("output_jsonl_fpath"):
        raise ConfigError(NO_OUTPUT)
    return RunOptions.model_validate(config.run_values)
